import gzip
import itertools

import pytest

from workbench.capture.child import recorder, tracing
from workbench.capture.child.clock import CudaClock, HostClock
from workbench.capture.child.recorder import Lengths, Recorder, spread


class FakeClock:
    """Each step takes the next of the given times, in ns."""

    def __init__(self, times, *, live=True):
        self.live = live
        self.marks = [0]
        for time in times:
            self.marks += [self.marks[-1] + time] * 2
        self.synchronised = 0

    def mark(self):
        return self.marks.pop(0)

    def dur_ns(self, start, end):
        return end - start

    def synchronise(self):
        self.synchronised += 1


class FakeTracer:
    def __init__(self, active):
        self.calls, self.active, self.number = [], active, 0
        self.running = False

    def start(self):
        self.running = True
        self.calls.append("start")

    def advance(self):
        self.number += 1
        self.calls.append("advance")
        return None if self.number > self.active else self.number


class FakeEvents(list):
    def send(self, phase, **values):
        self.append((phase, values))

    @property
    def steps(self):
        return [step for _, v in self for step in (v.get("facts") or {}).get("steps", ())]

    @property
    def warmup(self):
        return next(v["facts"]["warmup"] for _, v in self if "warmup" in (v.get("facts") or {}))


def run(lengths, times, *, live=True, losses=None, **options):
    events, tracer = FakeEvents(), FakeTracer(lengths.traced)
    machine = Recorder(
        lengths, clock=FakeClock(times, live=live), tracer=tracer, events=events, **options
    )
    machine.begin()
    while not machine.finished:
        machine.end_step(next(losses) if losses else None)
    return machine, events, tracer


@pytest.mark.parametrize("live", [True, False])
def test_every_step_is_stored_with_its_phase_and_time(live):
    # Warm-up: 50, 20, 20, 21 -> the last three lie within (21-20)/20 = 5 %, so it ends after 4.
    times = [50, 20, 20, 21, 10, 11, 99, 30, 31]
    machine, events, tracer = run(Lengths(10, 2, 2), times, live=live)
    phases = ["warmup"] * 4 + ["untraced"] * 2 + ["prepare"] + ["traced"] * 2
    assert [s["phase"] for s in events.steps] == phases
    assert [s["dur_ns"] for s in events.steps] == times
    assert [s["index"] for s in events.steps] == list(range(9))
    assert [s["profiler_step"] for s in events.steps] == [None] * 7 + [1, 2]
    assert tracer.calls == ["start", "advance", "advance", "advance"]
    assert machine.steps == 9
    assert events.warmup == {
        "limit": 10,
        "steps": 4,
        "detected": True,
        "stable": True,
        "spread": pytest.approx(0.05),
        "tolerance": 0.1,
    }


class Loss:
    """A tensor that counts how often it is read."""

    read = 0

    def __init__(self, value):
        self.value = value

    def __float__(self):
        Loss.read += 1
        return self.value


@pytest.mark.parametrize(
    ("live", "untraced"), [(True, [3.0, 4.0, 4.0]), (False, [None, None, 4.0])]
)
def test_the_loss_is_told_where_reading_it_stops_nothing(live, untraced):
    # Two steps of warm-up, two untraced and what ends them, then the profiler's own and two traced.
    Loss.read = 0
    losses = (Loss(float(k)) for k in range(1, 9))
    _, events, _ = run(Lengths(2, 2, 2), [9] * 7, live=live, losses=losses)
    told = {phase: [] for phase in ("warmup", "untraced", "traced")}
    for phase, values in events:
        if "loss" in values:
            told[phase].append(values["loss"])
    assert told == {"warmup": [1.0, 2.0], "untraced": untraced, "traced": [None] * 3}
    assert Loss.read == 2 + sum(value is not None for value in untraced)


def test_a_loss_that_is_no_number_is_left_out():
    _, events, _ = run(Lengths(1, 0, 1), [9] * 3, losses=itertools.repeat({"a": 1}))
    assert [v["loss"] for phase, v in events if "step" in v] == [None, None]


