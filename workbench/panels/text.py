"""The pieces of HTML that the explorer shows besides tables; every text is escaped."""

from __future__ import annotations

import textwrap
from html import escape
from typing import TYPE_CHECKING

from workbench.views.theme import THEMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from workbench.panels.headline import Fact


def facts(found: Iterable[Fact]) -> str:
    """Write the headline: a box a figure, with its share or time below it."""
    return f'<div class="wb-facts">{"".join(_fact(f) for f in found)}</div>'


def _fact(fact: Fact) -> str:
    colours = (f"--wb-{n}:{look.of(fact.meaning)}" for n, look in THEMES.items() if fact.meaning)
    detail = f"<span>{escape(fact.detail)}</span>" if fact.detail else ""
    return (
        f'<div class="wb-fact" style="{";".join(colours)}" title="{escape(fact.hint)}">'
        f"<span>{escape(fact.label)}</span><b>{escape(fact.value)}</b>{detail}</div>"
    )


def notes(sentences: Iterable[str], *, is_error: bool = False) -> str:
    """Write sentences below each other, marked as warnings or as an error."""
    kind = ' class="wb-error"' if is_error else ""
    lines = "".join(f"<p{kind}>{escape(s)}</p>" for s in sentences)
    return f'<div class="wb-notes">{lines}</div>' if lines else ""


def waiting(name: str) -> str:
    """Say that something is being opened."""
    return f'<p class="wb-caption">opening {escape(name)} …</p>'


def caption(sentence: str, unheeded: str = "") -> str:
    """Write a quiet sentence, and one that is to be noticed."""
    noticed = f"<b>{escape(unheeded)}</b>" if unheeded else ""
    gap = " " if sentence and unheeded else ""
    return f'<p class="wb-caption">{escape(sentence)}{gap}{noticed}</p>'


HOW_TO_SELECT = (
    "Click an event to see it here and in the tables; a row below narrows the other tabs to it. "
    "Shift and drag narrows every figure to a range of time. Esc leaves what is selected."
)


def details(frame: pl.DataFrame) -> str:
    """Write the selected event in a line or two; without one, how to select."""
    if frame.is_empty():
        return caption(HOW_TO_SELECT)
    name, *rest = frame.iter_rows()
    fields = "".join(f"<span><i>{escape(k)}</i>{escape(v)}</span>" for k, v in rest)
    return f'<div class="wb-details"><b>{escape(name[1])}</b>{fields}</div>'


def lines(sentences: Iterable[str], width: int = 170) -> list[str]:
    """Break sentences into lines of a still picture."""
    return [line for s in sentences for line in textwrap.wrap(s, width)]
