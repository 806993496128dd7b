"""How candidates are timed, on clocks that stand still unless the work moves them."""

import pytest

from workbench.costs.timing import Bench, Candidate, EventTimer, race, samples


class FakeCuda:
    """Device time moves by 2 ms a call, whatever the host does in between."""

    def __init__(self):
        self.now_ms = 0.0
        self.synchronized = 0

    def work(self):
        self.now_ms += 2.0

    def Event(self, *, enable_timing):
        assert enable_timing
        cuda = self

        class Event:
            def record(self):
                self.at_ms = cuda.now_ms

            def synchronize(self):
                cuda.synchronized += 1

            def elapsed_time(self, end):
                return end.at_ms - self.at_ms

        return Event()


def test_event_timing_in_seconds_waits_for_the_end():
    cuda = FakeCuda()
    assert EventTimer(cuda)(cuda.work, 5) == pytest.approx(0.010)
    assert cuda.synchronized == 1


def test_samples_batch_short_work_and_end_with_the_visit():
    calls = []

    def timer_of(seconds):
        def timer(work, times):
            calls.append(times)
            return seconds * times

        return timer

    # 0.1 ms a call: batches of 20 make 2 ms, of which 5 are the first to pass 9 ms
    assert samples(timer_of(1e-4), None, 2e-3, visit_s=9e-3) == pytest.approx([1e-4] * 5)
    assert calls == [1, 1] + [20] * 5
    calls.clear()
    assert len(samples(timer_of(1.0), None, 2e-3)) == 1
    assert calls == [1] * 3
    calls.clear()
    assert len(samples(timer_of(1.0), None, 2e-3, call_s=1e-3)) == 1
    assert calls == [2]  # nothing to find out: one sample of two calls


class Track:
    """A clock that the work itself moves; the n-th call of `stalls` seconds takes that long."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def __call__(self):
        return self.now

    def timer(self, work, times):
        spent = sum(work() for _ in range(times))
        self.now += spent
        return spent

    def candidate(self, name, amount, *seconds, group="g"):
        turns = iter(seconds)
        last = [None]

        def build():
            self.log.append(name)
            last[0] = next(turns, last[0])
            if last[0] is None:
                raise RuntimeError("not implemented for 'Half'")
            took = last[0]
            return lambda: took

        return Candidate(group, name, amount, build)

    def bench(self, **more):
        return Bench(None, "cpu", self.timer, **more)


def test_the_best_rate_of_each_group_wins():
    # 10 in 20 ms are 500 a second, 30 in 40 ms are 750; and b alone in its group
    t = Track()
    found = race(
        t.bench(),
        [
            t.candidate("a", 10, 0.02),
            t.candidate("c", 30, 0.04),
            t.candidate("b", 1, 0.02, group="h"),
        ],
        1.0,
        clock=t,
    )
    assert [(c.what, round(c.rate)) for c in found] == [("c", 750), ("b", 50)]
    assert t.log[:6] == ["a", "c", "b"] * 2


def test_a_disturbed_visit_costs_no_candidate_its_chance():
    # disturbed three times of 50 ms, then 1 ms where the other takes 2 ms
    t = Track()
    pair = [t.candidate("hurt", 1, 0.05, 0.05, 0.05, 0.001), t.candidate("calm", 1, 0.002)]
    (best,) = race(t.bench(), pair, 2.0, clock=t)
    assert best.what == "hurt"
    assert best.spread == 0.0  # median and best are 1 ms: only three samples were disturbed
    # after four laps the slower one sits out every other lap, and only those
    laps = "".join(name[0] for name in t.log)
    assert laps.startswith("hchchchc" + "hhc" * 3)


def test_work_that_takes_too_long_ends_a_group_and_no_other():
    # the second takes 60 ms, over the 50 of the short sweep and under the 500 of the full one
    def run(**more):
        t = Track()
        row = [t.candidate("s", 1, 0.01), t.candidate("m", 8, 0.06), t.candidate("l", 64, 0.3)]
        race(t.bench(**more), [*row, t.candidate("x", 64, 0.01, group="h")], 3.0, clock=t)
        return set(t.log)

    assert run() == {"s", "m", "x"}
    assert run(is_full=True) == {"s", "m", "l", "x"}


def test_what_a_device_cannot_do_is_left_out():
    t = Track()
    found = race(t.bench(), [t.candidate("no", 1), t.candidate("yes", 1, 0.01)], 0.2, clock=t)
    assert [c.what for c in found] == ["yes"]
    assert t.log.count("no") == 1
    assert race(t.bench(), [t.candidate("no", 1)], 0.2, clock=t) == []


def test_without_time_only_every_one_is_visited():
    t = Track()
    two = [t.candidate("a", 1, 0.01), t.candidate("b", 2, 0.01)]
    assert race(t.bench(), two, 0.0, clock=t) == []
    assert [c.what for c in race(t.bench(), two, 0.0, every=True, clock=t)] == ["b"]
    assert t.log == ["a", "b"]
