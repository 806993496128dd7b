"""docs/reading.md names every problem and every limit that the readers have, and no others."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from workbench.trace import formats
from workbench.trace.kineto import repair

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
CODE = re.compile(r"[a-z]+(?:_[a-z]+)+")
PASSED_ON = {"problems.py": set(), "kineto/pieces.py": set(repair.REPAIRS)}
"""Where a problem's code comes from elsewhere, and which codes these are."""
_ADDED = 4


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its first two lines."""
    section = PAGE.split(f"# {heading}\n")[1].split("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def literal(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def listed(function: ast.AST) -> set[str]:
    """Codes that a function goes through: keys of a dict, first members of tuples."""
    nodes = list(ast.walk(function))
    keys = [k for n in nodes if isinstance(n, ast.Dict) for k in n.keys]
    firsts = [n.elts[0] for n in nodes if isinstance(n, ast.Tuple) and n.elts]
    found = {literal(n) for n in keys + firsts}
    return {text for text in found if text and CODE.fullmatch(text)}


def given(call: ast.Call) -> ast.AST | None:
    """The code of `Problem(code, …)` or `tally.add(code, count, example, effect)`."""
    named = next((k.value for k in call.keywords if k.arg == "code"), None)
    if isinstance(call.func, ast.Name) and call.func.id == "Problem":
        return named or call.args[0]
    is_add = isinstance(call.func, ast.Attribute) and call.func.attr == "add"
    return call.args[0] if is_add and len(call.args) == _ADDED else None


def codes(source: str, name: str = "") -> set[str]:
    """Every code in a module; a place that doesn't show its code fails."""
    found: set[str] = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.Dict):
            pairs = zip(function.keys, function.values, strict=True)
            found |= {str(literal(v)) for k, v in pairs if literal(k) == "code" and literal(v)}
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
            code = given(call)
            if code is None:
                continue
            own = {literal(code)} if literal(code) else PASSED_ON.get(name) or listed(function)
            assert own or name in PASSED_ON, f"{name}:{call.lineno} doesn't show its code"
            found |= {str(text) for text in own}
    return found


def test_the_page_names_every_problem_and_no_other():
    trace = ROOT / "workbench" / "trace"
    found: set[str] = set()
    for file in sorted(trace.rglob("*.py")):
        found |= codes(file.read_text(encoding="utf-8"), file.relative_to(trace).as_posix())
    named = [cells[0].strip("`") for cells in rows("Problems")]
    assert named == sorted(named)
    assert set(named) ^ found == set()


def test_codes_are_found_however_they_are_written():
    source = """
def f(tally):
    Problem(code="by_name", count=1, first_example="", effect="")
    Problem("by_place", 1, "", "")
    tally.add("by_tally", 1, "", "")
    seen.add("no_code")
def g():
    for code, n in (("of_tuple", 1),):
        Problem(code=code, count=n, first_example="", effect="")
def h():
    return {"code": "of_row", "count": 1}
"""
    assert codes(source) == {"by_name", "by_place", "by_tally", "of_tuple", "of_row"}
    with pytest.raises(AssertionError, match="doesn't show its code"):
        codes("def f(x):\n    Problem(x, 1, '', '')")


def test_the_page_names_every_format():
    named = " ".join(cells[0] for cells in rows("Formats"))
    assert [form.name for form in formats.FORMATS if form.name not in named] == []


@pytest.mark.parametrize("cells", rows("Limits"), ids=lambda cells: cells[0].strip("`"))
def test_limits_are_as_the_page_says(cells):
    module, _, constant = cells[0].strip("`").rpartition(".")
    value = getattr(importlib.import_module(f"workbench.trace.{module}"), constant)
    assert value == int(cells[1].replace(",", ""))
