"""What hangs together in a page without a kernel: rows of tables and events of its timeline.

`links` answers a click; here every answer is written down beforehand, for all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench.analysis import only, work
from workbench.analysis.window import select
from workbench.panels import links
from workbench.panels.choice import STRETCHES
from workbench.views.lod import NONE
from workbench.views.tables import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from workbench.panels.answers import Answers
    from workbench.views.lanes import Lanes
    from workbench.views.lod import Index

KEYS = {"kernels": ("rank", "device", "kind", "name"), "ops": ("rank", "name"),
        "steps": ("rank", "device", "step")}  # fmt: skip
"""What tells the row of a table that an event belongs to."""
_Row = tuple[int, list[int] | None]
"""Place of an event, or -1, and a window, or null."""
_OF_TABLE = {"kernels": "activities", "ops": "ops", "steps": "steps"}
_EVENT = {"table": pl.String, "rank": pl.Int32, "id": pl.Int64}


@dataclass
class Links:
    """Rows of the tables of `answers`, and events of `lanes`, its timeline."""

    answers: Answers
    lanes: Lanes
    places: list[int] = field(default_factory=list)
    """Events that rows stand for; targets count them."""

    def targets(self) -> dict[str, list[list[Any]]]:
        """Return for each row of the linked tables the number of its event and its window.

        -1 where there is no event, null where a click moves no window; windows are decimal text.
        """
        found = {table: self._belonging(table) for table in ("kernels", "ops")}
        for table in (*STRETCHES, "steps", "leads"):
            found[table] = list(self._acts(table))
        for table in ("roofline", "recoverable"):
            found[table] = self._points(table)
        return {table: [self._target(*row) for row in rows] for table, rows in found.items()}

    def belongs(self) -> dict[str, dict[str, int]]:
        """Return for "lane text" of an event, as numbers, the row that it belongs to, by table."""
        out: dict[str, dict[str, int]] = {}
        for table in KEYS:
            rows = self._rows_of(table)
            out[table] = {f"{lane} {text}": row for lane, text, row in rows.iter_rows()}
        return out

    def operators(self) -> NDArray[np.int64]:
        """Return of each event the row of `ops` that launched it, counted from 1; 0 without one."""
        out = np.zeros(len(self.lanes.start), np.int64)
        rows = self.answers["ops"].with_row_index("row", offset=1)
        for trace in self.answers.source.ranks:
            mine = rows.filter(pl.col("rank").eq_missing(pl.lit(trace.meta.rank, pl.Int32)))
            named = trace.ops.select(pl.col("name").cast(pl.String)).join(
                mine.select(pl.col("name").cast(pl.String), "row"), on="name", how="left",
                maintain_order="left",
            )["row"]  # fmt: skip
            row = named.gather(trace.activities["op"]).fill_null(0).to_numpy()
            at = self._events("activities", trace.meta.rank)
            out[at] = row[self.lanes.id[at]]
        return out

    @cached_property
    def _pairs(self) -> pl.DataFrame:
        """Return each (lane, text) with the place of its longest event and what that one is of.

        The longest of those in the selected range, where there is one and it holds any.
        """
        lanes = self.lanes
        lane = np.repeat(lanes.row_lane, np.diff(lanes.offset))
        events = pl.DataFrame({"lane": lane, "text": np.asarray(lanes.name, np.int64),
                               "dur": lanes.dur, "inside": self._inside()})  # fmt: skip
        longest = (
            events.with_row_index("place")
            .group_by("lane", "text", maintain_order=True)
            .agg(pl.col("place").sort_by("inside", "dur", descending=True).first())
        )
        place = longest["place"].to_numpy()
        return longest.with_columns(
            inside=pl.Series(events["inside"].to_numpy()[place]),
            dur=pl.Series(lanes.dur[place]),
            id=pl.Series(lanes.id[place].astype(np.int64)),
            **self._said(longest),
        )

    def _inside(self) -> NDArray[np.bool_]:
        lanes, within = self.lanes, self.answers.choice.within
        if within is None:
            return np.ones(len(lanes.start), bool)
        a, b = (t - lanes.origin_ns for t in within)
        inside: NDArray[np.bool_] = (lanes.start < b) & (lanes.start + lanes.dur > a)
        return inside

    def _said(self, pairs: pl.DataFrame) -> dict[str, pl.Series]:
        of_lane = [self.lanes.lanes[k] for k in pairs["lane"]]
        texts = pairs["text"].to_list()
        return {
            "table": pl.Series([lane.table for lane in of_lane], dtype=pl.String),
            "rank": pl.Series([lane.rank for lane in of_lane], dtype=pl.Int32),
            "kind": pl.Series([self.lanes.kinds[k] for k in texts], dtype=pl.String),
            "name": pl.Series([self.lanes.names[k] for k in texts], dtype=pl.String),
        }

    def _rows_of(self, table: str) -> pl.DataFrame:
        """Return `lane text row` of the pairs that belong to a row of a table."""
        return self._joined(table).select("lane", "text", "row")

    def _joined(self, table: str) -> pl.DataFrame:
        """Join the pairs with the rows of a table that they belong to."""
        pairs = self._pairs.filter(pl.col("table") == _OF_TABLE[table])
        keys = list(KEYS[table])
        rows = self.answers[table].with_row_index("row").select("row", *keys)
        parts = [pairs.clear()]
        for trace in self.answers.source.ranks:
            mine = pairs.filter(pl.col("rank").eq_missing(pl.lit(trace.meta.rank, pl.Int32)))
            source = trace.tables[_OF_TABLE[table]]
            own = [k for k in keys if k in {"device", "step"}]
            parts.append(mine.with_columns(source[k].gather(mine["id"]) for k in own))
        whole = pl.concat(parts, how="diagonal_relaxed")
        same = [pl.col(k).cast(pl.String) for k in keys]
        return whole.with_columns(same).join(
            rows.with_columns(same), on=keys, nulls_equal=True, maintain_order="left"
        )

    def _belonging(self, table: str) -> list[_Row]:
        """Return the longest event of each row."""
        found = self._joined(table).sort("inside", "dur", descending=True, maintain_order=True)
        best = dict(found.unique("row", keep="first").select("row", "place").iter_rows())
        return [(best.get(row, NONE), None) for row in self._shown(table)]

    def _acts(self, table: str) -> Iterator[_Row]:
        found = [links.act(self.answers, table, row) for row in self._shown(table)]
        places = self._places([act.event for act in found])
        return ((place, act.window) for place, act in zip(places, found, strict=True))

    def _points(self, table: str) -> list[_Row]:
        events = longest_of_points(self.answers, table, len(self._shown(table)))
        return [(place, None) for place in self._places(events)]

    def _shown(self, table: str) -> range:
        return range(min(self.answers[table].height, MOST_ROWS))

    def _places(self, events: list[Mapping[str, Any]]) -> list[int]:
        """Return where events stand that a timeline's `selected` names; -1 where they do not."""
        wanted = pl.DataFrame([e or dict.fromkeys(_EVENT) for e in events], _EVENT)
        out = np.full(len(events), NONE)
        for (table, rank), part in wanted.with_row_index("number").group_by("table", "rank"):
            at = self._events(table, rank)
            order = np.argsort(self.lanes.id[at], kind="stable")
            ids = self.lanes.id[at][order]
            k = np.searchsorted(ids, part["id"].fill_null(NONE).to_numpy())
            known = (k < len(ids)) & (ids[np.minimum(k, len(ids) - 1)] == part["id"].to_numpy()) \
                if len(ids) else np.zeros(len(k), bool)  # fmt: skip
            out[part["number"].to_numpy()[known]] = at[order[k[known]]]
        return list(map(int, out))

    def _events(self, table: object, rank: object) -> Index:
        """Return the places of the events of a table of a rank."""
        mine = np.array([(x.table, x.rank) == (table, rank) for x in self.lanes.lanes], bool)
        return np.flatnonzero(self.lanes.by_lane(mine))

    def _target(self, place: int, window: list[int] | None) -> list[Any]:
        number = NONE
        if place != NONE:
            number = len(self.places)
            self.places.append(int(place))
        return [number, None if window is None else list(map(str, window))]


