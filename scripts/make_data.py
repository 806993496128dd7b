"""Record and generate the sample runs of data/ again; see data/CATALOGUE.md.

Run it with the project's environment. It overwrites the sample runs, so the notebooks have to be
executed again after it (make notebooks).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from workbench.capture import CapturePlan, record
from workbench.trace.synthetic import SyntheticSpec, generate

DATA = Path(__file__).parents[1] / "data"
RECORDED = {"gpt_tiny_cpu": 1, "gpt_tiny_cpu_2ranks": 2}
GENERATED = "generated_gpu_2ranks"
STEPS = 3
MACHINE_FIELDS = ("command", "git", "owner", "processes")
"""What a sample says nothing about: it belongs to the machine that recorded it."""


def main() -> None:
    """Write every sample run."""
    for name, ranks in RECORDED.items():
        _record(DATA / name, ranks)
    folder = DATA / GENERATED
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    generate(SyntheticSpec(layers=2, steps=STEPS)).write(folder, answers=True)
    print(f"{GENERATED}: generated")


def _record(folder: Path, ranks: int) -> None:
    with tempfile.TemporaryDirectory(prefix="sample-") as temporary:
        out = Path(temporary) / folder.name
        run = record(CapturePlan(workload="gpt", device="cpu", ranks=ranks, steps=STEPS, out=out))
        if run.wait() != "done":
            sys.exit(f"{folder.name}: {run.error}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in (*out.glob("rank*.trace.json.gz"), out / "telemetry.csv"):
            shutil.copy(path, folder)
        manifest = json.loads((out / "run.json").read_text())
    for field in MACHINE_FIELDS:
        manifest.pop(field, None)
    manifest["plan"] |= {"out": None, "python": None}
    manifest["machine"].pop("host", None)
    (folder / "run.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{folder.name}: recorded")


if __name__ == "__main__":
    main()
