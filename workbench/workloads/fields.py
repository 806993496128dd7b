"""Fields of a workload's spec: declaration, bounds, text parsing, and a description for forms."""

from __future__ import annotations

import dataclasses
import inspect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from workbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

Value: TypeAlias = "bool | int | float | str"

_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_TYPE_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


@dataclass(frozen=True)
class FieldInfo:
    """One field of a spec, complete enough to make a form control from it."""

    name: str
    type: type
    """bool, int, float or str."""
    default: Value
    """The value in the spec or preset that was described."""
    help: str
    choices: tuple[Value, ...] = ()
    """The only values allowed; empty when bounds apply instead."""
    minimum: float | None = None
    maximum: float | None = None


def param(
    default: Value,
    text: str,
    *,
    choices: tuple[Value, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """Declare one field of a spec: default, help text, and either choices or inclusive bounds."""
    meta = {"help": text, "choices": choices, "minimum": minimum, "maximum": maximum}
    return dataclasses.field(default=default, metadata=meta)


def describe(spec: object) -> tuple[FieldInfo, ...]:
    """Describe the fields of a spec, those of its own class before those of the classes it extends.

    The defaults are the values that it holds.
    """
    known = {item.name: item for item in dataclasses.fields(cast("Any", spec))}
    own = (name for cls in type(spec).__mro__ for name in inspect.get_annotations(cls))
    ordered = [known[name] for name in dict.fromkeys(own) if name in known]
    return tuple(
        FieldInfo(
            name=item.name,
            type=_TYPES[getattr(item.type, "__name__", None) or str(item.type)],
            default=getattr(spec, item.name),
            **cast("dict[str, Any]", dict(item.metadata)),
        )
        for item in ordered
    )


def check(spec: object) -> None:
    """Raise UsageError for the first field of a wrong type, outside its choices or its bounds."""
    for info in describe(spec):
        _check_type(info)
        _check_range(info)


def parse(info: FieldInfo, text: str) -> Value:
    """Convert the text of one field by its type; range and choices are checked by the spec."""
    cleaned = text.strip()
    if info.type is bool and cleaned.lower() in _TRUE | _FALSE:
        return cleaned.lower() in _TRUE
    if info.type is str:
        return cleaned
    try:
        if info.type is int:
            return int(cleaned)
        if info.type is float:
            return float(cleaned)
    except ValueError:
        pass
    raise UsageError(f"{info.name}={text!r} is not {_TYPE_WORDS[info.type]}.")


def split_settings(settings: list[str]) -> dict[str, str]:
    """Split `KEY=VALUE` texts; a text without '=' and a key given twice raise UsageError."""
    result: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise UsageError(f"{setting!r} is not of the form KEY=VALUE, as in layers=4.")
        if key in result:
            raise UsageError(f"{key} is set twice; keep one of the two.")
        result[key] = value
    return result


def resolve(spec: Any, overrides: Mapping[str, Value]) -> Any:
    """Return a copy of a spec with some fields replaced; texts are parsed by the field's type."""
    infos = {info.name: info for info in describe(spec)}
    values: dict[str, Value] = {}
    for key, value in overrides.items():
        if key not in infos:
            raise unknown_name("parameter", key, infos)
        values[key] = parse(infos[key], value) if isinstance(value, str) else value
    return dataclasses.replace(spec, **values)


def _check_type(info: FieldInfo) -> None:
    value = info.default
    accepted = (int, float) if info.type is float else (info.type,)
    is_stray_bool = isinstance(value, bool) and info.type is not bool
    if is_stray_bool or not isinstance(value, accepted):
        raise UsageError(f"{info.name}={value!r} is not {_TYPE_WORDS[info.type]}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{info.name}={value!r} is not a finite number.")


def _check_range(info: FieldInfo) -> None:
    value = info.default
    if info.choices and value not in info.choices:
        allowed = ", ".join(str(choice) for choice in info.choices)
        raise UsageError(f"{info.name}={value!r} is not one of {allowed}.")
    if isinstance(value, str):
        return
    if info.minimum is not None and value < info.minimum:
        raise UsageError(f"{info.name}={value!r} is below its minimum, {info.minimum:g}.")
    if info.maximum is not None and value > info.maximum:
        raise UsageError(f"{info.name}={value!r} is above its maximum, {info.maximum:g}.")
