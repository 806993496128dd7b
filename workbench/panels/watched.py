"""`Watched`: what a panel of something that goes on has: a bar, Cancel, a line on how it stands."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets as w
import traitlets as t

WITHOUT_KERNEL = "It is followed here while it goes on; run the notebook to see it."


class Watched(w.VBox):
    """A panel of something that goes on by itself; `row` is for its children.

    `state` is running, done, failed or cancelled and can be observed, `message` says how it stands.
    A subclass ends it in `_cancel`.
    """

    state = t.Unicode("running")

    def __init__(self) -> None:
        self.message = ""
        self._bar = w.FloatProgress(min=0, max=1, layout=w.Layout(width="260px"))
        self._stop = w.Button(description="Cancel", icon="stop")
        self._stop.on_click(lambda _: self.cancel())
        self._status = w.HTML()
        self.row = w.HBox([self._stop, self._bar, self._status])
        super().__init__()
        self.add_class("wb-panel")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Say what it is for where it is read without its widgets."""
        found = super()._repr_mimebundle_(**kwargs)
        data, meta = found if isinstance(found, tuple) else (found or {}, {})
        return data | {"text/plain": f"{self!r}\n{self._twin()}"}, meta

    def _twin(self) -> str:
        """Return what stands for it without widgets, without times (notebook checks compare it)."""
        return WITHOUT_KERNEL

    def cancel(self) -> None:
        """Ask it to end; a second time, end it by force."""
        if self.state == "running":
            self._cancel()
            self._say("cancelling; once more ends it by force")

    def _cancel(self) -> None:
        raise NotImplementedError

    def _finish(self, state: str, message: str) -> None:
        """Show that it has ended, and how; observers of `state` come last."""
        self._bar.bar_style = {"done": "success", "failed": "danger"}.get(state, "")
        self._stop.disabled = True
        self._say(message)
        self.state = state

    def _say(self, message: str) -> None:
        self.message = message
        self._status.value = f'<span class="wb-state">{html.escape(message)}</span>'
