"""Run notebooks from top to bottom and store their outputs, as `make test` compares them.

A cell tagged `drop-output` (the one that loads Bokeh inline, 6 MB) keeps no output; it also
carries nbval's tag `nbval-ignore-output`. Times and widget states are left out of the file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CELL_TIMEOUT_S = 300


def main(names: list[str]) -> int:
    """Refresh each notebook; the first failing cell ends it with a sentence."""
    for name in names:
        begin = time.monotonic()
        try:
            refresh(Path(name))
        except CellExecutionError as error:
            print(f"{name} was left as it is, since a cell failed: {error.ename}: {error.evalue}")
            return 1
        print(f"{name}: run in {time.monotonic() - begin:.0f} s")
    return 0


def refresh(path: Path) -> None:
    """Execute one notebook in its own folder and write it back."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        store_widget_state=False,
    )
    client.execute()
    for cell in notebook.cells:
        if "drop-output" in cell.metadata.get("tags", ()):
            cell.outputs = []
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
