"""One run on several machines: each records its own ranks into one folder that all of them see.

The first node makes the folder, closes it and gives it its name. While they run, each keeps a file
`.node1.json` there, written anew every second or so: whether it is well, and at the end what its
manifest holds. A file that no longer changes is a node that was lost, whatever the clocks say.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.capture import folder
from workbench.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.capture.plan import CapturePlan

SILENT_S = 60.0
"""A node that says nothing for so long is lost; file systems that are shared may lag."""
JOIN_S = 300.0
"""How long a node waits for the first to make the folder."""
QUIET_S = 10.0
"""The same, where something has gone wrong already."""
ENDING_S = 12.0
"""How long a run that failed waits for the other nodes to say how they ended."""
_BEAT_S = 1.0
_POLL_S = 0.2
_LISTS = ("steps", "processes", "notes")
_LARGEST = 64 * 10**6


def enter(plan: CapturePlan) -> tuple[Path, Path]:
    """Return the folder to record into, and its final name: made, or joined once it is there."""
    if plan.nnodes == 1:
        return folder.create(plan)
    for name in ("rdzv_endpoint", "out"):
        if getattr(plan, name) is None:
            raise UsageError(
                f"nnodes={plan.nnodes} needs {name}: every node must be given the same "
                "--rdzv-endpoint HOST:PORT (a free port of the first node) and the same "
                "-o FOLDER on a file system that all of them see."
            )
    return folder.create(plan) if plan.node_rank == 0 else _join(plan)


def _join(plan: CapturePlan) -> tuple[Path, Path]:
    assert plan.out is not None
    final = plan.out.expanduser().absolute()
    partial = folder.partial_path(final)
    until = time.monotonic() + JOIN_S
    while not (partial / folder.MANIFEST).is_file():
        if time.monotonic() > until:
            raise CaptureError(
                f"Node 0 did not make {partial} within {JOIN_S:.0f} s; see that it was started "
                "with the same -o, and that the folder lies on a file system that all nodes see."
            )
        time.sleep(_POLL_S)
    return partial, final


def take_in(content: dict[str, Any], said: list[dict[str, Any]]) -> None:
    """Add to the first node's manifest what the others said last: steps, processes, notes."""
    for one in said:
        for name in _LISTS:
            rows = one.get(name)
            if isinstance(rows, list):
                content[name].extend(row for row in rows if isinstance(row, dict))
        told = {key: one.get(key) for key in ("node", "machine", "status", "error")}
        content.setdefault("nodes", []).append(told)


class Nodes:
    """The nodes of one run, as one of them sees the others; with one node nothing happens."""

    def __init__(self, plan: CapturePlan, path: Path, host: str) -> None:
        self.path, self.host = path, host
        self.me, self.count = plan.node_rank, plan.nnodes
        self.is_first = self.me == 0
        self._beats = 0
        self._next = 0.0
        self._heard: dict[int, tuple[Any, float]] = {}
        """Of each other node the number of its last beat, and when it was seen to change."""

    def named(self, name: str) -> str:
        """Return the name of a file that each node has of its own."""
        stem, dot, suffix = name.partition(".")
        return name if self.is_first else f"{stem}.node{self.me}{dot}{suffix}"

    def look(self) -> str | None:
        """Say that this node is well; return what went wrong on another, where something did."""
        if self.count == 1 or time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + _BEAT_S
        if not self.path.exists():
            return f"Node 0 has closed {self.path} already; its run.json says how the run ended."
        self._say({"status": "running"})
        found = [self._fault(node) for node in range(self.count) if node != self.me]
        return next(filter(None, found), None)

    def end(
        self, status: str, error: str | None, content: Mapping[str, Any], leave: Callable[[], bool]
    ) -> list[dict[str, Any]]:
        """Say how this node ended, and wait for the others; return what they said last.

        The first node waits for all of them, the others for the first to close the folder; when
        the run failed at most `ENDING_S`, and never once `leave()`.
        """
        if self.count == 1:
            return []
        told = {"status": status, "error": error, "machine": content["machine"]}
        self._say(told | {name: content[name] for name in _LISTS})
        until = time.monotonic() + (SILENT_S if status == "done" else ENDING_S)
        others = [node for node in range(self.count) if node != self.me]
        while not leave():
            if self.is_first:
                said = {node: self._read(node) for node in others}
                faults = [self._fault(node) for node in others]
                running = [n for n in others if said[n].get("status") in (None, "running")]
                if not running or (status == "done" and any(faults)):
                    break
                if status != "done" and time.monotonic() > until:
                    break
            elif not self.path.exists() or time.monotonic() > until:
                break
            else:
                self._fault(0)
            time.sleep(_POLL_S)
        return [{"node": node, **self._read(node)} for node in others]

    def lost(self) -> list[int]:
        """Return the other nodes that neither ended nor were heard of for a while."""
        return [
            node
            for node, (_, changed) in self._heard.items()
            if self.path.exists()
            and self._read(node).get("status") in (None, "running")
            and time.monotonic() - changed > QUIET_S
        ]

    def fault_of(self, said: Mapping[str, Any]) -> str | None:
        """Say in one sentence how another node ended, unless it ended well."""
        node, status = said["node"], said.get("status")
        if status == "done":
            return None
        machine = said.get("machine")
        host = f" ({machine.get('host')})" if isinstance(machine, dict) else ""
        if status in (None, "running"):
            log = f"log.node{node}.txt" if node else "log.txt"
            return (
                f"Node {node} was lost: it gives no sign of life; see {log}, and whether that "
                "machine is well."
            )
        return f"Node {node}{host}: {said.get('error') or status}"

    def _fault(self, node: int) -> str | None:
        said = self._read(node)
        beat, now = said.get("beat"), time.monotonic()
        before, changed = self._heard.get(node, (None, now))
        if node not in self._heard or beat != before:
            self._heard[node] = (beat, now)
            changed = now
        ended = said.get("status") not in (None, "running")
        # A node that comes late is waited for as long as it would wait for the first.
        patience_s = SILENT_S if beat is not None else JOIN_S
        if ended or now - changed > patience_s:
            return self.fault_of({"node": node, **said})
        return None

    def _say(self, what: Mapping[str, Any]) -> None:
        self._beats += 1
        text = json.dumps({**what, "beat": self._beats}, default=str)
        try:
            # In place: on NFS a file that is renamed over another is seen half a minute late. One
            # that is read half-written is no JSON, and is read again.
            (self.path / f".node{self.me}.json").write_text(text, encoding="utf-8")
        except OSError:
            return  # the first node has closed the folder, or the others will miss this one

    def _read(self, node: int) -> dict[str, Any]:
        file = self.path / f".node{node}.json"
        try:
            if file.stat().st_size > _LARGEST:
                return {}
            said = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}
