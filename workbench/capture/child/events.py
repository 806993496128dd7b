"""Progress of the child as JSON lines on a pipe of its own, apart from what the training prints."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any


class Events:
    """Writes one JSON object a line; a reader that has gone is no reason to fail."""

    def __init__(self, fd: int, rank: int = 0) -> None:
        self.fd, self.rank = fd, rank
        self._lock = threading.Lock()

    def send(
        self,
        phase: str,
        *,
        step: int | None = None,
        of: int | None = None,
        seconds: float | None = None,
        loss: float | None = None,
        message: str | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        """Send one event: where the run is, and facts for its manifest."""
        event = {
            "rank": self.rank,
            "t_unix_ns": time.time_ns(),
            "phase": phase,
            "step": step,
            "of": of,
            "seconds": seconds,
            "loss": loss,
            "message": message,
            "facts": facts or {},
        }
        line = json.dumps(event, default=str).encode() + b"\n"
        with self._lock:
            try:
                while line:
                    line = line[os.write(self.fd, line) :]
            except OSError:
                pass