def longest_of_points(answers: Answers, table: str, count: int) -> list[Mapping[str, Any]]:
    """Return the event of what `links.act` does for the first rows of a table, all at once.

    Points that are no operators are few, so those are asked for one by one.
    """
    if answers.choice.by != "operator":
        return [links.act(answers, table, row).event for row in range(count)]
    keys = ["rank", "device", "operator", "shapes"]
    frame = answers[table].head(count).select(keys)
    parts = [frame.clear().with_columns(id=pl.lit(None, pl.Int64))]
    options = answers.choice.narrowing("point", takes_range=True)
    part = options.pop("only")
    for rank, device in frame.select("rank", "device").unique().iter_rows():
        chosen_there = select(answers.source, rank=rank, **options | {"device": device})
        for chosen in only.narrowed(chosen_there, part):
            ran = work.labelled(work.owned(chosen, answers.choice.convention))
            longest = ran.sort("dur_ns", descending=True).unique(
                ["operator", "shapes"], keep="first"
            )
            parts.append(longest.select(
                pl.lit(rank, pl.Int32).alias("rank"), pl.lit(device, pl.Int32).alias("device"),
                "operator", "shapes", pl.col("id").cast(pl.Int64),
            ))  # fmt: skip
    found = frame.join(
        pl.concat(parts).unique(keys, keep="first", maintain_order=True),
        on=keys, how="left", nulls_equal=True, maintain_order="left",
    )  # fmt: skip
    return [
        {} if number is None else {"table": "activities", "rank": rank, "id": number}
        for rank, number in found.select("rank", "id").iter_rows()
    ]
