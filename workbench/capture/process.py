"""One child process in a session of its own: its two pipes, its signals, its end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.capture.pipes import InheritedPipes, NamedPipes
from workbench.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.capture.pipes import Pipes

_WORKER = Path(__file__).with_name("worker.py")
NOISE = re.compile(rb"^(?:USDT|STAGE):.*ActivityProfiler")
"""What the profiler itself writes when it starts and stops."""
_LONGEST_LINE = 1 << 16
_CHUNK = 1 << 16
_TAIL = 200


class Lines:
    """Cuts what comes out of a non-blocking pipe into lines."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.open = True
        self._rest = b""
        os.set_blocking(fd, False)

    def read(self, longest: int | None = None) -> list[bytes]:
        """Return the lines complete by now; at the end of the pipe also an unfinished one."""
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return []
        if not chunk:
            self.open = False
            os.close(self.fd)
            return [self._rest] if self._rest else []
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if longest is not None and len(self._rest) > longest:
            lines.append(self._rest)
            self._rest = b""
        return lines


class RankProcess:
    """The child of one rank, from start to its last signal."""

    def __init__(
        self,
        rank: int,
        interpreter: Path,
        job: Mapping[str, Any],
        env: Mapping[str, str],
        around: Sequence[str] = (),
    ) -> None:
        """Start the child; `around` is the command of a program that starts it in our place."""
        self.rank = rank
        self.returncode: int | None = None
        self.done = False
        self.error: tuple[int, str] | None = None
        """Time in unix ns and sentence, as the child said it."""
        self.phase = "start"
        self.tail: deque[str] = deque(maxlen=_TAIL)
        self._lock = threading.Lock()
        self._pipes: Pipes = NamedPipes() if around else InheritedPipes()
        program = around[0] if around else interpreter
        try:
            self._popen = subprocess.Popen(
                [*around, str(interpreter), str(_WORKER), *self._pipes.arguments],
                stdin=self._pipes.stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=self._pipes.pass_fds,
                start_new_session=True,
                env=env,
            )
        except OSError as error:
            os.close(self._pipes.events)
            self._pipes.hang_up()
            self._pipes.ended()
            raise CaptureError(f"{program} cannot be started: {error.strerror}.") from None
        finally:
            self._pipes.started()
        self.pid = self._popen.pid
        assert self._popen.stdout is not None
        self.log = Lines(os.dup(self._popen.stdout.fileno()))
        self._popen.stdout.close()
        self.events = Lines(self._pipes.events)
        self._send(job)

    def read_log(self) -> list[str]:
        """Return the new lines of output, without the profiler's own noise."""
        lines = [line for line in self.log.read(_LONGEST_LINE) if not NOISE.match(line)]
        texts = [line.decode(errors="replace").rstrip("\r") for line in lines]
        self.tail.extend(texts)
        return texts

    def read_events(self) -> list[dict[str, Any]]:
        """Return the new events; a line that is none is passed over."""
        events = []
        for line in self.events.read():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "phase" in event:
                self._note(event)
                events.append(event)
        return events

    def signal(self, number: int) -> None:
        """Signal the child's whole group, as long as its leader is not reaped."""
        with self._lock:
            if self.returncode is None:
                self._signal_group(number)

    def poll(self) -> int | None:
        """Return the exit code once the child has ended, after ending what it left behind.

        The leader is reaped last: until then its number cannot belong to another process.
        """
        with self._lock:
            if self.returncode is None and self._has_exited():
                self._signal_group(signal.SIGKILL)
                self.returncode = self._popen.wait()
                self._pipes.ended()
        return self.returncode

    def close(self) -> None:
        """Close the pipes that are still open, the dead-man switch among them."""
        for lines in (self.log, self.events):
            if lines.open:
                lines.open = False
                os.close(lines.fd)
        self._pipes.hang_up()
        self._pipes.ended()

    def _note(self, event: dict[str, Any]) -> None:
        if event["phase"] == "error":
            self.error = (int(event["t_unix_ns"]), str(event["message"]))
        elif event["phase"] == "done":
            self.done = True
        else:
            self.phase = str(event["phase"])

    def _send(self, job: Mapping[str, Any]) -> None:
        # A child that has ended already says more by its exit code.
        with contextlib.suppress(BrokenPipeError):
            self._pipes.send(json.dumps(job).encode() + b"\n")

    def _has_exited(self) -> bool:
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._popen.poll() is not None
        try:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, flags) is not None
        except ChildProcessError:
            return True

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
