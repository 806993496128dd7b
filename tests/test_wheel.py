"""The wheel, installed into an environment of its own and used from another directory."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from workbench.version import __version__

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 15_000_000

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT]
    run(*build, cwd=out)
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def bin_folder(wheel, tmp_path_factory) -> Path:
    """An environment with the wheel; its dependencies are borrowed from the running one."""
    home = tmp_path_factory.mktemp("env")
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    run(*pip, wheel, cwd=home)
    (packages,) = home.glob("lib/python*/site-packages")
    # A folder named in a .pth file isn't searched for .pth files: the clone stays out of sight.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def tracked(*patterns: str) -> list[str]:
    listed = run("git", "ls-files", "--", *patterns, cwd=ROOT)
    return listed.splitlines()


def test_wheel_carries_code_notebooks_and_data(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = set(tracked("workbench"))
    wanted |= {f"workbench/_share/{name}" for name in tracked("notebooks/*.ipynb", "data")}
    assert wanted - names == set()


def test_wheel_carries_nothing_else_and_is_small(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"workbench"}
    assert wheel.stat().st_size < MOST_BYTES


def test_the_installed_package_is_the_wheel_and_finds_its_files(bin_folder, tmp_path):
    code = "import workbench; print(workbench.__file__)"
    where = run(bin_folder / "python", "-c", code, cwd=tmp_path)
    assert where.startswith(str(bin_folder.parent))
    for kind in ("notebooks", "data"):
        if not tracked(kind):
            continue
        code = f"from workbench import resources; print(resources.{kind}())"
        folder = Path(run(bin_folder / "python", "-c", code, cwd=tmp_path).strip())
        assert folder.is_relative_to(bin_folder.parent)
        assert any(folder.iterdir())


def test_the_command_runs_from_another_directory(bin_folder, tmp_path):
    if not (ROOT / "workbench" / "cli.py").exists():
        pytest.skip("there is no command line yet")
    assert __version__ in run(bin_folder / "workbench", "--version", cwd=tmp_path)
