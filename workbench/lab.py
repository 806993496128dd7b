"""`workbench lab`: JupyterLab on the start notebook."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from workbench import resources
from workbench.errors import InputError

START = "00_start.ipynb"
DEFAULT = Path("workbench-notebooks")
CONFIG = Path(__file__).parent / "server_config"
"""What the server loads beside the user's own configuration."""


def prepare(folder: Path | None) -> Path:
    """Return the start notebook to open, copying the notebooks to the user's folder if need be.

    In a clone they are opened where they are. From an installed package they are copied into
    `folder` (default `workbench-notebooks`); what the user has there already is left as it is.
    """
    shipped = resources.notebooks()
    if folder is None and (shipped.parent / "pyproject.toml").exists():
        return shipped / START
    target = folder or DEFAULT
    try:
        target.mkdir(parents=True, exist_ok=True)
        for notebook in sorted(shipped.glob("*.ipynb")):
            if not (target / notebook.name).exists():
                shutil.copy(notebook, target)
    except OSError as e:
        raise InputError(f"The notebooks can't be copied to {target}: {e.strerror}.") from None
    return target / START


@dataclass(frozen=True)
class Serving:
    """Where a server listens, and whether it opens a browser."""

    ip: str = "localhost"
    port: int | None = None
    """The first that is free, from the server's usual one, when it is None."""
    browser: bool = True


def start(folder: Path | None, serving: Serving) -> None:
    """Replace this process by JupyterLab."""
    notebook = prepare(folder)
    command = [sys.executable, "-m", "jupyterlab", str(notebook), f"--ip={serving.ip}"]
    if serving.port is not None:
        command += [f"--port={serving.port}", "--ServerApp.port_retries=0"]
    if not serving.browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    os.execve(sys.executable, command, environment())  # noqa: S606 - a list, and no shell


def environment() -> dict[str, str]:
    """Return the server's environment: this process's, and where `CONFIG` lies."""
    places = [str(CONFIG), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    return os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(p for p in places if p)}
