"""How parent and child speak: the job goes to the child, events come back, and both see an end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


class Pipes:
    """The parent's ends: `events` to read, and what the job is sent by; the child's to be told."""

    arguments: list[str]
    """What the child's command line ends with."""
    stdin: int
    pass_fds: tuple[int, ...] = ()
    events: int
    _job: int | None

    def send(self, line: bytes) -> None:
        """Send the job; unbuffered, since a buffered rest would fail again at the end."""
        assert self._job is not None
        os.write(self._job, line)

    def hang_up(self) -> None:
        """End what the child reads from, which tells it that the parent is gone."""
        if self._job is not None:
            os.close(self._job)
            self._job = None

    def started(self) -> None:
        """Leave the child's ends to the child, which has them now."""

    def ended(self) -> None:
        """Remove what is left when the child has ended."""


class InheritedPipes(Pipes):
    """Pipes that the child inherits: the job on its stdin, events on a number it is told."""

    def __init__(self) -> None:
        self.stdin, self._job = os.pipe()
        self.events, self._events_end = os.pipe()
        self.arguments = [str(self._events_end)]
        self.pass_fds = (self._events_end,)

    def started(self) -> None:
        """Leave the child's ends to the child, which has them now."""
        os.close(self.stdin)
        os.close(self._events_end)


class NamedPipes(Pipes):
    """Pipes with names, for a child behind a program that may close what it inherits.

    The folder of the pipes is not the run's, which may lie on a file system without pipes.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="workbench-pipes-"))
        events, job = self._folder / "events", self._folder / "job"
        for path in (events, job):
            os.mkfifo(path, 0o600)
        self.stdin = subprocess.DEVNULL
        self.events = os.open(events, os.O_RDONLY | os.O_NONBLOCK)
        # Held until the child has ended: a pipe that nobody writes to reads as closed.
        self._events_end: int | None = os.open(events, os.O_WRONLY)
        # For reading too, since a pipe without a reader cannot be opened for writing alone.
        self._job = os.open(job, os.O_RDWR)
        self.arguments = [str(events), str(job)]

    def ended(self) -> None:
        """Let the events end, and remove the names."""
        if self._events_end is not None:
            os.close(self._events_end)
            self._events_end = None
            shutil.rmtree(self._folder, ignore_errors=True)
