"""From the schedule of all ranks to their answers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from workbench.trace.synthetic import sweep
from workbench.trace.synthetic.answers import (
    ActivityAnswer,
    Answers,
    CollectiveAnswer,
    DelayAnswer,
    OperatorAnswer,
    RankAnswer,
    StepAnswer,
    WindowAnswer,
)
from workbench.trace.synthetic.recorder import LAUNCH_CALLS
from workbench.trace.synthetic.writer import EPOCH_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.trace.synthetic.program import Program
    from workbench.trace.synthetic.recorder import Activity, HostEvent
    from workbench.trace.synthetic.sweep import Span

COMPLETE_SHARE = 0.99
NAMES = {"allreduce": "all_reduce", "_allgather_base": "all_gather"}
BYTES_PER_ELEMENT = 2


def answers(programs: Sequence[Program]) -> Answers:
    """Return the answers of every rank."""
    arrivals: dict[int, int] = {}
    for program in programs:
        for activity in _collectives(program):
            seq = activity.args["Seq"]
            arrivals[seq] = max(arrivals.get(seq, activity.start), activity.start)
    faults = Counter(programs[0].spec.faults)
    return Answers(tuple(_rank(program, arrivals) for program in programs), dict(faults))


def _rank(program: Program, arrivals: dict[int, int]) -> RankAnswer:
    recorder = program.recorder
    activities = recorder.activities
    steps = _steps(program)
    host = {number: thread.segments for number, thread in recorder.threads.items()}
    waits = recorder.waits if program.spec.sync_events else []
    causes = sweep.IdleCauses(activities, host, waits)
    windows = {
        name: _window(name, window, program, steps, causes)
        for name, window in _windows(activities, steps).items()
    }
    streams = sorted({a.stream for a in activities})
    depth = {str(s): sweep.deepest(a for a in activities if a.stream == s) for s in streams}
    return RankAnswer(
        rank=program.rank,
        device=program.rank,
        windows=windows,
        steps=tuple(steps),
        collectives=tuple(_collective(a, arrivals) for a in _collectives(program)),
        delays=tuple(_delay(a, steps) for a in activities if a.name.startswith("planted_")),
        queue_depth=depth | {"device": sweep.deepest(activities)},
        planted=dict(recorder.planted),
    )


def _steps(program: Program) -> list[StepAnswer]:
    """Cut the device's time where the first activity of each host step starts."""
    recorder = program.recorder
    rows: list[tuple[HostEvent, int, bool]] = []
    known = {a.correlation for a in recorder.activities}
    for host in program.steps:
        span = [(host.start, host.end)]
        mine = [a for a in recorder.activities if a.call and sweep.inside(a.call.start, span)]
        calls = [
            c.correlation in known
            for c in recorder.calls
            if c.name in LAUNCH_CALLS and not c.lost and sweep.inside(c.start, span)
        ]
        if mine:
            complete = sum(calls) >= COMPLETE_SHARE * len(calls)
            rows.append((host, min(a.start for a in mine), complete))
    last = program.steps[-1]
    ends = [start for _, start, _ in rows[1:]]
    ends.append(
        max(a.end for a in recorder.activities if a.call and last.start <= a.call.start < last.end)
    )
    return [
        StepAnswer(
            step=int(host.name.removeprefix("ProfilerStep#")),
            host_start_ns=EPOCH_NS + host.start,
            host_dur_ns=host.end - host.start,
            start_ns=EPOCH_NS + start,
            dur_ns=end - start,
            complete=complete,
            tail=host is last,
        )
        for (host, start, complete), end in zip(rows, ends, strict=True)
    ]


def _windows(activities: Sequence[Activity], steps: Sequence[StepAnswer]) -> dict[str, list[Span]]:
    """Return the windows as spans on the schedule's clock."""
    whole = [s for s in steps if s.complete]
    return {
        "steps": [(s.start_ns - EPOCH_NS, s.start_ns - EPOCH_NS + s.dur_ns) for s in whole],
        "host": [
            (s.host_start_ns - EPOCH_NS, s.host_start_ns - EPOCH_NS + s.host_dur_ns) for s in whole
        ],
        "all": [(min(a.start for a in activities), max(a.end for a in activities))],
    }


