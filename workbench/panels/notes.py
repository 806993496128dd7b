"""Notes in the explorer: a form to write them, and what they add to tables and details."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl

from workbench import units
from workbench.errors import WorkbenchError
from workbench.noting.merge import live
from workbench.noting.note import Named
from workbench.panels import text
from workbench.panels.details import SCHEMA, find

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from workbench.panels.answers import Answers
    from workbench.panels.shown import Shown
    from workbench.views.timeline import Timeline

About = dict[str, Any]
"""What a note is about, as `Timeline.annotate` takes it."""
_NAMED_IN = {"kernels": "kernel", "ops": "operator"}
_LONGEST = 60
"""Characters of a name in a choice."""


class NoteForm(w.VBox):
    """Writes a note on what is chosen in `about`, or changes the one that is shown.

    Call `follow` when the explorer shows something else; `save()` and `remove()` are the buttons,
    and `said` is what they answered.
    """

    def __init__(self, of: Shown) -> None:
        self.of = of
        self.shown: Mapping[str, Any] | None = None
        """The row of `notes` that is being changed; None for a new note."""
        self.about = w.Dropdown(description="about", options=[])
        self.name = w.Text(description="name", placeholder="a few words")
        self.text = w.Textarea(description="text", placeholder="what there is to say", rows=3)
        self._save = w.Button(description="add note", icon="plus")
        self._remove = w.Button(description="remove", icon="trash")
        self._new = w.Button(description="new note")
        self.what, self._told = w.HTML(), w.HTML()
        for field in (self.about, self.name, self.text):
            field.style.description_width, field.layout.width = "50px", "560px"
        self._save.on_click(lambda _: self.save())
        self._remove.on_click(lambda _: self.remove())
        self._new.on_click(lambda _: self._show(None))
        buttons = w.HBox([self._save, self._remove, self._new])
        super().__init__([self.what, self.about, self.name, self.text, buttons, self._told])
        self._said = ""

    def __repr__(self) -> str:
        return "NoteForm()"

    @property
    def said(self) -> str:
        """What the last button did, or why it could not."""
        return self._said

    @property
    def timeline(self) -> Timeline | None:
        """The timeline that notes go on."""
        return self.of.timeline

    def follow(self) -> None:
        """Offer what is selected, and show the marked row of `notes` for changing."""
        answers, timeline = self.of.answers, self.of.timeline
        if answers is None or timeline is None:
            return
        row = self.of.panes.rows.get("notes")
        first, chosen = self.about.options[:1], self.about.label
        self.about.options = tuple(offers(answers, timeline))
        labels = [label for label, _ in self.about.options]
        is_kept = first == self.about.options[:1] and chosen in labels
        self.about.index = labels.index(chosen) if is_kept else 0
        shown = None if row is None else answers["notes"].row(row, named=True)
        if (shown and _state(shown)) != (self.shown and _state(self.shown)):
            self._show(shown)

    def save(self) -> None:
        """Keep what is written: a new note, or the change of the one that is shown."""
        if self.timeline is None:
            return
        if not self.name.value.strip():
            self._say("A note needs a name.")
            return
        said: About = {"name": self.name.value.strip(), "text": self.text.value}
        try:
            if self.shown is None:
                self.timeline.annotate(**said, **(self.about.value or {}))
            else:
                self.timeline.noted.edit(*_state(self.shown), **said)
        except WorkbenchError as error:
            self._say(str(error))
            return
        if self.shown is None:
            self._show(None)
        self._say(f"Note {said['name']} is kept.")

    def remove(self) -> None:
        """Remove the note that is shown."""
        if self.timeline is None or self.shown is None:
            return
        name = self.shown["name"]
        try:
            self.timeline.noted.remove(*_state(self.shown))
        except WorkbenchError as error:
            self._say(str(error))
            return
        self._show(None)
        self._say(f"Note {name} is removed.")

    def _show(self, shown: Mapping[str, Any] | None) -> None:
        self.shown = shown
        self.name.value, self.text.value = (shown["name"], shown["text"]) if shown else ("", "")
        self._save.description, self._save.icon = (
            ("save", "check") if shown else ("add note", "plus")
        )
        hidden = {True: "none", False: ""}
        self.about.layout.display = hidden[shown is not None]
        self._remove.layout.display = self._new.layout.display = hidden[shown is None]
        self.what.value = text.caption(_title(shown) if shown else "A new note:")
        self._say("")

    def _say(self, sentence: str) -> None:
        self._said = sentence
        self._told.value = text.caption(sentence) if sentence else ""


def _state(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["id"], row["revision"]


def _title(row: Mapping[str, Any]) -> str:
    by = f", by {row['author']}" if row["author"] else ""
    both = f"; {row['conflict']}: keep one and remove the other" if row["conflict"] else ""
    return f"The note on {row['target']}{by}, {row['changed']:%Y-%m-%d %H:%M} UTC{both}."


def offers(answers: Answers, timeline: Timeline) -> Iterator[tuple[str, About]]:
    """Yield what a new note may be about: label, and the target; the likeliest first."""
    found = find(answers.source, timeline.selected)
    if found is not None:
        trace, row = found
        name = str(row.get("name", f"step {row.get('step')}"))
        yield f"the selected {_short(name)}", {"event": dict(timeline.selected)}
        for of, named in _names(timeline.selected, trace, row).items():
            yield f"every {of} {_short(named)}", {of: named}
    if timeline.selection:
        start, end = timeline.selection
        yield f"the selected range, {units.duration(end - start)}", _stretch(start, end)
    start, end = timeline.window
    yield f"what is in sight, {units.duration(end - start)}", _stretch(start, end)


def _stretch(start_ns: int, end_ns: int) -> About:
    return {"start_ns": start_ns, "end_ns": end_ns}


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _names(selected: Mapping[str, Any], trace: Any, row: Mapping[str, Any]) -> dict[str, str]:
    """Return the names that an event stands under, in the tables of kernels and operators."""
    if selected["table"] == "ops":
        return {"operator": str(row["name"])}
    if selected["table"] != "activities":
        return {}
    names = {"kernel": str(row["name"])}
    if row["op"] is not None:
        names["operator"] = str(trace.ops["name"][row["op"]])
    return names


# ---- what notes add to tables and details -----------------------------------------------------


def marked(answers: Answers, frame: str) -> pl.DataFrame:
    """Return a frame of the explorer, with the notes on its kernels or operators in `noted`."""
    found = answers[frame]
    notes = _on_names(answers, _NAMED_IN[frame]) if frame in _NAMED_IN else {}
    if not notes:
        return found
    name = pl.col("name").cast(pl.String)
    said = name.replace_strict(notes, default=None, return_dtype=pl.String)
    return found.with_columns(noted=said)


def _on_names(answers: Answers, of: str) -> dict[str, str]:
    found = defaultdict(list)
    for note, _ in live(answers.book.notes):
        if isinstance(note.target, Named) and note.target.of == of:
            found[note.target.name].append(note.name)
    return {name: ", ".join(notes) for name, notes in found.items()}


def on_event(answers: Answers, selected: Mapping[str, Any]) -> pl.DataFrame:
    """Return `field value` of the notes on the selected event, and on its kernel or operator."""
    found = find(answers.source, selected) if answers.noted else None
    if found is None:
        return pl.DataFrame(schema=SCHEMA)
    trace, row = found
    mine = (
        (pl.col("table") == selected["table"])
        & (pl.col("event") == selected["id"])
        & pl.col("rank").eq_missing(pl.lit(trace.meta.rank, pl.Int64))
    )
    frame = answers["notes"]
    parts = [frame.filter(mine)]
    for of, name in _names(selected, trace, row).items():
        parts.append(frame.filter(pl.col("kind") == of, pl.col("target") == f"every {of} {name}"))
    said = pl.when(pl.col("text") == "").then("name").otherwise(pl.format("{}: {}", "name", "text"))
    fields = {"field": pl.lit("note"), "value": said}
    return pl.concat(parts).select(**fields).cast(SCHEMA)  # type: ignore[arg-type] # its own types
