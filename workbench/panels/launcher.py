"""`Launcher`: choose a workload in a form, record it, watch it, cancel it.

The form is made from the workload's spec, the run is a child process, and everything a person sees
can be read and set from Python: `values`, `set()`, `plan()`, `record()`, `cancel()`, `state`.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import traitlets as t

from workbench import capture, units, workloads
from workbench.capture.overhead import overhead
from workbench.capture.remarks import recorded
from workbench.costs import machine
from workbench.errors import UsageError, WorkbenchError, unknown_name
from workbench.panels.form import LABEL, Form
from workbench.panels.inbox import Inbox
from workbench.panels.table import Style

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.capture import CapturePlan, Progress, Run
    from workbench.workloads import Value

PHASES = {
    "start": ("starting the process", 0.0, 0.1),
    "setup": ("building model and data", 0.1, 0.35),
    "warmup": ("warm-up", 0.35, 0.55),
    "untraced": ("timing without the profiler", 0.55, 0.65),
    "prepare": ("starting the profiler", 0.65, 0.75),
    "traced": ("recording", 0.75, 0.9),
    "export": ("writing the trace", 0.9, 1.0),
}
"""What each phase of a run is called, and from where to where the progress bar goes in it."""
ENDED = ("done", "failed", "cancelled")
LOG_LINES = 40
WITHOUT_KERNEL = "A form that records a run; run the notebook to use it."
_RUN_FIELDS = (
    "ranks", "steps", "warmup", "untraced", "shapes", "memory", "stacks", "memory_history",
    "execution_trace",
)  # fmt: skip
_HELP = {
    "ranks": "processes on this machine, one a GPU, or sharing the CPU",
    "steps": "traced steps",
    "warmup": "most warm-up steps; fewer once steps are even",
    "untraced": "steps timed without the profiler, to know what it costs",
    "shapes": "record the shapes of operators; FLOPs need them",
    "memory": "record allocations",
    "stacks": "record Python stacks; makes traces large",
    "memory_history": "keep the history of the GPU's allocator, in a file of its own",
    "execution_trace": "keep torch's execution trace, in a file of its own",
}


class Launcher(w.VBox):
    """A form that records a workload into `runs_dir`.

    `state` is idle, running, done, failed, cancelled or invalid; `last_run` is the path of the run
    that ended last. Both can be observed.
    """

    state = t.Unicode("idle")
    last_run = t.Unicode("")

    def __init__(
        self,
        runs_dir: str | Path = "runs",
        *,
        recorder: Callable[..., Run] = capture.record,
    ) -> None:
        self.runs_dir, self._recorder = Path(runs_dir), recorder
        self.run: Run | None = None
        self._follower: Callable[[Any], None] | None = None
        self.message = ""
        self._newest: Progress | None = None
        self._make_controls()
        super().__init__()
        self.add_class("wb-panel")
        self.children = self._layout()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Say what it is for where it is read without its widgets."""
        found = super()._repr_mimebundle_(**kwargs)
        data, meta = found if isinstance(found, tuple) else (found or {}, {})
        return data | {"text/plain": f"{self!r}\n{WITHOUT_KERNEL}"}, meta

    def __repr__(self) -> str:
        """Say what it is and nothing that changes between runs (notebook checks compare it)."""
        return "Launcher()"

    # ---- what to record -------------------------------------------------------------------

    @property
    def values(self) -> dict[str, Value]:
        """All that the form holds, by name; the fields of the spec are among them."""
        chosen = {"workload": self._workload.value, "preset": self._preset.value}
        chosen |= {"device": self._device.value}
        return chosen | {name: c.value for name, c in self._run.items()} | self._form.values

    def set(self, **values: Value) -> None:
        """Set fields by name, the workload and preset first; an unknown one raises UsageError."""
        for name in ("workload", "preset", "device"):
            if name in values:
                choose(getattr(self, f"_{name}"), name, values.pop(name))
        for name, value in values.items():
            if name in self._run:
                self._run[name].value = value
            else:
                self._form.set(name, value)

    def plan(self) -> CapturePlan:
        """Return the plan that the form describes; UsageError says what is wrong with it."""
        return capture.CapturePlan(
            workload=self._workload.value,
            preset=self._preset.value,
            overrides=self._form.overrides,
            device=self._device.value,
            runs_dir=self.runs_dir,
            **{name: c.value for name, c in self._run.items()},
        )

    def follow(self, recorded: Callable[[str], None]) -> None:
        """Call a function with the path of each run that ends, in place of one given before.

        A cell that is run again makes a new panel; the one that it replaces must not go on working.
        """
        if self._follower is not None:
            self.unobserve(self._follower, "last_run")
        self._follower = lambda change: recorded(change["new"])
        self.observe(self._follower, "last_run")

    # ---- recording ------------------------------------------------------------------------

    def record(self) -> Run | None:
        """Start a recording and return at once; None, with the reason shown, when it cannot."""
        if self.state == "running":
            return self.run
        self._newest = None
        inbox = Inbox(self._show_progress)

        def on_event(progress: Progress) -> None:
            self._newest = progress
            inbox.call()

        try:
            plan = self.plan()
            self.run = self._recorder(plan, on_event=on_event)
        except WorkbenchError as error:
            self._say("invalid", str(error))
            return None
        self._say("running", "starting")
        self._show_progress()  # events may have come before there was a run to ask
        return self.run

    def cancel(self) -> None:
        """Ask the run to end; a second time, end it by force."""
        if self.run is not None and self.state == "running":
            self.run.cancel()
            self._say("running", "cancelling; once more ends it by force")

    def _show_progress(self) -> None:
        """Show the newest event; runs on the kernel's loop."""
        now, run = self._newest, self.run
        if now is None or run is None:
            return
        self._log.value = f'<pre class="wb-log">{html.escape(run.log_tail(LOG_LINES))}</pre>'
        if now.phase in ENDED:
            self._end(run, now)
        else:
            name, share = stage(now)
            self._bar.value = max(self._bar.value, share)
            self._say("running", name)

    def _end(self, run: Run, now: Progress) -> None:
        self._bar.value = 1.0 if now.phase == "done" else self._bar.value
        said = told(run) if now.phase == "done" else now.message or now.phase
        self._say(now.phase, said)
        self.last_run = str(run.path)

    # ---- the panel ------------------------------------------------------------------------

    def _make_controls(self) -> None:
        names = list(workloads.names())
        self._workload = w.Dropdown(options=names, description="workload", style=LABEL)
        self._preset = w.Dropdown(description="preset", style=LABEL)
        self._device = w.Dropdown(options=devices(), description="device", style=LABEL)
        defaults = capture.CapturePlan(workload=names[0])
        self._run = {name: _run_control(name, getattr(defaults, name)) for name in _RUN_FIELDS}
        self._form = Form(self._check, front=("precision",))
        self._about = w.HTML()
        self._button = w.Button(description="Record", button_style="primary", icon="circle")
        self._stop = w.Button(description="Cancel", icon="stop", disabled=True)
        self._bar = w.FloatProgress(min=0, max=1, layout=w.Layout(width="260px"))
        self._status, self._log = w.HTML(), w.HTML()
        self._fill_presets()
        self._workload.observe(lambda _: self._fill_presets(), "value")
        self._preset.observe(lambda _: self._fill_preset(), "value")
        for c in (self._device, *self._run.values()):
            c.observe(lambda _: self._check(), "value")
        self._button.on_click(lambda _: self.record())
        self._stop.on_click(lambda _: self.cancel())

    def _layout(self) -> tuple[w.Widget, ...]:
        wrap = w.Layout(flex_flow="row wrap", align_items="center")
        more = [self._run[n] for n in _RUN_FIELDS if n not in ("ranks", "steps")]
        inside = w.VBox(
            [
                w.HTML("<b>Model, data and optimiser</b>"),
                self._form.box,
                w.HTML("<b>Recording</b>"),
                w.HBox(more, layout=wrap),
            ]
        )
        parameters = w.Accordion([inside], titles=("Parameters",), selected_index=None)
        log = w.Accordion([self._log], titles=("Log",), selected_index=None)
        first = [self._workload, self._preset, self._device]
        second = [self._run["ranks"], self._run["steps"], self._form.front]
        row = [self._button, self._stop, self._bar, self._status]
        return (
            Style(),
            w.HBox(first, layout=wrap),
            w.HBox(second, layout=wrap),
            self._about,
            parameters,
            w.HBox(row, layout=wrap),
            log,
        )

    def _fill_presets(self) -> None:
        presets = list(workloads.get(self._workload.value).presets)
        self._preset.options, self._preset.value = presets, presets[0]
        self._fill_preset()

    def _fill_preset(self) -> None:
        workload = workloads.get(self._workload.value)
        self._form.fill(workload.describe(self._preset.value))
        what = workload.preset_help.get(self._preset.value, "")
        text = f"{workload.summary}. Preset {self._preset.value}: {what}. {auto_device()}"
        self._about.value = f'<p class="wb-caption">{html.escape(text)}</p>'
        self._check()

    def _check(self) -> None:
        """Show at once what is wrong with the form; a run in progress is left alone."""
        if self.state == "running":
            return
        try:
            self.plan()
        except UsageError as error:
            self._say("invalid", str(error))
        else:
            if self.state in ("invalid", "idle"):
                self._say("idle", "ready")

    def _say(self, state: str, message: str) -> None:
        self.state, self.message = state, message
        is_bad = state in ("invalid", "failed")
        text = message if state in ("invalid", "idle") else f"{state}: {message}"
        self._status.value = (
            f'<span class="wb-state{" wb-bad" if is_bad else ""}">{html.escape(text)}</span>'
        )
        self._button.disabled = state in ("running", "invalid")
        self._stop.disabled = state != "running"
        if state == "running" and message == "starting":
            self._bar.value = 0.0
        self._bar.bar_style = {"done": "success", "failed": "danger"}.get(state, "")


