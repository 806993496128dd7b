"""The figures that stand on top: boxes with a label, a value and what it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench import units
from workbench.analysis.steps import typical_ns
from workbench.analysis.summary import meta

if TYPE_CHECKING:
    from workbench.panels.answers import Answers
    from workbench.trace.core import Source

PARTS = (
    ("compute", "compute", "compute kernels run"),
    ("exposed_communication", "communication", "communication runs and nothing computes"),
    ("exposed_copy", "copy", "copies run and nothing else does"),
    ("idle", "idle", "nothing runs on the device"),
)
"""Parts of the window: column of `summary` without _ns, colour class, meaning."""


@dataclass(frozen=True)
class Fact:
    """One figure of the headline."""

    label: str
    value: str
    detail: str = ""
    hint: str = ""
    meaning: str = ""
    """Its class of `views.theme`, when it has a colour."""


def facts(answers: Answers) -> Iterator[Fact]:
    """Tell window, busy time, its parts, what is chosen, step time, device.

    Shares are ratios of sums.
    """
    known = answers["summary"].filter(pl.col("window_ns") > 0)
    device = Fact("device", *_device(answers.source))
    if known.is_empty():
        yield Fact("window", "empty", "no device time in it")
    else:
        yield Fact("window", *_window(answers, known))
        yield Fact("busy", *_share(known, "busy_ns"), "anything runs on the device")
        for name, meaning, hint in PARTS:
            label = name.replace("_", " ")
            yield Fact(label, *_share(known, f"{name}_ns"), hint, meaning)
        yield from _chosen(answers, known)
        yield from _step(answers.source)
    yield device


def _window(answers: Answers, known: pl.DataFrame) -> tuple[str, str, str]:
    mean = int(known["window_ns"].sum()) / known.height
    made_of = _made_of(answers, known)
    if known.height > 1:
        made_of += f", mean of {known.height}"
    hint = "the time that the shares are of; of several devices, each has its own"
    return units.duration(mean), made_of, hint


def _made_of(answers: Answers, known: pl.DataFrame) -> str:
    choice = answers.choice
    if choice.within is not None:
        return "the selected range"
    used = meta(answers.source, window=choice.window, step=choice.acting_step)["window"]
    if used == "all":
        return "the whole trace"
    count = int(known["steps"].max() or 0)  # type: ignore[arg-type]
    what = "step" if used == "steps" else "host step"
    return f"{count} {what}{'' if count == 1 else 's'}"


def _chosen(answers: Answers, known: pl.DataFrame) -> Iterator[Fact]:
    """Tell how much of the busy time the chosen part of the work is."""
    if not answers.choice.only:
        return
    part = answers["selected"]
    busy = int(part["busy_ns"].sum())
    yield Fact(
        "selected",
        units.share(busy, int(known["busy_ns"].sum())),
        f"{units.duration(busy)} busy",
        "of the busy time: at least some of the selected work runs",
    )


def _step(source: Source) -> Iterator[Fact]:
    typical = typical_ns(source)
    if typical is not None:
        hint = "median of the complete steps, without the last one's tail"
        yield Fact("step", units.duration(typical), "median", hint)


def _share(known: pl.DataFrame, column: str) -> tuple[str, str]:
    """Return the ratio of sums, and its time, or the smallest and largest share of several."""
    whole = int(known["window_ns"].sum())
    text = units.share(int(known[column].sum()), whole)
    if known.height == 1:
        return text, units.duration(known[column][0])
    shares = known[column] / known["window_ns"]
    low, high = (units.share(float(v), 1) for v in (shares.min(), shares.max()))  # type: ignore[arg-type]
    return text, f"{low.removesuffix(' %')} to {high}"


def _device(source: Source) -> tuple[str, str, str]:
    traces = source.ranks
    kinds = sorted({t.meta.device_kind for t in traces})
    names = sorted({d.name for t in traces for d in t.meta.devices if d.name})
    ranks = f"{len(traces)} rank{'' if len(traces) == 1 else 's'}"
    label = "CPU" if kinds == ["cpu"] else ", ".join(names) or ", ".join(kinds)
    return label, f"host execution, {ranks}" if kinds == ["cpu"] else ranks, ", ".join(kinds)


def efficiency(answers: Answers) -> Iterator[Fact]:
    """Tell how well the devices are used, each figure with what it stands on."""
    frame = answers["mfu"]
    if frame.is_empty():
        return
    row = frame.row(-1, named=True)  # of several devices the last row is of all together
    peak = f"of {row['precision']} dense, {row['peak_source']}" if row["peak_source"] else ""
    yield _known("MFU", row["mfu"], peak, row["reason"])
    if row["hfu"] != row["mfu"]:
        yield _known("HFU", row["hfu"], "recomputation counted as well", row["reason"])
    yield _coverage(answers)
    if row["tokens_per_s"] is not None:
        yield Fact("tokens", units.decimal(row["tokens_per_s"], "/s"), f"{row['devices']} devices")
    yield from _energy(answers)
    yield _trust(answers)


def _known(label: str, share: float | None, detail: str, reason: str | None) -> Fact:
    if share is None:
        return Fact(label, "unknown", "", reason or "")
    return Fact(label, units.share(share, 1), detail, reason or "")


def _coverage(answers: Answers) -> Fact:
    frame = answers["coverage"]
    modelled, shaped = (int(frame[c].sum()) for c in ("modelled_ns", "shaped_ns"))
    linked, device = (int(frame[c].sum()) for c in ("linked_ns", "device_ns"))
    hint = "device time of work with recorded shapes that has a FLOP or byte model"
    known = units.share(modelled, shaped) if shaped else "none"
    return Fact("coverage", known, f"{units.share(linked, device)} linked to operators", hint)


def _energy(answers: Answers) -> Iterator[Fact]:
    whole = answers["energy"].filter(pl.col("part") == "step")
    known = whole.drop_nulls("joules_per_step")
    if known.height and known.height == whole.height:
        joules, watts = (float(known[c].sum()) for c in ("joules_per_step", "mean_power_w"))
        yield Fact("energy", units.decimal(joules, "J"), f"a step, {watts:.4g} W")


def _trust(answers: Answers) -> Fact:
    states: dict[Any, int] = dict(answers["trust"]["state"].value_counts().iter_rows())
    faults = states.get("fault", 0)
    care = states.get("partly", 0)
    detail = f"{care} figure{'' if care == 1 else 's'} to take with care"
    value = f"{faults} fault{'' if faults == 1 else 's'}" if faults else "no faults"
    return Fact("reading", value, detail, "the tab Problems has each of them")
