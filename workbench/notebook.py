"""`workbench export NOTEBOOK`: prose, code and outputs as one HTML file, its views alive offline.

Without running anything: a timeline or explorer left in its output where its recording lies, and is
drawn from that; any other view is the picture or the text that the notebook holds. With `execute`
the notebook is run first, and every view is taken from its kernel.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import bleach
import nbformat
from bleach.css_sanitizer import CSSSanitizer
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter

from workbench.errors import InputError, UsageError, WorkbenchError
from workbench.panels import embed, page
from workbench.views import html

WIDGET = "application/vnd.jupyter.widget-view+json"
STILL = ("image/png", "image/jpeg", "text/html", "text/markdown", "text/latex", "text/plain")
"""What an output may be shown as, the richest first."""
CELL_TIMEOUT_S = 3_600
SCRIPTED = re.compile(r"<script\b", re.IGNORECASE)
STYLED = re.compile(r"<style\b.*?</style\s*>", re.IGNORECASE | re.DOTALL)
TAGS = {
    *bleach.ALLOWED_TAGS, "p", "div", "span", "pre", "br", "hr", "img", "h1", "h2", "h3", "h4",
    "h5", "h6", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption", "dl", "dt", "dd",
    "small", "sub", "sup", "kbd", "del", "ins", "mark", "details", "summary", "figure",
    "figcaption",
}  # fmt: skip
COMMON = {"class", "id", "title", "style", "colspan", "rowspan", "align"}
OWN = {"a": {"href"}, "ol": {"start"}, "img": {"src", "alt", "width", "height"}}
"""Attributes that any element may have, and those of some."""
STYLE = """
.wb-notebook { max-width: 1240px; margin: 0 auto; }
.wb-notebook div.input { margin: 10px 0 2px; }
.wb-notebook .highlight { padding: 8px 12px; border-radius: 4px; overflow-x: auto; }
.wb-notebook pre { margin: 0; font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
.wb-notebook .output pre { padding: 4px 0; white-space: pre; }
.wb-notebook .output_area:not(:has(.wb-timeline, .wb-panel)) { overflow-x: auto; }
.wb-notebook img { max-width: 100%; }
.wb-notebook table { font-size: 13px; } .wb-notebook code { font-size: 0.92em; }
.wb-notebook .anchor-link { display: none; }
"""


@dataclass
class Export:
    """What became of the views of a notebook."""

    path: Path
    alive: int = 0
    still: list[str] = field(default_factory=list)
    """Why each of the others is a picture or a text."""

    def said(self) -> str:
        """Return it as a sentence, empty for a notebook without views."""
        parts = [f"{self.alive} alive"] if self.alive else []
        if self.still:
            why = "; ".join(dict.fromkeys(self.still))
            parts.append(f"{len(self.still)} as stored ({why}; --execute runs the notebook)")
        return f"views: {', '.join(parts)}" if parts else ""


def export(source: Path, out: Path, *, code: bool = True, execute: bool = False) -> Export:
    """Write a notebook as HTML; `code` keeps its code cells' sources.

    Markup of others is cleaned, scripts of others do not run, and the page asks nothing of other
    machines; formulas stand as their TeX, and pictures beside the notebook are left out.

    Raises
    ------
    UsageError
        The file does not end in .html.
    InputError
        The notebook can't be read, a cell fails, or the file can't be written.
    """
    if out.suffix != ".html":
        raise UsageError(f"{out} does not end in .html, the one form of an exported notebook.")
    book = _read(source)
    done = Export(out)
    tokens: dict[str, str] = {}
    if execute:
        views = _run(book, source)
        _replace(book, tokens, done, lambda output, _: views.get(_model(output)))
    else:
        folder = source.resolve().parent
        _replace(book, tokens, done, lambda o, room: embed.remembered(o.metadata, folder, room))
    body = _body(book, code=code)
    for token, fragment in tokens.items():
        body = body.replace(f"<p>{token}</p>", fragment)
    title, is_told = _title(book, source)
    content = f'<div class="wb-notebook">{body}</div>'
    style = STYLE + _highlighting()
    whole = page.around(title, content, style=style, heading=not is_told)
    html.written(out, whole.encode("utf-8"))
    return done


def _read(source: Path) -> Any:
    try:
        return nbformat.read(source, as_version=4)
    except OSError as e:
        raise InputError(f"{source} can't be read: {e.strerror}.") from None
    except (ValueError, KeyError, AttributeError, TypeError, nbformat.ValidationError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InputError(f"{source} is not a notebook that can be read ({reason}).") from None


def _run(book: Any, source: Path) -> Mapping[str | None, str]:
    """Run a notebook in its folder; return the HTML of each view by its model."""
    client = NotebookClient(
        book,
        timeout=CELL_TIMEOUT_S,
        resources={"metadata": {"path": str(source.resolve().parent)}},
        record_timing=False,
        store_widget_state=False,
    )
    with tempfile.TemporaryDirectory(prefix="workbench-export-") as folder, client.setup_kernel():
        for number, cell in enumerate(book.cells):
            _step(client, cell, number, source)
        models = [m for output in _outputs(book) if (m := _model(output)) is not None]
        written = Path(folder) / "views.json"
        room = _room(len(models))
        ask = (
            "from workbench.panels.embed import write_alive\n"
            f"write_alive({str(written)!r}, {models!r}, {room})"
        )
        book.cells.append(nbformat.v4.new_code_cell(ask))
        _step(client, book.cells[-1], len(book.cells) - 1, source)
        book.cells.pop()
        found: dict[str, str] = json.loads(written.read_text("utf-8"))
    return {model: view for model, view in found.items() if view is not None}


def _step(client: NotebookClient, cell: Any, number: int, source: Path) -> None:
    try:
        client.execute_cell(cell, number)
    except CellExecutionError as error:
        raise InputError(
            f"Cell {number + 1} of {source} failed, so nothing was written: "
            f"{error.ename}: {error.evalue}"
        ) from None
    except (DeadKernelError, TimeoutError) as error:
        raise InputError(f"Cell {number + 1} of {source} did not end: {error}") from None


def _outputs(book: Any) -> list[Any]:
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    return [output for cell in cells for output in cell.outputs]


def _model(output: Any) -> str | None:
    view = output.get("data", {}).get(WIDGET)
    return view.get("model_id") if isinstance(view, Mapping) else None


def _room(views: int) -> int:
    return html.MAX_BYTES // max(views, 1)


def _replace(
    book: Any,
    tokens: dict[str, str],
    done: Export,
    view_of: Callable[[Any, int], str | None],
) -> None:
    """Put a word in place of each view that is alive, and what is stored in place of the others.

    The words can't be foreseen by whoever wrote the notebook.
    """
    seed = hashlib.sha256(nbformat.writes(book).encode("utf-8", "replace")).hexdigest()
    outputs = _outputs(book)
    room = _room(sum(_model(output) is not None for output in outputs))
    for number, output in enumerate(outputs):
        if "data" not in output:
            continue
        is_view = _model(output) is not None
        fragment = _asked(view_of, output, room, done) if is_view else None
        if fragment is None:
            output["data"] = _still(output["data"])
            continue
        token = hashlib.sha256(f"{seed} {number}".encode()).hexdigest()
        tokens[token] = fragment
        done.alive += 1
        output["data"] = {"text/html": f"<p>{token}</p>"}


def _asked(
    view_of: Callable[[Any, int], str | None], output: Any, room: int, done: Export
) -> str | None:
    """Return a view, or note why there is none."""
    try:
        found = view_of(output, room)
    except WorkbenchError as error:
        done.still.append(str(error).rstrip("."))
        return None
    if found is None:
        done.still.append("what they show is in the kernel alone")
    return found


def _still(data: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of an output the one thing that a page without scripts of others can show."""
    if WIDGET in data:
        return {"text/html": _still_view(data)}
    for kind in STILL:
        content = data.get(kind)
        if content is None or (kind == "text/html" and SCRIPTED.search(content)):
            continue
        shown = STYLED.sub("", content) if kind == "text/html" else content
        return {kind: shown}
    return {"text/plain": "This output is made of scripts, which an exported page does not run."}


def _still_view(data: Mapping[str, Any]) -> str:
    """Write a view that is not alive: its picture, and its numbers as text."""
    picture = data.get("image/png")
    image = f'<img alt="" src="data:image/png;base64,{escape(str(picture))}">' if picture else ""
    return f"{image}<pre>{escape(str(data.get('text/plain', '')))}</pre>"


def _body(book: Any, *, code: bool) -> str:
    book.metadata.pop("widgets", None)  # of a kernel that is gone
    exporter = HTMLExporter(
        template_name="basic",
        exclude_input=not code,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        embed_images=False,
    )
    body, _ = exporter.from_notebook_node(book)
    css = CSSSanitizer(allowed_css_properties=["text-align", "color", "background-color", "width"])
    cleaned: str = bleach.clean(
        body, tags=TAGS, attributes=_is_harmless, css_sanitizer=css, strip=True,
        protocols=["http", "https", "mailto", "data"],
    )  # fmt: skip
    return cleaned


def _is_harmless(tag: str, name: str, value: str) -> bool:
    """Say whether an attribute may stay; a picture from elsewhere would be a request."""
    if (tag, name) == ("img", "src"):
        return value.startswith("data:image/")
    return name in COMMON or name in OWN.get(tag, ())


def _title(book: Any, source: Path) -> tuple[str, bool]:
    """Return the first heading of a notebook, else its name, and whether it is a heading."""
    prose = "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    found = re.search(r"^#\s+(.+)$", prose, re.MULTILINE)
    return (found[1].strip(), True) if found else (source.stem, False)


def _highlighting() -> str:
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}"
