"""The processor beside a run: how busy it is, by whom, and what it draws."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import psutil

from workbench.capture.rapl import Rapl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CHILDREN_S = 2.0
"""How often to look for new child processes, which takes some milliseconds."""
_PERCENT = 100


class Host:
    """Utilisation and memory of this machine, the load of other programs, power where readable.

    `pids` gives the processes of the run; their children are theirs.
    """

    def __init__(self, pids: Callable[[], Iterable[int]] = tuple, rapl: Rapl | None = None) -> None:
        self._rapl = rapl or Rapl()
        self._family = _Family(pids)
        self._usable = _usable()
        self._before = self._now()

    def sample(self) -> list[dict[str, Any]]:
        """Return one row for the host; rates are since the sample before."""
        before, now = self._before, self._now()
        self._before = now
        row: dict[str, Any] = {
            "device": "cpu",
            "memory_used_bytes": psutil.virtual_memory().used,
            "energy_j": now["joules"],
        }
        seconds = now["t"] - before["t"]
        if seconds <= 0 or now["all"] <= before["all"]:
            return [row]
        change = {name: now[name] - before[name] for name in now if now[name] is not None}
        others = change["usable_busy"] - change["own"]
        row["utilisation_pct"] = _percent(change["busy"], change["all"])
        row["other_pct"] = _percent(others, change["usable"]) if change["usable"] > 0 else None
        if "joules" in change:
            row["power_w"] = change["joules"] / seconds
        return [row]

    def _now(self) -> dict[str, Any]:
        cores = psutil.cpu_times(percpu=True)
        usable = [c for k, c in enumerate(cores) if self._usable is None or k in self._usable]
        return {
            "t": time.perf_counter(),
            "busy": sum(map(_busy, cores)),
            "all": sum(map(_all, cores)),
            "usable_busy": sum(map(_busy, usable)),
            "usable": sum(map(_all, usable)),
            "own": self._family.cpu_s(),
            "joules": self._rapl.joules(),
        }


class _Family:
    """The processor time of some processes and of all that they started."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._known: dict[int, psutil.Process] = {}
        self._seconds: dict[int, float] = {}
        self._looked = -_CHILDREN_S

    def cpu_s(self) -> float:
        """Return user and system time so far; of a process that has ended, what it had."""
        if time.perf_counter() - self._looked >= _CHILDREN_S:
            self._look()
        for pid, process in list(self._known.items()):
            try:
                times = process.cpu_times()
            except psutil.Error:
                del self._known[pid]
            else:
                self._seconds[pid] = times.user + times.system
        return sum(self._seconds.values())

    def _look(self) -> None:
        self._looked = time.perf_counter()
        for pid in self._pids():
            try:
                process = psutil.Process(pid)
                for one in (process, *process.children(recursive=True)):
                    self._known.setdefault(one.pid, one)
            except psutil.Error:
                continue


def _usable() -> set[int] | None:
    """Return the cores that this process, and so the run, may use; None: all."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def _busy(core: Any) -> float:
    return _all(core) - float(core.idle) - float(getattr(core, "iowait", 0.0))


def _all(core: Any) -> float:
    # Time of guests is part of user and nice already.
    return float(sum(core) - getattr(core, "guest", 0.0) - getattr(core, "guest_nice", 0.0))


def _percent(part: float, whole: float) -> float:
    return round(min(max(_PERCENT * part / whole, 0.0), float(_PERCENT)), 2)
