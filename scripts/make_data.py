"""Record and generate the sample runs of data/ again; see data/CATALOGUE.md.

    python scripts/make_data.py [NAME ...]

Run it with the project's environment, on an idle machine. It overwrites the sample runs (all, or
those named), so the notebooks have to be executed again after it (make notebooks).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from workbench.capture import CapturePlan, record
from workbench.costs import run_roofs
from workbench.costs.ceilings import ceilings
from workbench.trace.open import CEILINGS_FILE
from workbench.trace.synthetic import SyntheticSpec, generate

DATA = Path(__file__).parents[1] / "data"
GENERATED = "generated_gpu_2ranks"
STEPS = 3
RECORDED = {
    "gpt_tiny_cpu": {"ranks": 1, "steps": STEPS},
    "gpt_tiny_cpu_2ranks": {"ranks": 2, "steps": STEPS},
    "gpt_tiny_cpu_stacks": {"ranks": 1, "steps": 2, "stacks": True},
}
MACHINE_FIELDS = ("command", "git", "owner", "processes")
"""What a sample says nothing about: it belongs to the machine that recorded it."""


def main() -> None:
    """Write every sample run, or those that are named."""
    wanted = sys.argv[1:] or [*RECORDED, GENERATED]
    for name, options in RECORDED.items():
        if name in wanted:
            _record(DATA / name, options)
    if GENERATED in wanted:
        _generate(DATA / GENERATED)


def _generate(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    generate(SyntheticSpec(layers=2, steps=STEPS)).write(folder, answers=True)
    print(f"{GENERATED}: generated")


def _record(folder: Path, options: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="sample-") as temporary:
        out = Path(temporary) / folder.name
        run = record(CapturePlan(workload="gpt", device="cpu", out=out, **options))
        if run.wait() != "done":
            sys.exit(f"{folder.name}: {run.error}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in (*out.glob("rank*.trace.json.gz"), out / "telemetry.csv"):
            shutil.copy(path, folder)
        run_roofs.keep(ceilings("cpu"), out)
        shutil.copy(out / CEILINGS_FILE, folder)
        manifest = json.loads((out / "run.json").read_text())
    for field in MACHINE_FIELDS:
        manifest.pop(field, None)
    manifest["plan"] |= {"out": None, "python": None}
    manifest["machine"].pop("host", None)
    (folder / "run.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{folder.name}: recorded")


if __name__ == "__main__":
    main()
