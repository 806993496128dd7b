"""`workbench lab --app`: the explorer in a page of its own, without code cells, served by Voila."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import UsageError
from workbench.trace.open import open_source

if TYPE_CHECKING:
    from workbench.lab import Serving

TEMPLATE = Path(__file__).parent / "app_template"
NAME = "workbench.ipynb"
FOREIGN = ("@pyviz/jupyterlab_pyviz", "@jupyter-notebook/lab-extension")
"""Extensions that expect JupyterLab whole and log an error where it is not."""


def notebook(source: Path | None, runs_dir: Path) -> dict[str, object]:
    """Return the notebook whose one cell is the app; paths in it are absolute."""
    given = "" if source is None else f"{str(source.absolute())!r}, "
    code = f"import workbench as wb\n\nwb.Explorer({given}runs_dir={str(runs_dir.absolute())!r})"
    cell: dict[str, object] = {"cell_type": "code", "id": "app", "source": code}
    cell |= {"execution_count": None, "metadata": {}, "outputs": []}
    kernel = {"name": "python3", "display_name": "Python 3"}
    return {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def command(page: Path, serving: Serving) -> list[str]:
    """Return the command that serves a notebook as an app."""
    options = [
        "--template=workbench",
        "--Voila.auto_token=True",
        "--VoilaConfiguration.strip_sources=True",
        *(x for name in FOREIGN for x in ("--VoilaConfiguration.extension_denylist", name)),
        "--Voila.kernel_websocket_connection_class=workbench.undelayed.Undelayed",
        f"--Voila.ip={serving.ip}",
        *([] if serving.port is None else [f"--port={serving.port}", "--Voila.port_retries=0"]),
        *([] if serving.browser else ["--no-browser"]),
    ]
    return [sys.executable, "-m", "voila", str(page), *options]


def start(source: Path | None, serving: Serving) -> None:
    """Replace this process by the server of the app.

    Raises
    ------
    UsageError
        Voila is not installed.
    InputError
        The source can't be opened.
    """
    if importlib.util.find_spec("voila") is None:
        raise UsageError(
            "The app needs Voila, which is not installed: pip install 'training-workbench[app]', "
            "or leave out --app for JupyterLab."
        )
    if source is not None:
        open_source(source)  # what is wrong with it is said here, not in a page; cached from now on
    folder = Path(tempfile.mkdtemp(prefix="workbench-app-"))
    page = folder / NAME
    page.write_text(json.dumps(notebook(source, Path("runs"))), encoding="utf-8")
    places = [str(TEMPLATE), os.environ.get("JUPYTER_PATH", "")]
    environment = os.environ | {"JUPYTER_PATH": os.pathsep.join(p for p in places if p)}
    asked = command(page, serving)
    os.execve(sys.executable, asked, environment)  # noqa: S606 - a list, and no shell
