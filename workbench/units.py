"""Formatting and conversion of quantities; inside the tables everything is integer ns and bytes.

GB is 10^9 bytes, GiB is 2^30, and a label says which.
"""

from __future__ import annotations

from decimal import Decimal

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

TIME_UNITS = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "us"))
_DECIMAL_PREFIXES = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def duration(ns: float | None) -> str:
    """Write a time in ns with a fitting unit and four significant digits; null is '-'."""
    if ns is None:
        return "-"
    for scale, unit in TIME_UNITS:
        if abs(ns) >= scale:
            return f"{ns / scale:.4g} {unit}"
    return f"{ns:.4g} ns"


def exact(ns: int) -> str:
    """Write a time in ns with all its digits, in the largest unit that it reaches."""
    scale, unit = next(((s, u) for s, u in TIME_UNITS if abs(ns) >= s), (1, "ns"))
    whole, rest = divmod(abs(ns), scale)
    digits = str(rest).rjust(len(str(scale)) - 1, "0").rstrip("0") if scale > 1 else ""
    return f"{'-' if ns < 0 else ''}{whole}{'.' if digits else ''}{digits} {unit}"


def decimal(value: float | None, unit: str) -> str:
    """Write a quantity with a decimal prefix, as in '12.5 GB' or '1.21 TFLOP/s'; null is '-'."""
    if value is None:
        return "-"
    for scale, prefix in _DECIMAL_PREFIXES:
        if abs(value) >= scale:
            return f"{value / scale:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def share(part: float | None, whole: float | None) -> str:
    """Write part / whole as a percentage; '-' when either is null or the whole is zero."""
    if part is None or not whole:
        return "-"
    return f"{100 * part / whole:.1f} %"


def us_text_to_ns(text: str) -> int:
    """Convert decimal microseconds, as text, to integer ns exactly, half to even.

    The slow, obviously right form; `trace.times` does whole columns and is tested against it.
    """
    return int((Decimal(text) * NS_PER_US).to_integral_value(rounding="ROUND_HALF_EVEN"))
