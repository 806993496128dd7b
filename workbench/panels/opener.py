"""A path to open, completed as it is typed, and files that are dropped on the panel.

What is dropped comes over the notebook's own connection and is kept in a folder of the user's
cache, under names made safe, where it is opened as any file of unknown origin is.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets as w
import traitlets as t

from workbench.errors import WorkbenchError
from workbench.panels.dropped import LIMIT_BYTES, Drop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

HERE = Path(__file__).parent
MOST_PATHS = 40
"""Completions that are offered."""
MOST_LISTED = 20_000
"""Entries of a folder that are looked at."""


class Opener(anywidget.AnyWidget):
    """Calls `open_path(path)` for a path that was entered or a drop that was kept.

    `say(sentence)` is called when a drop can't be taken.
    """

    _esm = (HERE / "opener.js").read_text("utf-8")
    path = t.Unicode().tag(sync=True)
    """What stands in the field."""
    limit = t.Int(LIMIT_BYTES).tag(sync=True)

    def __init__(self, open_path: Callable[[str], None], say: Callable[[str], None]) -> None:
        super().__init__(layout=w.Layout(flex="2 1 340px", min_width="300px"))
        self.open_path, self.say = open_path, say
        self.drop: Drop | None = None
        self.on_msg(self._on_message)

    def __repr__(self) -> str:
        """Say nothing that changes between runs (notebook checks compare it)."""
        return "Opener()"

    def _on_message(
        self, _: object, message: Mapping[str, Any], buffers: Sequence[memoryview] = ()
    ) -> None:
        kind = message.get("type")
        if kind == "complete":
            self.send({"type": "paths", "paths": completions(str(message.get("text") or ""))})
        elif kind == "open":
            self.open_path(str(message.get("path") or ""))
        elif kind in ("begin", "piece", "end"):
            self._take(kind, message, buffers)

    def _take(self, kind: str, message: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Take a part of a drop; what is wrong with it ends it, with a sentence."""
        try:
            if kind == "begin":
                self.drop = Drop(message.get("files"))
            elif self.drop is not None and kind == "piece":
                self.drop.add(message.get("file"), buffers)
        except (WorkbenchError, OSError) as error:
            self._end(str(error))
            return
        if kind != "end":
            self.send({"type": "arrived", "ok": self.drop is not None})
        elif self.drop is not None:
            self._opened(self.drop)

    def _opened(self, drop: Drop) -> None:
        try:
            path = drop.kept()
        except (WorkbenchError, OSError) as error:
            self._end(str(error))
            return
        self.drop = None
        self.open_path(str(path))

    def _end(self, sentence: str) -> None:
        if self.drop is not None:
            self.drop.discard()
        self.drop = None
        self.send({"type": "arrived", "ok": False})
        self.say(sentence)


def completions(text: str) -> list[str]:
    """Return existing paths that begin as a text does, folders with a slash at their end.

    Hidden ones are offered once their dot is there.
    """
    if not text:
        return []
    head, slash, begun = text.rpartition("/")
    folder = Path(f"{head}{slash}" or ".").expanduser()
    found = sorted(_entries(folder, begun))
    return [f"{head}{slash}{name}" for name in found[:MOST_PATHS]]


def _entries(folder: Path, begun: str) -> Iterator[str]:
    try:
        for entry in itertools.islice(folder.iterdir(), MOST_LISTED):
            is_wanted = entry.name.startswith(begun) and (begun or not entry.name.startswith("."))
            if is_wanted:
                yield entry.name + ("/" if entry.is_dir() else "")
    except OSError:
        return
