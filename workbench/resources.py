"""Where the files lie that come with the package: the start notebooks and the data tables.

A clone has them at its top; a wheel carries copies under `_share` (see pyproject.toml).
"""

from __future__ import annotations

from pathlib import Path

from workbench.errors import InputError

_PACKAGE = Path(__file__).resolve().parent


def notebooks() -> Path:
    """Return the folder of the numbered notebooks; raise InputError when it is missing."""
    return _folder("notebooks")


def data() -> Path:
    """Return the folder of sample runs and tables; raise InputError when it is missing."""
    return _folder("data")


def _folder(name: str) -> Path:
    shipped, cloned = _PACKAGE / "_share" / name, _PACKAGE.parent / name
    for folder in (shipped, cloned):
        if folder.is_dir():
            return folder
    raise InputError(
        f"The folder {name!r} that comes with workbench is neither at {shipped} nor at {cloned}; "
        "install the package again."
    )
