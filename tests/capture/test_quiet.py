"""A machine that was not quiet while steps were timed."""

import json

import pytest

from workbench.capture import remarks
from workbench.capture.quiet import unquiet

HEAD = "t_unix_ns,device,core_clock_mhz,uuid,throttle_reasons,other_pct"
STEPS = [
    {"phase": "warmup", "start_unix_ns": 0, "dur_ns": 100},
    {"phase": "untraced", "start_unix_ns": 100, "dur_ns": 50},
    {"phase": "prepare", "start_unix_ns": 150, "dur_ns": 50},
    {"phase": "traced", "start_unix_ns": 200, "dur_ns": 100},
]


@pytest.fixture
def told(tmp_path):
    """What is said of samples (time, device, clock, bits, load of others)."""

    def ask(*samples, device="cuda:0", steps=STEPS):
        lines = [f"{t},{d},{clock},,{bits},{load}" for t, d, clock, bits, load in samples]
        (tmp_path / "telemetry.csv").write_text("\n".join([HEAD, *lines]) + "\n")
        manifest = {"schema_version": 1, "device": device, "devices": [{"index": 0}]}
        manifest |= {"steps": steps}
        (tmp_path / "run.json").write_text(json.dumps(manifest))
        return {u.aspect: u.detail for u in unquiet(tmp_path, manifest)}

    return ask


def load(t, percent):
    return (t, "cpu", "", "", percent)


def gpu(t, clock, bits=0):
    return (t, "gpu0", clock, bits, "")


def test_load_of_others_while_steps_were_timed(told):
    # 20, 30 and 40 % within [100, 300]; what came before and behind does not count
    samples = [load(50, 99), load(100, 20), load(200, 30), load(300, 40), load(301, 99)]
    found = told(*samples, device="cpu")
    assert found == {
        "quiet machine": "other programs took 30 % of the run's cores while steps were timed"
    }
    assert told(*samples) == {}  # a GPU leaves half of the processor to others


def test_a_quiet_run_has_nothing_to_tell(told):
    quiet = [load(t, 2) for t in (100, 200, 300)] + [gpu(t, 1980, 1) for t in (100, 200, 300)]
    assert told(*quiet) == {}
    assert told(load(150, 90), load(160, 90), device="cpu") == {}  # too few


def test_clocks_that_fall(told):
    found = told(gpu(50, 100), gpu(100, 2000), gpu(200, 2000), gpu(250, 1500), gpu(300, 1500))
    detail = "device 0: the core clock fell from 2000 to 1500 MHz while steps were timed"
    assert found == {"steady clocks": detail}
    assert told(gpu(100, 2000), gpu(200, 1900), gpu(300, 1850)) == {}


def test_reasons_for_which_clocks_are_held_down(told):
    # power cap (4) in two of four, temperature (0x40) in one, idle (1) in all
    found = told(*[gpu(t, 1500, bits) for t, bits in ((100, 5), (150, 5), (200, 0x41), (250, 1))])
    assert found == {
        "throttling": "device 0: clocks were held down by power cap in 50 %, temperature "
        "(hardware) in 25 % of the samples"
    }


@pytest.mark.parametrize("steps", [None, 3, [], [3], [{"phase": "traced"}], STEPS[:1]])
def test_steps_without_times(told, steps):
    assert told(load(150, 90), load(160, 90), load(170, 90), device="cpu", steps=steps) == {}


def test_strange_values(told):
    assert told(gpu(100, "inf", "x"), gpu(200, "nan", -1), gpu(300, "", "1e300")) == {}


def test_it_is_among_the_remarks(told, tmp_path):
    told(*[load(t, 50) for t in (100, 200, 300)], device="cpu")
    (row,) = [r for r in remarks.recorded(tmp_path).rows if r.aspect == "quiet machine"]
    assert row.state == "partly"
