"""Workloads, presets and parameters as tables."""

from __future__ import annotations

import polars as pl

from workbench.workloads import registry


def presets() -> pl.DataFrame:
    """Return one row a preset of each workload."""
    rows = [
        (name, preset, registry.get(name).preset_help[preset], registry.get(name).summary)
        for name in registry.names()
        for preset in registry.get(name).presets
    ]
    columns = ("workload", "preset", "size", "summary")
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String()), orient="row")


def parameters(name: str) -> pl.DataFrame:
    """Return one row a parameter: type, what is allowed, help, and its value in each preset."""
    workload = registry.get(name)
    values = {preset: workload.describe(preset) for preset in workload.presets}
    rows = [
        {
            "parameter": info.name,
            "type": info.type.__name__,
            "help": info.help,
            "choices": ", ".join(map(str, info.choices)) or None,
            "minimum": None if info.minimum is None else _text(info.minimum),
            "maximum": None if info.maximum is None else _text(info.maximum),
            **{preset: _text(infos[index].default) for preset, infos in values.items()},
        }
        for index, info in enumerate(next(iter(values.values())))
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
