"""A form made from the description of a workload's fields: one control a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as w

from workbench.errors import UsageError, unknown_name
from workbench.workloads import fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from workbench.workloads import FieldInfo, Value

LABEL = {"description_width": "130px"}
WIDTH = "300px"


def control(info: FieldInfo) -> Any:
    """Return a control whose `value` is one of the field's, its help on hover.

    Numbers are texts that a person can leave half typed: the spec checks them, in one sentence.
    """
    common = {
        "description": info.name,
        "tooltip": info.help,
        "style": LABEL,
        "layout": w.Layout(width=WIDTH),
    }
    if info.choices:
        return w.Dropdown(options=list(info.choices), value=info.default, **common)
    if info.type is bool:
        return w.Checkbox(value=bool(info.default), indent=True, **common)
    return w.Text(value=str(info.default), continuous_update=False, **common)


class Form:
    """The controls of a spec's fields, and their values as overrides of a preset."""

    def __init__(self, on_change: Callable[[], None], front: Iterable[str] = ()) -> None:
        self.front, self.box = (w.HBox(layout=w.Layout(flex_flow="row wrap")) for _ in range(2))
        """Controls of the fields named in `front`, and all others."""
        self._on_change, self._in_front = on_change, frozenset(front)
        self._infos: dict[str, FieldInfo] = {}
        self._controls: dict[str, Any] = {}

    def fill(self, infos: Iterable[FieldInfo]) -> None:
        """Make a control for each field, holding the preset's value."""
        for old in self._controls.values():
            old.close()
        self._infos = {info.name: info for info in infos}
        self._controls = {name: control(info) for name, info in self._infos.items()}
        for made in self._controls.values():
            made.observe(lambda _: self._on_change(), "value")
        for box, is_front in ((self.front, True), (self.box, False)):
            box.children = tuple(
                c for name, c in self._controls.items() if (name in self._in_front) is is_front
            )

    @property
    def values(self) -> dict[str, Value]:
        """All fields as they stand; what cannot be read as its type stays a text."""
        return {name: _read(self._infos[name], c.value) for name, c in self._controls.items()}

    @property
    def overrides(self) -> dict[str, Value]:
        """The fields that differ from the preset."""
        return {n: v for n, v in self.values.items() if v != self._infos[n].default}

    def set(self, name: str, value: Value) -> None:
        """Set one field; an unknown name raises with the nearest."""
        if name not in self._controls:
            raise unknown_name("parameter", name, self._controls)
        choices = self._infos[name].choices
        if choices and value not in choices:
            raise unknown_name(name, str(value), map(str, choices))
        made = self._controls[name]
        made.value = str(value) if isinstance(made, w.Text) else value


def _read(info: FieldInfo, value: Value) -> Value:
    try:
        return fields.parse(info, value) if isinstance(value, str) else value
    except UsageError:
        return value
