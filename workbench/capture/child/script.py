"""Record the user's own script, unchanged.

A step ends at a mark of the script's (`workbench.capture`), or at each `step` of a `torch.profiler`
that it runs itself, else when its optimiser's `step` returns.
"""

from __future__ import annotations

import importlib.util
import inspect
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import marked
from .job import make_clock, make_recorder, trace_path
from .own_profiler import OwnProfiler, flag
from .stepping import Leaving, StepWatch
from .tracing import RecordingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .events import Events


def run_script(job: dict[str, Any], *, torch: Any, device: Any, events: Events) -> None:
    """Run the script as `__main__`, or one of its functions, until the trace is written."""
    recorder = make_recorder(job, torch=torch, device=device, events=events)
    leaving = Leaving(events)
    watch = StepWatch(recorder, leaving, is_elsewhere=flag(Path(job["folder"])).exists)
    own = OwnProfiler(
        watch,
        clock=make_clock(torch, device),
        events=events,
        leaving=leaving,
        target=trace_path(job),
    )
    watch.install(torch.optim.Optimizer)
    if job["profiler"] is None:
        own.install(torch.profiler.profile)
    marked.listen(imported=watch.expect_marks, ended=watch.marked)
    events.send("setup", message="running the script")
    try:
        _run(job, watch)
    except BaseException as error:
        if not leaving.left and not (isinstance(error, SystemExit) and error.code in (None, 0)):
            raise
        if not isinstance(error, SystemExit):
            traceback.print_exc()  # it came after the trace was written, which is whole
    if leaving.left:
        return
    if own.claimed:
        own.finish()
    else:
        raise RecordingError(_too_short(watch))


def _run(job: dict[str, Any], watch: StepWatch) -> None:
    script = Path(job["script"])
    sys.argv = [str(script), *job["arguments"]]
    sys.path.insert(0, job["path"] or str(script.resolve().parent))
    if job["function"] is not None:
        _repeat(_function(script, job["function"]))
    runpy.run_path(str(script), run_name="__main__")
    if watch.seen == 0 and not watch.is_off and marked.functions:
        _repeat(_only_function(script))


def _repeat(function: Callable[[], Any]) -> None:
    """Call a function until the recording ends the script; a generator is run through."""
    if inspect.isgeneratorfunction(function):
        for _ in function():
            pass
        return
    while True:
        function()


def _function(script: Path, name: str) -> Callable[..., Any]:
    """Import a script, without running what it does as `__main__`, and return its function."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    if spec is None or spec.loader is None:
        raise RecordingError(f"{script} cannot be imported; name a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        named = vars(module).items()
        own = [n for n, v in named if inspect.isfunction(v) and v.__module__ == module.__name__]
        raise RecordingError(f"{script} has no function {name}; it has {', '.join(own) or 'none'}.")
    return marked.functions.get(name) or marked.workload(found)


def _only_function(script: Path) -> Callable[..., Any]:
    if len(marked.functions) > 1:
        raise RecordingError(
            f"{script} marks several functions as workloads ({', '.join(marked.functions)}); "
            "choose one with --function NAME."
        )
    return next(iter(marked.functions.values()))


def _too_short(watch: StepWatch) -> str:
    if watch.seen == 0 and watch.has_marks:
        return (
            "The script imports the marks of workbench.capture and sets none; call step() at the "
            "end of each training step, or mark a function with @workload."
        )
    if watch.seen == 0:
        return (
            "The script ended without a training step: it called no optimiser's step(), no step() "
            "of a torch.profiler, and no workbench.capture.step(); call that at the end of each "
            "step."
        )
    return (
        f"The script ended after {watch.seen} {watch.what}, and this recording needs up to "
        f"{watch.recorder.lengths.needed + 1}; train longer, or lower --warmup, --untraced or "
        "--steps."
    )
