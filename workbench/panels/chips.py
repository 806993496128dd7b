"""What is chosen, as chips that are removed by a click; Esc removes all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anywidget
import traitlets as t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from workbench.panels.choice import Chip

HERE = Path(__file__).parent


class Chips(anywidget.AnyWidget):
    """Shows chips; `remove(key)` is called for one of them, `remove("")` for all."""

    _esm = (HERE / "chips.js").read_text("utf-8")
    chips = t.List(t.Dict()).tag(sync=True)

    def __init__(self, remove: Callable[[str], None]) -> None:
        super().__init__()
        self.remove = remove
        self.on_msg(self._on_message)

    def __repr__(self) -> str:
        """Say nothing that changes between runs (notebook checks compare it)."""
        return "Chips()"

    def show(self, chips: Iterable[Chip]) -> None:
        """Show these."""
        self.chips = [{"key": c.key, "text": c.text} for c in chips]

    @property
    def text(self) -> str:
        """What is shown, as one line."""
        return " · ".join(c["text"] for c in self.chips)

    def _on_message(self, _: object, message: Mapping[str, object], __: object = None) -> None:
        if message.get("type") == "remove":
            self.remove(str(message.get("key") or ""))