def test_warm_up_ends_at_its_limit_when_times_stay_apart():
    _, events, _ = run(Lengths(4, 0, 1), [10, 20, 10, 20, 7, 7])
    assert events.warmup["steps"] == 4
    assert not events.warmup["stable"]
    assert events.warmup["spread"] == pytest.approx(0.5)  # 20, 10, 20: (20 - 10) / 20


def test_warm_up_takes_its_limit_when_it_may_not_detect():
    _, events, _ = run(Lengths(5, 0, 1, detect=False), [10] * 7)
    assert (events.warmup["steps"], events.warmup["detected"]) == (5, False)


def test_no_rank_leaves_warm_up_before_the_others_agree():
    votes = iter([False, False, False, False, True])
    _, events, _ = run(Lengths(9, 0, 1), [10] * 12, agree=lambda ready: next(votes))
    assert events.warmup["steps"] == 5


def test_phases_of_no_length_are_left_out():
    machine, events, _ = run(Lengths(0, 0, 1), [5, 5])
    assert [s["phase"] for s in events.steps] == ["prepare", "traced"]
    assert machine.lengths.needed == 2


def test_progress_of_a_device_clock_does_not_ask_for_times_during_a_phase():
    _, events, _ = run(Lengths(1, 2, 2), [1] * 6, live=False)
    live = [v["seconds"] for phase, v in events if phase == "traced" and v.get("step")]
    assert live == [None, None]
    medians = [v["message"] for phase, v in events if phase == "traced" and v.get("message")]
    assert medians == ["median step 1e-06 ms"]


def test_spread_needs_three_steps():
    assert spread([1, 1]) is None
    assert spread([100, 10, 12, 11]) == pytest.approx(2 / 11)


def test_tolerance_is_the_documented_ten_per_cent():
    assert (recorder.TOLERANCE, recorder.WINDOW) == (0.1, 3)


def test_host_clock_counts_on():
    clock = HostClock()
    first, second = clock.mark(), clock.mark()
    assert clock.dur_ns(first, second) >= 0


def test_cuda_clock_waits_for_the_second_event_only_when_asked():
    log = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing
            self.name = len(log)

        def record(self):
            log.append("record")

        def synchronize(self):
            log.append("wait")

        def elapsed_time(self, end):
            return 1.2345675  # ms, so 1,234,567.5 ns, half to even 1,234,568

    class Cuda:
        pass

    Cuda.Event = Event
    Cuda.synchronize = staticmethod(lambda: log.append("all"))
    clock = CudaClock(Cuda)
    start, end = clock.mark(), clock.mark()
    assert log == ["record", "record"]
    assert clock.dur_ns(start, end) == 1_234_568
    clock.synchronise()
    assert log == ["record", "record", "wait", "all"]


def test_a_trace_is_packed_untouched_and_the_plain_one_removed(tmp_path):
    raw, target = tmp_path / ".t.json", tmp_path / "t.json.gz"
    content = b'{"traceEvents": [{"name": "ProfilerStep#1"}]}'
    raw.write_bytes(content)
    tracing.compress(raw, target)
    assert gzip.decompress(target.read_bytes()) == content
    assert [p.name for p in tmp_path.iterdir()] == ["t.json.gz"]


def test_a_step_across_a_chunk_boundary_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(tracing, "_CHUNK", 20)
    raw = tmp_path / ".t.json"
    raw.write_bytes(b"x" * 12 + b'"ProfilerStep#1"' + b"y" * 40)
    tracing.compress(raw, tmp_path / "t.json.gz")


def test_a_trace_without_a_step_fails_with_a_sentence_and_leaves_nothing(tmp_path):
    raw = tmp_path / ".t.json"
    raw.write_bytes(b'{"traceEvents": []}')
    with pytest.raises(tracing.RecordingError, match="without a training step"):
        tracing.compress(raw, tmp_path / "t.json.gz")
    assert list(tmp_path.iterdir()) == []
