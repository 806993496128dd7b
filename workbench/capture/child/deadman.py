"""The child dies with its parent: end of file on stdin, or another parent, kills its group."""

from __future__ import annotations

import os
import select
import signal
import threading

_CHECK_S = 1.0


def read_line(fd: int) -> bytes:
    """Read one line byte by byte, so that nothing behind it is taken from the pipe."""
    line = bytearray()
    while (byte := os.read(fd, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def watch(fd: int) -> None:
    """Watch the pipe from the parent in a thread, until the parent is gone.

    A process forked by the parent may hold the pipe open after the parent died, so the parent's
    id is checked too.
    """
    parent = os.getppid()

    def wait() -> None:
        while os.getppid() == parent:
            ready, _, _ = select.select([fd], [], [], _CHECK_S)
            if ready and not os.read(fd, 4096):
                break
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=wait, name="workbench-deadman", daemon=True).start()


def detach_stdin() -> int:
    """Move the parent's pipe off stdin, which reads as empty from then on; return the pipe."""
    pipe = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return pipe
