"""Marks in a training script: where a step ends, and which function is a step.

Outside of a recording they do nothing; in one they take the place of the optimiser's steps. The
file needs the standard library alone, so that it can be copied beside a script. While
`workbench record --script` runs, `from workbench.capture import step` works in every environment,
whether Workbench is installed there or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])
_listening: Any = sys.modules.get("_workbench_child.marked")
if _listening is not None:
    _listening.imported()


def step(loss: Any = None) -> None:
    """End the training step that runs; the next one begins behind it.

    `loss`, a number or a tensor of one, is shown while the recording goes on.
    """
    if _listening is not None:
        _listening.step(loss)


def workload(function: _F) -> _F:
    """Mark a function as one training step, or a generator that yields after each step.

    `workbench record --script FILE` calls a marked function again and again, unless the script
    calls it itself; either way a step ends when it returns or yields. It takes no argument then.
    """
    return function if _listening is None else cast("_F", _listening.workload(function))
