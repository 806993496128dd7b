"""`%%record` and `%record_last`: record a notebook's cell, and look at it underneath.

    %load_ext workbench

The cell is the body of one training step. It runs in the kernel, on the notebook's own variables,
once and then for each step that is warmed up, timed and traced; with `--child` it is a training
script of its own, run in a process of its own, and the notebook goes on at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.error import UsageError as Usage
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import DisplayHandle, Pretty, display
from IPython.utils.capture import capture_output

from workbench.capture import CapturePlan
from workbench.capture.here import record_here
from workbench.errors import WorkbenchError
from workbench.panels.explorer import Explorer
from workbench.panels.launcher import stage
from workbench.panels.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.capture import Progress

_T = TypeVar("_T")
NOTHING_YET = "Nothing has been recorded in this notebook yet; begin a cell with %%record."
_CHOSEN = ("warmup", "untraced", "steps", "shapes", "memory", "stacks", "device")


@magics_class
class RecordMagics(Magics):
    """The two magics of one notebook."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.last: Path | Recording | None = None
        """The folder of the run that was recorded last, or the panel of the one in a child."""

    @magic_arguments()
    @argument("--steps", type=int, default=3, help="traced steps (3)")
    @argument("--warmup", type=int, default=3, help="most warm-up steps (3)")
    @argument("--untraced", type=int, default=3, help="steps timed without the profiler (3)")
    @argument("--stacks", action="store_true", help="record Python stacks")
    @argument("--no-shapes", dest="shapes", action="store_false", help="no tensor shapes")
    @argument("--no-memory", dest="memory", action="store_false", help="no allocations")
    @argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    @argument("--name", default=None, help="what the run folder's name begins with")
    @argument("--runs-dir", default="runs", help="the folder that holds run folders")
    @argument("--child", action="store_true", help="run the cell as a script of its own")
    @cell_magic
    def record(self, line: str, cell: str) -> None:
        """Record the cell as the body of a training step and show the run underneath."""
        __tracebackhide__ = True
        chosen = parse_argstring(self.record, line)
        if not cell.strip():
            raise Usage("%%record needs a cell to record below it.")
        plan = self._plan(chosen, cell)
        if chosen.child:
            self.last = _usable(lambda: Recording(plan))
            display(self.last)
            return
        self.last = self._record_here(plan, cell)
        display(_explorer(self.last))

    @line_magic
    def record_last(self, line: str) -> None:
        """Show the run that was recorded last in this notebook again."""
        if line.strip():
            raise Usage(f"%record_last takes nothing; {line.strip()!r} is too much.")
        if self.last is None:
            raise Usage(NOTHING_YET)
        display(self.last if isinstance(self.last, Recording) else _explorer(self.last))

    def _plan(self, chosen: Any, cell: str) -> CapturePlan:
        values = {name: getattr(chosen, name) for name in _CHOSEN}
        values |= {"label": chosen.name, "runs_dir": Path(chosen.runs_dir)}
        return _usable(lambda: CapturePlan(code=cell, **values))

    def _record_here(self, plan: CapturePlan, cell: str) -> Path:
        __tracebackhide__ = True
        shell: Any = self.shell
        try:
            body = Body(shell, cell)
        except SyntaxError:
            shell.showsyntaxerror()
            raise Usage("The cell is not Python, so nothing was recorded.") from None
        line = _Line()
        try:
            found = record_here(plan, body, line.tell)
        except WorkbenchError as error:
            raise Usage(str(error)) from None
        except BaseException:
            line.end(f"The cell ended in run {body.runs}, before its trace was written.")
            raise
        line.end(f"Recorded {plan.steps} steps; the cell ran {body.runs} times.")
        return found


class Body:
    """A cell, compiled once and run in the notebook's variables.

    What it prints is shown the first time only, as if it ran once.
    """

    def __init__(self, shell: Any, cell: str) -> None:
        self.runs = 0
        self._names = shell.user_ns
        # The line of the magic comes first in the cell, so that line numbers are those in sight.
        source = "\n" + shell.transform_cell(cell)
        name = shell.compile.cache(source, shell.execution_count, raw_code=source)
        self._code = shell.compile(source, name, "exec")

    def __call__(self) -> None:
        """Run it once."""
        __tracebackhide__ = True
        self.runs += 1
        if self.runs == 1:
            exec(self._code, self._names)  # noqa: S102 - the user's own cell
            return
        with capture_output():
            exec(self._code, self._names)  # noqa: S102


class _Line:
    """A line of output that says how far it is, and is empty before and after.

    What checks a stored notebook may see an output as it began; so it begins as it ends.
    """

    def __init__(self) -> None:
        self._shown = DisplayHandle()
        self._shown.display(Pretty(""))

    def tell(self, now: Progress) -> None:
        """Show where the run is, but for the traced steps: showing would be in their trace."""
        if now.phase != "traced" and (now.step is not None or now.message is not None):
            self._shown.update(Pretty(f"{stage(now)[0]} …"))

    def end(self, text: str) -> None:
        """Empty the line, and show what it came to."""
        self._shown.update(Pretty(""))
        display(Pretty(text))


def load(shell: Any) -> None:
    """Give a notebook the magics."""
    shell.register_magics(RecordMagics(shell))


def _explorer(run: Path) -> Explorer:
    """Show a run as one of its folder, so that the text of the output is the same every time."""
    made = Explorer(runs_dir=run.parent)
    if str(made.source) != str(run):
        made.open_path(str(run))
    return made


def _usable(make: Callable[[], _T]) -> _T:
    """Make something; what the user got wrong is one sentence, without a traceback."""
    try:
        return make()
    except WorkbenchError as error:
        raise Usage(str(error)) from None
