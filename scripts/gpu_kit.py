"""Make the kit that `make gpu-check` needs on a node without network: all but torch and numpy.

    python scripts/gpu_kit.py [--out .kit] [--python 3.11 3.12]

Takes the pinned wheels for Linux on x86-64 and leaves one archive of their contents, `site.tar.xz`,
a third smaller than the wheels; `scripts/gpu_check.py` unpacks it. No notebook stack, no numba.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "annotated-doc", "attrs", "click", "hypothesis", "iniconfig", "isal", "markdown-it-py", "mdurl",
    "msgspec", "nvidia-ml-py", "packaging", "platformdirs", "pluggy", "polars", "polars-runtime-32",
    "psutil", "pygments", "pytest", "rich", "shellingham", "sortedcontainers", "typer",
    "typing-extensions",
)  # fmt: skip
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux1")
MOST_BYTES = 60_000_000


def pinned() -> list[str]:
    """Return NAME==VERSION of each package, from constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    versions = {_plain(line.partition("==")[0]): line for line in lines if "==" in line}
    missing = [name for name in PACKAGES if name not in versions]
    if missing:
        raise SystemExit(f"constraints.txt pins no {', '.join(missing)}; add them.")
    return [versions[name] for name in PACKAGES]


def download(wheels: Path, pythons: list[str]) -> None:
    """Fetch the wheels for each version of Python; those that fit several are fetched once."""
    for version in pythons:
        where = [x for p in PLATFORMS for x in ("--platform", f"{p}_x86_64")]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
             "--no-deps", "--only-binary=:all:", "--implementation", "cp", *where,
             "--python-version", version, "--dest", str(wheels), *pinned()],
            check=True,
        )  # fmt: skip


def pack(wheels: Path, out: Path) -> Path:
    """Put the contents of all wheels into one archive; SystemExit when it is too large."""
    with tempfile.TemporaryDirectory() as name:
        site = Path(name)
        for wheel in sorted(wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)  # noqa: S202 - of pinned packages; zipfile keeps inside
        out.mkdir(parents=True, exist_ok=True)
        kit = out / "site.tar.xz"
        with tarfile.open(kit, "w:xz", preset=3) as archive:
            for path in sorted(site.iterdir()):
                archive.add(path, path.name)
    if kit.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{kit} has {kit.stat().st_size:,} bytes, more than {MOST_BYTES:,}.")
    return kit


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Make the kit and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / ".kit")
    parser.add_argument("--python", nargs="+", default=["3.11", "3.12"], help="versions to fit")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        download(Path(name), options.python)
        kit = pack(Path(name), options.out)
    print(f"{kit}: {kit.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