def choose(control: Any, name: str, value: Value) -> None:
    """Set a dropdown; an unknown value raises with the nearest."""
    if value not in control.options:
        raise unknown_name(name, str(value), [str(o) for o in control.options])
    control.value = value


def stage(now: Progress) -> tuple[str, float]:
    """Return where a run is, in words and as a share of the whole."""
    name, begin, end = PHASES.get(now.phase, (now.phase, 0.0, 0.0))
    done = now.step / now.of if now.step is not None and now.of else 0.0
    if now.step is not None:
        name += f", step {now.step}" + (f" of {now.of}" if now.of else "")
    if now.seconds is not None:
        name += f", {units.duration(now.seconds * units.NS_PER_S)} a step"
    if now.loss is not None:
        name += f", loss {now.loss:.4g}"
    return name, begin + min(done, 1.0) * (end - begin)


def told(run: Run) -> str:
    """Say in one line what was recorded, on what, what the profiler cost, and what to look at."""
    facts = run.manifest
    cost = overhead(facts)
    text = f"{run.path.name} on {facts.get('device') or 'an unknown device'}"
    if facts.get("device_reason"):
        text += f" ({facts['device_reason']})"
    text += f"; {cost.traced} traced steps, median {units.duration(cost.traced_ns)}"
    if cost.ratio is not None:
        text += f", {100 * cost.ratio:+.0f} % against untraced steps"
    doubts = [remark.aspect for remark in recorded(run.path).rows]
    return f"{text}; see the tab Problems: {', '.join(doubts)}" if doubts else text


def devices() -> list[str]:
    """Return the devices to choose from on this machine."""
    has_gpu = machine.identity("auto").kind == "cuda"
    return ["auto", "cpu", "cuda"] if has_gpu else ["auto", "cpu"]


def auto_device() -> str:
    """Say what the device `auto` will be here, without importing torch."""
    found = machine.identity("auto")
    if found.kind != "cuda":
        return f"Device auto is the CPU here ({found.device}): there is no NVIDIA GPU to use."
    if found.torch and found.torch.endswith("+cpu"):
        return f"Device auto is the CPU here: this torch ({found.torch}) is built without CUDA."
    return f"Device auto is the GPU here ({found.device})."


def _run_control(name: str, value: Any) -> Any:
    common = {
        "value": value,
        "description": name,
        "tooltip": _HELP[name],
        "style": LABEL,
        "layout": w.Layout(width="300px"),
    }
    if isinstance(value, bool):
        return w.Checkbox(indent=True, **common)
    return w.IntText(continuous_update=False, **common)
