"""In which order a timeline's lanes and tracks stand, and which are folded or hidden.

An item is a lane or a track, named by its label; those of one device or host stand in a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from workbench.errors import UsageError, unknown_name
from workbench.views.trace_lanes import HOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.views.counter_tracks import Track
    from workbench.views.lanes import Lanes

SEPARATOR = " · "
ALL = f"{SEPARATOR}*"
"""Ends the name of a whole group: `GPU 0 · *`."""


class Item(NamedTuple):
    """One lane or track; `short` is what it is called below its group's heading."""

    key: str
    short: str
    group: str
    is_lane: bool
    number: int
    """Position among the lanes, or among the tracks."""


@dataclass(frozen=True)
class Shelf:
    """All items, in the order in which they stand unless told otherwise."""

    items: tuple[Item, ...]

    @property
    def keys(self) -> list[str]:
        """Return the names of all items, in order."""
        return [item.key for item in self.items]

    @property
    def groups(self) -> list[str]:
        """Return the names of all groups, in order."""
        return list(dict.fromkeys(item.group for item in self.items if item.group))

    def ordered(self, given: Sequence[str]) -> list[str]:
        """Return all names: those given, then the others as they stand; groups may be given."""
        first = self.members("order", given)
        return first + [key for key in self.keys if key not in set(first)]

    def members(self, what: str, given: Sequence[str]) -> list[str]:
        """Return names with whole groups written out, each once; UsageError on an unknown one."""
        out: list[str] = []
        for name in self._known(what, given):
            group = name.removesuffix(ALL)
            inside = [i.key for i in self.items if name != group and i.group == group]
            out += inside or [name]
        return list(dict.fromkeys(out))

    def foldable(self, given: Sequence[str]) -> list[str]:
        """Return names of lanes and groups, each once; UsageError on an unknown one."""
        return list(dict.fromkeys(self._known("folded", given)))

    def _known(self, what: str, given: Sequence[str]) -> Sequence[str]:
        if isinstance(given, str):
            raise UsageError(f"{what} is a list of lanes, as in [{given!r}].")
        known = {*self.keys, *(group + ALL for group in self.groups)}
        for name in given:
            if name not in known:
                raise unknown_name(f"lane in {what}", str(name), known)
        return given


def shelf(lanes: Lanes, tracks: Sequence[Track]) -> Shelf:
    """Order items: devices before hosts, each in the order of ranks, its tracks below its lanes.

    Annotations on a device, which repeat what the host's say, come after its tracks.
    """
    keys = unique([lane.label for lane in lanes.lanes] + [track.name for track in tracks])
    made = [
        Item(keys[k], short(keys[k], lane.group), lane.group, is_lane=True, number=k)
        for k, lane in enumerate(lanes.lanes)
    ]
    made += [
        Item(key, short(key, track.group), track.group, is_lane=False, number=k)
        for k, (key, track) in enumerate(zip(keys[len(made) :], tracks, strict=True))
    ]
    groups = dict.fromkeys(item.group for item in made)
    rank = {group: k for k, group in enumerate(sorted(groups, key=_is_host))}

    def place(item: Item) -> tuple[int, int]:
        late = item.is_lane and lanes.lanes[item.number].table == "ranges"
        return rank[item.group], 2 if late and not _is_host(item.group) else int(not item.is_lane)

    return Shelf(tuple(sorted(made, key=place)))


def _is_host(group: str) -> bool:
    return group.rsplit(SEPARATOR, 1)[-1] == HOST


def unique(names: Iterable[str]) -> list[str]:
    """Tell equal names apart by a number: a, a (2), a (3)."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out


def short(label: str, group: str) -> str:
    """Leave out of a label what its group's heading says: `GPU 0 · stream 7` is `stream 7`."""
    if group and label.startswith(group):
        return label[len(group) :].strip(" ·") or label
    parts, around = label.split(SEPARATOR), group.split(SEPARATOR)
    while len(parts) > 1 and around and parts[0] == around.pop(0):
        parts = parts[1:]
    return SEPARATOR.join(parts)
