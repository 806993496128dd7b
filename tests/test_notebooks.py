"""Committed notebooks were run, hold no error, stay thin and small.

nbval compares outputs cell by cell, and a notebook without outputs passes it: this guard fails it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_BYTES = 1_000_000
MOST_LINES = 15


def code_cells(notebook: dict) -> list[dict]:
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in cells if "".join(cell["source"]).strip()]


def tags(cell: dict) -> set[str]:
    return set(cell["metadata"].get("tags", ()))


def faults(notebook: dict) -> list[str]:
    found = []
    kept = notebook.get("metadata", {}).get("widgets", {})
    if any("state" not in states for states in kept.values()):
        found.append("widgets are listed without their state, which no exporter can read")
    for number, cell in enumerate(code_cells(notebook), start=1):
        if cell["execution_count"] is None and "nbval-skip" not in tags(cell):
            found.append(f"code cell {number} was never run")
        if any(output["output_type"] == "error" for output in cell["outputs"]):
            found.append(f"code cell {number} ended in an error")
        if len("".join(cell["source"]).splitlines()) > MOST_LINES:
            found.append(f"code cell {number} has more than {MOST_LINES} lines")
        if "drop-output" in tags(cell) and cell["outputs"]:
            found.append(f"code cell {number} kept an output that make notebooks drops")
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_was_run_and_is_thin(path):
    assert faults(json.loads(path.read_text(encoding="utf-8"))) == []
    assert path.stat().st_size <= MOST_BYTES


def cell(count, *, tags=(), outputs=(), source="x = 1"):
    return {
        "cell_type": "code",
        "execution_count": count,
        "metadata": {"tags": list(tags)},
        "outputs": list(outputs),
        "source": [source],
    }


def test_guard_finds_what_it_is_for():
    good = [cell(1), cell(None, tags=["nbval-skip"]), cell(None, source="")]
    assert faults({"cells": good}) == []
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
    bad = [cell(None), cell(2, outputs=[error]), cell(3, source="y = 2\n" * (MOST_LINES + 1))]
    stateless = {"widgets": {"application/vnd.jupyter.widget-state+json": {"version_major": 2}}}
    assert faults({"cells": good, "metadata": stateless}) == [
        "widgets are listed without their state, which no exporter can read"
    ]
    assert faults({"cells": bad}) == [
        "code cell 1 was never run",
        "code cell 2 ended in an error",
        "code cell 3 has more than 15 lines",
    ]
