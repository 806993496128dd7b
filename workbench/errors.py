"""The errors of this project: one base class and a handful of kinds.

Each message is one sentence that says what went wrong, where, and what to do about it.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class WorkbenchError(Exception):
    """Base of every error that this project raises on purpose."""


class InputError(WorkbenchError):
    """A file or folder is missing, unreadable or not what it claims to be."""


class CutShortError(InputError):
    """A file ends early; what came before it has been read."""


class NotATraceError(InputError):
    """A whole, readable file holds something else than a trace."""


class UsageError(WorkbenchError):
    """An argument is wrong: an unknown name, a value out of range, two that exclude each other."""


class CaptureError(WorkbenchError):
    """A recording failed, was cancelled or timed out."""


class SchemaError(WorkbenchError):
    """A reader returned a table that does not match its declared schema (a fault of ours)."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Build the error for an unknown name, with the nearest known ones."""
    names = sorted(known)
    begun = [n for n in names if name and n.casefold().startswith(name.casefold())]
    near = sorted(begun, key=len)[:3] or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}."
    return UsageError(f"There is no {kind} named {name!r}; {hint}")