def _window(
    name: str,
    window: Sequence[Span],
    program: Program,
    steps: Sequence[StepAnswer],
    causes: sweep.IdleCauses,
) -> WindowAnswer:
    activities = program.recorder.activities
    whole = _windows(activities, steps)["host"]
    host = [
        e
        for e in program.recorder.host
        if e.category == "cpu_op" and (name == "all" or sweep.inside(e.start, whole))
    ]
    lengths = sweep.totals(activities, window)
    kinds = Counter(a.kind for a in activities if sweep.inside(a.start, window))

    def total(*classes: str) -> int:
        return sum(lengths[c] for c in classes)

    return WindowAnswer(
        window_ns=sum(lengths.values()),
        busy_ns=total("C", "N", "M", "CM", "CN", "MN", "CMN"),
        compute_ns=total("C", "CM", "CN", "CMN"),
        communication_ns=total("N", "CN", "MN", "CMN"),
        overlap_ns=total("CN", "CMN"),
        exposed_communication_ns=total("N", "MN"),
        copy_ns=total("M", "CM", "MN", "CMN"),
        exposed_copy_ns=total("M"),
        idle_ns=total(""),
        kernels=kinds["kernel"] + kinds["collective"],
        collectives=kinds["collective"],
        copies=kinds["copy"] + kinds["set"],
        steps=len(steps) if name == "all" else len(whole),
        idle=causes.by_cause(window),
        operators=_operators(host, activities),
        activities=_activities(activities, window),
    )


def _operators(
    host: Sequence[HostEvent], activities: Sequence[Activity]
) -> dict[str, OperatorAnswer]:
    """Return the operators by name; an activity is in its launching operator and those around."""
    own: dict[int, list[Span]] = {}
    within: dict[int, list[Span]] = {}
    for activity in activities:
        op = activity.call.op if activity.call else None
        if op is not None:
            own.setdefault(id(op), []).append((activity.start, activity.end))
        while op is not None:
            within.setdefault(id(op), []).append((activity.start, activity.end))
            op = op.parent
    names: dict[str, list[HostEvent]] = {}
    for event in host:
        names.setdefault(event.name, []).append(event)
    return {
        name: OperatorAnswer(
            count=len(events),
            self_ns=sum(e.end - e.start - sweep.covered(e.inside) for e in events),
            self_device_ns=sum(sweep.covered(own.get(id(e), [])) for e in events),
            total_device_ns=sum(sweep.covered(within.get(id(e), [])) for e in events),
        )
        for name, events in names.items()
    }


def _activities(
    activities: Sequence[Activity], window: Sequence[Span]
) -> dict[str, ActivityAnswer]:
    """Return count and time of the activities by name."""
    count: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for activity in activities:
        count[activity.name] += sweep.inside(activity.start, window)
        pieces = sweep.clipped((activity.start, activity.end), window)
        total[activity.name] += sum(end - begin for begin, end in pieces)
    return {n: ActivityAnswer(count[n], total[n]) for n in count if count[n] or total[n]}


def _collectives(program: Program) -> list[Activity]:
    return [a for a in program.recorder.activities if a.kind == "collective"]


def _collective(activity: Activity, arrivals: dict[int, int]) -> CollectiveAnswer:
    """Return size and speed as nccl-tests counts them: the larger side, and its bus factor."""
    args = activity.args
    name, ranks = NAMES[args["Collective name"]], args["Group size"]
    size = max(args["In msg nelems"], args["Out msg nelems"]) * BYTES_PER_ELEMENT
    duration = activity.end - activity.start
    factor = (2 if name == "all_reduce" else 1) * (ranks - 1) / ranks
    arrival = arrivals[args["Seq"]]
    return CollectiveAnswer(
        name=name,
        seq=args["Seq"],
        bytes=size,
        start_ns=EPOCH_NS + activity.start,
        dur_ns=duration,
        algorithm_gb_per_s=size / duration,
        bus_gb_per_s=size / duration * factor,
        wait_ns=arrival - activity.start,
        transfer_ns=activity.end - arrival,
    )


def _delay(activity: Activity, steps: Sequence[StepAnswer]) -> DelayAnswer:
    """Return call, queue and execution time of one kernel."""
    call = activity.call
    inverted = call is not None and activity.start < call.start
    return DelayAnswer(
        kernel=activity.name,
        step=None if call is None else _step_of(EPOCH_NS + call.start, steps),
        start_ns=EPOCH_NS + activity.start,
        call_ns=None if call is None else call.end - call.start,
        queue_ns=None if call is None or inverted else max(0, activity.start - call.end),
        execution_ns=activity.end - activity.start,
    )


def _step_of(time: int, steps: Sequence[StepAnswer]) -> int | None:
    """Return the step whose host range holds a time."""
    return next(
        (s.step for s in steps if s.host_start_ns <= time < s.host_start_ns + s.host_dur_ns), None
    )
