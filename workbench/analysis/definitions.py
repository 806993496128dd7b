"""`definitions`: the same recording under our rules and under those of other tools."""

from __future__ import annotations

from itertools import groupby

import polars as pl

from workbench.analysis.rules import hta, nsight, tensorboard, tracelens
from workbench.analysis.rules.account import View
from workbench.analysis.window import Selection, select
from workbench.trace.core import Source

SCHEMA = {
    "rank": pl.Int32(),
    "device": pl.Int32(),
    "tool": pl.String(),
    "measure": pl.String(),
    "value_ns": pl.Int64(),
    "share": pl.Float64(),
    "ours_ns": pl.Int64(),
    "difference_ns": pl.Int64(),
    "reason": pl.String(),
}
NEEDS = ("accelerator",)
RULES = (hta, tracelens, tensorboard, nsight)
EXPRESSIONS = (
    *hta.CLASSES["0.5.0"].values(),
    tracelens.COPY_KERNEL,
    tracelens.COMMUNICATION,
    *nsight.STARTS_WITH_NCCL.values(),
    *nsight.HOLDS_NCCL.values(),
)
"""What these tools look for in the name of a kernel."""


def definitions(
    source: Source,
    *,
    window: str = "steps",
    step: tuple[int, int] | None = None,
    rank: int | None = None,
) -> pl.DataFrame:
    """Return breakdown, idle and overlap by the rules of HTA, TraceLens, TensorBoard and Nsight.

    A row is one measure of one tool: `value_ns` by its rule over its own window, `share` of that
    window (of an overlap: of communication; of HTA's classes of idle time, added up over streams:
    of all of them; null when that is 0), `ours_ns` by our rule over our `window`, and the
    difference. `reason` names each rule that makes a difference on this recording with the time
    that it moves; these add up to `difference_ns`. It is null where both agree. A measure that we
    do not have has no `ours_ns`, and the reason says why.

    `device` is null where a tool puts all devices of a file on one timeline; `ours_ns` is then
    the sum over devices. Each rule with its source: `workbench.analysis.rules`.
    """
    chosen = [
        s for s in select(source, window=window, step=step, rank=rank) if s.device is not None
    ]
    rows = [
        {"rank": view.trace.meta.rank, **row}
        for _, group in groupby(chosen, key=lambda s: id(s.trace))
        for view in [_view(tuple(group))]
        for rules in RULES
        for account in rules.accounts(view)
        for row in account.rows()
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def _view(chosen: tuple[Selection, ...]) -> View:
    return View(chosen[0].trace, chosen)
