"""Nsight Systems' own reports (`.nsys-rep`), which only its own program can read."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from workbench.errors import InputError
from workbench.trace import container
from workbench.trace.core import Trace
from workbench.trace.nsys.read import read as read_export

PROGRAM = "nsys"
TIMEOUT_S = 1800
_SAID = 200


def read(path: Path) -> Trace:
    """Convert a report with `nsys export`, where that is installed, and read the result.

    Raises
    ------
    InputError
        `nsys` is not installed, fails, or takes longer than `TIMEOUT_S`.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise InputError(
            f"{path} is a report that only nsys can read, and nsys is not on the PATH; convert it "
            f"where it was recorded (nsys export --type sqlite {path.name}) and open the result."
        )
    with tempfile.TemporaryDirectory(prefix="workbench-nsys-") as folder:
        export = Path(folder) / "export.sqlite"
        _convert(program, path, export)
        try:
            trace = read_export(export)
        except InputError as error:
            reason = str(error).replace(str(export), "the result")
            raise InputError(f"{path} was converted by nsys, but {reason}") from None
    return replace(trace, meta=replace(trace.meta, path=path, sha256=container.sha256(path)))


def _convert(program: str, path: Path, export: Path) -> None:
    command = [program, "export", "--type", "sqlite", "--output", str(export), str(path.resolve())]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{path}: nsys export took longer than {TIMEOUT_S // 60} minutes; "
            "convert it by hand and open the result."
        ) from None
    except OSError as e:
        raise InputError(f"{path}: nsys can't be run: {e.strerror}.") from None
    if done.returncode or not export.is_file():
        said = " ".join((done.stderr or done.stdout).split())[-_SAID:]
        raise InputError(f"{path}: nsys export failed ({said or 'it said nothing'}).")
