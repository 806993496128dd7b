"""What the marks of a script reach while it is recorded: `workbench.capture.step`, `workload`."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MARKS = Path(__file__).parents[1] / "marks.py"
_PACKAGE = "workbench"

functions: dict[str, Callable[..., Any]] = {}
"""The marked functions by name."""
_heard: dict[str, Callable[..., None]] = {}


def listen(*, imported: Callable[[], None], ended: Callable[[Any], None]) -> None:
    """Call `imported` when the script imports the marks, and `ended` at each of them.

    Where nothing is installed to import them from, they are found here.
    """
    _heard.update(imported=imported, ended=ended)
    sys.meta_path.append(Fallback)


def imported() -> None:
    """Say that the script imports the marks."""
    _heard["imported"]()


def step(loss: Any = None) -> None:
    """End a step; `loss` is for those who watch."""
    _heard["ended"](loss)


def workload(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let each call of a function, or each turn of a generator, end a step."""

    @functools.wraps(function)
    def one(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        step()
        return result

    @functools.wraps(function)
    def each(*args: Any, **kwargs: Any) -> Any:
        for item in function(*args, **kwargs):
            step()
            yield item

    marked = each if inspect.isgeneratorfunction(function) else one
    functions[function.__name__] = marked
    return marked


class Fallback:
    """Finds `workbench.capture` where nothing else does; a module that is installed comes first."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> Any:
        """Return an empty package, and the marks in it."""
        if name == _PACKAGE:
            return importlib.machinery.ModuleSpec(name, None, is_package=True)
        if name == f"{_PACKAGE}.capture":
            return importlib.util.spec_from_file_location(name, _MARKS)
        return None
