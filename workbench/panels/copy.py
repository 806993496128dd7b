"""A button that puts code on the clipboard: asked of the kernel when it is pressed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anywidget

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class CopyCode(anywidget.AnyWidget):
    """Copies what `code()` returns; an error of it is shown as its sentence."""

    _esm = (Path(__file__).parent / "copy.js").read_text("utf-8")

    def __init__(self, code: Callable[[], str]) -> None:
        super().__init__()
        self.code = code
        self.on_msg(self._on_message)

    def __repr__(self) -> str:
        """Say nothing that changes between runs (notebook checks compare it)."""
        return "CopyCode()"

    def _on_message(self, _: object, message: Mapping[str, object], __: object = None) -> None:
        if message.get("type") != "code":
            return
        try:
            self.send({"type": "code", "code": self.code()})
        except WorkbenchError as error:
            self.send({"type": "error", "said": str(error)})
