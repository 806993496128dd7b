"""Show that the pinned set resolves on other Pythons: one line each, nothing is installed.

Torch is left out of the resolution, as its wheels on the public index are CUDA builds of some
gigabytes; whether it has a wheel for that Python is asked separately.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def main(versions: list[str]) -> int:
    """Resolve for each version; 1 when one of them does not resolve."""
    return max([resolve(version) for version in versions], default=0)


def resolve(version: str) -> int:
    """Print one line on one Python version; 1 when it does not resolve."""
    with tempfile.TemporaryDirectory() as target:
        done = pip(
            "install", "--dry-run", "--quiet", "--report", f"{target}/report.json",
            "--target", target, "-c", str(ROOT / "constraints.txt"), *target_flags(version),
            *requirements(),
        )  # fmt: skip
    if done.returncode:
        reason = next((x for x in done.stderr.splitlines() if x.startswith("ERROR")), "no reason")
        print(f"Python {version}: does not resolve ({reason}).")
        return 1
    print(f"Python {version}: the pinned set resolves; torch left out, {torch_wheel(version)}.")
    return 0


def target_flags(version: str) -> list[str]:
    """Return what makes pip decide for another Python than its own."""
    return ["--python-version", version, "--only-binary=:all:"]


def requirements() -> list[str]:
    """Return the declared dependencies, those of the extras included, without torch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for group in project["optional-dependencies"].values() for name in group]
    return [name for name in project["dependencies"] + extras if not name.startswith("torch>")]


def torch_wheel(version: str) -> str:
    """Say whether the index has the pinned torch for this Python."""
    pinned = next(
        line.removeprefix("torch==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line.startswith("torch==")
    )
    listed = pip("index", "versions", "torch", *target_flags(version)).stdout
    has = pinned in listed.replace(",", " ").split()
    return f"{pinned} {'has a wheel' if has else 'has no wheel'} for it"


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pip and keep what it says."""
    return subprocess.run([*PIP, *arguments], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
