"""`workbench report`: what a recording shows, as one HTML file that opens anywhere offline."""

from __future__ import annotations

from pathlib import Path

from workbench.panels import page
from workbench.panels.answers import Answers
from workbench.panels.choice import Choice
from workbench.trace.open import open_source
from workbench.trace.runfile import RUN_FILE
from workbench.views.timeline import Timeline


def write(source: Path, out: Path | None = None) -> Path:
    """Write the report of a source; a run folder keeps it by default, as report.html.

    A file that ends in .svg or .png gets the timeline as a picture.

    Raises
    ------
    UsageError
        The file ends otherwise.
    InputError
        The source can't be opened, or the file can't be written.
    """
    opened = open_source(source)
    if out is not None and out.suffix in {".svg", ".png"}:
        return Timeline(opened).save(out)
    answers = Answers(opened, Choice())
    return page.write(
        out or _default(source), answers, Timeline(opened), f"Workbench: {source.resolve().name}"
    )


def _default(source: Path) -> Path:
    if (source / RUN_FILE).exists():
        return source / "report.html"
    return Path(source.resolve().name.split(".")[0] + ".html")
