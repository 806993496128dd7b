"""A recording's untraced steps take as long as those of a training that is not recorded at all.

    python benchmarks/untraced.py [--workload gpt] [--preset tiny] [--steps 20] [--device cpu]

Runs a workload three times plainly, in a process that never starts the profiler and that nothing
watches or samples, and records it three times, taking turns. Both do the same: warm up until steps
are steady, then time steps by the same clock. The claim: the median of all untraced steps of the
recordings lies no further from the mean of the three plain medians than the larger of 5 % and the
half width of their 95 % interval (Student's, two degrees of freedom).

Then a script is recorded whose steps take a fifth longer when the profiler runs: what is reported
must be 20 points within 5. Exit 1 when one of the two does not hold. On a busy machine neither has
to.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from workbench.capture import CapturePlan, record
from workbench.capture.overhead import overhead, step_times
from workbench.capture.remarks import recorded as remarks_of

TURNS = 3
ALLOWED = 0.05
STUDENT_975_2 = 4.302653
"""The t that a Student variable of two degrees of freedom exceeds with 2.5 %."""
PLANTED, WITHIN = 0.20, 0.05
_PLAIN = """
import json, sys
import torch
from workbench.capture.child.clock import CudaClock, HostClock
from workbench.capture.child.recorder import TOLERANCE, spread
from workbench.workloads import get
from workbench.workloads.training import Training

name, preset, device, limit, steps = sys.argv[1:]
where = torch.device(device)
workload = get(name)
training = Training(workload, workload.preset(preset), device=where)
clock = CudaClock(torch.cuda) if where.type == "cuda" else HostClock()

def timed():
    start = clock.mark()
    training.step()
    return start, clock.mark()

warm = []
while len(warm) < int(limit) and ((width := spread(warm)) is None or width > TOLERANCE):
    warm.append(clock.dur_ns(*timed()))
marks = [timed() for _ in range(int(steps))]
assert not torch.autograd._profiler_enabled()
print(json.dumps([clock.dur_ns(*pair) for pair in marks]))
"""
_SLOWER = """
import time, torch
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
while True:
    time.sleep(0.060 if torch.autograd._profiler_enabled() else 0.050)
    layer(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class Verdict(NamedTuple):
    """How far the untraced median is from plain runs, and how far it may be; both as shares."""

    away: float
    allowed: float
    holds: bool


def judged(plain_ns: list[float], untraced_ns: float) -> Verdict:
    """Hold a median against those of plain runs, three of them."""
    mean = statistics.fmean(plain_ns)
    half = STUDENT_975_2 * statistics.stdev(plain_ns) / math.sqrt(len(plain_ns))
    away, allowed = untraced_ns / mean - 1, max(ALLOWED, half / mean)
    return Verdict(away, allowed, abs(away) <= allowed)


def said(holds: bool) -> str:
    """Say whether a claim holds."""
    return "holds" if holds else "DOES NOT HOLD"


def main() -> None:
    """Run both; print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workload", default="gpt")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=20, help="steps that are timed in each run")
    parser.add_argument("--warmup", type=int, default=20, help="most steps of warm-up")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(not (_undisturbed(given, Path(folder)) & _planted(given, Path(folder))))


def _undisturbed(given: argparse.Namespace, folder: Path) -> bool:
    plain, untraced = [], []
    for turn in range(TURNS):
        times = _plainly(given)
        plain.append(statistics.median(times))
        run = _record(
            given, folder / f"run{turn}", workload=given.workload, preset=given.preset,
            device=given.device,
        )  # fmt: skip
        mine = step_times(run, "untraced").tolist()
        untraced += mine
        print(f"turn {turn + 1}: plain {plain[-1] / 1e6:.4g} ms a step, "
              f"untraced {statistics.median(mine) / 1e6:.4g} ms")  # fmt: skip
    found = judged(plain, statistics.median(untraced))
    print(f"untraced steps take {100 * found.away:+.2f} % against plain ones; allowed are "
          f"{100 * found.allowed:.2f} %: {said(found.holds)}")  # fmt: skip
    return found.holds


def _planted(given: argparse.Namespace, folder: Path) -> bool:
    script = folder / "slower.py"
    script.write_text(_SLOWER, encoding="utf-8")
    cost = overhead(_record(given, folder / "planted", script=script, device="cpu"))
    assert cost.ratio is not None
    holds = abs(cost.ratio - PLANTED) <= WITHIN
    print(f"a planted {100 * PLANTED:.0f} % is told as {100 * cost.ratio:+.1f} % (95 %: "
          f"{100 * cost.low:+.1f} to {100 * cost.high:+.1f}): {said(holds)}")  # fmt: skip
    return holds


def _plainly(given: argparse.Namespace) -> list[int]:
    words = [given.workload, given.preset, given.device, str(given.warmup), str(given.steps)]
    done = subprocess.run(
        [sys.executable, "-c", _PLAIN, *words], check=True, stdout=subprocess.PIPE, text=True
    )
    return list(json.loads(done.stdout.splitlines()[-1]))


def _record(given: argparse.Namespace, out: Path, **subject: object) -> dict[str, object]:
    lengths = {"warmup": given.warmup, "untraced": given.steps, "steps": given.steps}
    run = record(CapturePlan(**lengths, **subject, out=out))  # type: ignore[arg-type]
    if run.wait() != "done":
        sys.exit(f"{run.error}")
    for remark in remarks_of(run.path).rows:
        print(f"  {out.name}: {remark.aspect}: {remark.detail}")
    return run.manifest


if __name__ == "__main__":
    main()
