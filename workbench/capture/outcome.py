"""How a run ended, from how its ranks ended: the status and the sentence that says why."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.capture.process import RankProcess

_LINES = 3
_LONGEST = 300


def has_failed(process: RankProcess) -> bool:
    """Return whether a rank said so, or ended before its trace was written."""
    ended_early = process.returncode is not None and not process.done
    return process.error is not None or ended_early


def culprit(processes: Sequence[RankProcess]) -> RankProcess | None:
    """Return the rank that failed first.

    When a rank dies, the others fail on the broken connection. So a rank killed by a signal comes
    first, then one that ended without a word, then the earliest error.
    """
    failed = [process for process in processes if has_failed(process)]
    if not failed:
        return None
    return min(failed, key=_order)


def sentence(process: RankProcess, ranks: int) -> str:
    """Say in one sentence how a rank failed; with several ranks, which one and its last lines."""
    who = f"Rank {process.rank}" if ranks > 1 else "The training process"
    if process.error is not None:
        message = process.error[1]
        return message if ranks == 1 else f"{who} failed: {message}{last_lines(process)}"
    code = process.returncode
    if code is not None and code < 0:
        hint = ", perhaps by the system for want of memory" if code == -signal.SIGKILL else ""
        how = f"was killed by {_signal_name(-code)}{hint}"
    else:
        how = f"ended with exit code {code} before its trace was written"
    return f"{who} {how}, in phase {process.phase}{last_lines(process)}"


def _order(process: RankProcess) -> tuple[int, int]:
    if process.error is not None:
        return (2, process.error[0])
    return (0 if (process.returncode or 0) < 0 else 1, process.rank)


def last_lines(process: RankProcess) -> str:
    """Say what a rank printed last, as the end of a sentence."""
    lines = [line.strip() for line in process.tail if line.strip()][-_LINES:]
    if not lines:
        return "; it printed nothing."
    return f"; its output ends: {' | '.join(lines)[-_LONGEST:]}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
