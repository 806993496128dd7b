"""By which columns a table of an analysis is grouped."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import UsageError, unknown_name


def chosen(by: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to group by, in the order of the table.

    Raises
    ------
    UsageError
        No column, or one that the table isn't grouped by.
    """
    if isinstance(by, str):
        by = (by,)
    for name in by:
        if name not in known:
            raise unknown_name("column to group by", name, known)
    if not by:
        raise UsageError(f"There must be a column to group by; give some of {', '.join(known)}.")
    return tuple(n for n in known if n in by)
