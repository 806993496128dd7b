"""One row of what `workbench doctor` says."""

from __future__ import annotations

import sys
from typing import NamedTuple

IS_MAC = sys.platform == "darwin"
NO_GPU_ON_MAC = "macOS: recordings run on the CPU"


class Row(NamedTuple):
    """A check, how it stands, what was found, and how to mend it."""

    check: str
    state: str
    """ok; missing, which is to be repaired; absent, which this machine can do without."""
    found: str
    fix: str | None = None
