"""log.txt: what a run printed, kept small however much that is."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HEAD_BYTES = 16 << 20
TAIL_BYTES = 4 << 20


class RunLog:
    """The first and the last lines of a run's output, with a line in between on what is left out.

    Up to `head` bytes are written as they come; from then on the last `tail` bytes are held, and
    written when the log is closed.
    """

    def __init__(self, path: Path, *, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._file = path.open("wb")
        self._room, self._most = head, tail
        self._held: deque[bytes] = deque()
        self._size = self._left_out = 0

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def write(self, lines: Iterable[str]) -> None:
        """Add lines, each without its end; OSError where the disk is full."""
        for line in lines:
            self._add(line.encode("utf-8", "replace") + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Write what is held, and close the file."""
        with self._file as file:
            if self._left_out:
                file.write(f"[{self._left_out:,} lines left out]\n".encode())
            file.writelines(self._held)

    def _add(self, line: bytes) -> None:
        if not self._held and len(line) <= self._room:
            self._room -= len(line)
            self._file.write(line)
            return
        self._held.append(line)
        self._size += len(line)
        while self._size > self._most and len(self._held) > 1:
            self._size -= len(self._held.popleft())
            self._left_out += 1
