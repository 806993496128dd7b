"""The training's side needs torch 2.6 and Python 3.10 alone: its names are public and listed.

`torch_names.txt` holds the names that were looked up in torch 2.6.0. A new one is looked up there
first, or asked for with `hasattr` or `getattr` beside another way, and stands in NEWER.
"""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "workbench/workloads").glob("*.py"))
CHILD = [*sorted((ROOT / "workbench/capture/child").glob("*.py")), ROOT / "workbench/errors.py"]
LISTED = Path(__file__).with_name("torch_names.txt")
NEWER = {"torch.nn.functional.grouped_mm"}


def imports(tree):
    """Yield (module, name taken from it or None, what it is called here)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.name, None, a.asname or a.name.split(".")[0]) for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.module, a.name, a.asname or a.name) for a in node.names)


def dotted(node, known):
    """Return `torch.nn.init.zeros_` for nn.init.zeros_; None for what starts elsewhere."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in known:
        return ".".join([known[node.id], *reversed(parts)])
    return None


def names_of_torch(path):
    """Return the full names of torch that a file uses."""
    tree, known = ast.parse(path.read_text("utf-8")), {}
    for module, name, here in imports(tree):
        if module.split(".")[0] == "torch":
            full = module if name is None else f"{module}.{name}"
            known[here] = "torch" if name is None and here == "torch" else full
    used = (dotted(n, known) for n in ast.walk(tree) if isinstance(n, ast.Attribute | ast.Name))
    return {*known.values(), *filter(None, used)}


def found(full):
    """Look a name up, module by module, then attribute by attribute."""
    parts = full.split(".")
    value = importlib.import_module(parts[0])
    for index, part in enumerate(parts[1:], start=2):
        if not hasattr(value, part):
            importlib.import_module(".".join(parts[:index]))
        value = getattr(value, part)
    return value


ALL = sorted(set().union(*map(names_of_torch, FILES)))


def test_every_name_of_torch_is_public_and_there():
    private = [n for n in ALL if any(p.startswith("_") for p in n.split("."))]
    assert private == ["torch.__version__"]
    for name in ALL:
        found(name)


def test_every_name_of_torch_was_looked_up_in_the_oldest_one():
    assert set(ALL) - NEWER - set(LISTED.read_text("utf-8").split()) == set()


@pytest.mark.parametrize("path", [*FILES, *CHILD], ids=lambda p: p.name)
def test_the_trainings_side_is_python_3_10_with_torch_alone(path):
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 10))
    allowed = {*sys.stdlib_module_names, "torch", "workbench"}
    assert {m.split(".")[0] for m, _, _ in imports(tree)} - allowed == set()
