"""What the timeline shows of situations in which other viewers hid, merged or moved events."""

import numpy as np
import pytest

import workbench as wb

pytestmark = pytest.mark.corpus


@pytest.fixture
def timeline(corpus):
    return lambda name: wb.Timeline(wb.open(next((corpus / "cases").glob(f"{name}_*.json"))))


def drawn(timeline):
    """(lane, row, name, start, duration) of each event, in ns since the first."""
    lanes = timeline.data
    events = [lanes.event(i) for i in range(len(lanes.start))]
    return [(e.lane.label, e.row, e.name, e.start_ns - lanes.origin_ns, e.dur_ns) for e in events]


def kernels(timeline):
    return [e for e in drawn(timeline) if e[0].startswith("GPU")]


def picked(timeline, row, t):
    """Click on a row at a time, as the front end says it."""
    message = {"type": "pick", "view": "v", "row": row, "t": str(t), "slack": "0"}
    timeline._on_message(None, message)
    return timeline.mark.get("text")


def test_overlapping_kernels_of_a_stream_are_both_drawn_and_both_clicked(timeline):
    # K14: 10-14.5 us and 12-15 us on one stream: 2 us apart, so on two rows
    shown = timeline("K14")
    (_, first, a, *at_a), (_, second, b, *at_b) = kernels(shown)
    assert (at_a, at_b) == ([at_b[0] - 2_000, 4_500], [at_a[0] + 2_000, 3_000])
    assert second == first + 1
    both = at_b[0] + 1_000  # both run here
    assert (picked(shown, first, both), picked(shown, second, both)) == (a, b)


def test_a_kernel_without_duration_is_drawn_and_clicked(timeline):
    # K15: k1 10-20 us, k0 at 15 us without duration, k2 20-25 us
    shown = timeline("K15")
    by_name = {name: (row, start, dur) for _, row, name, start, dur in kernels(shown)}
    assert {name: dur for name, (_, _, dur) in by_name.items()} == {
        "k1": 10_000,
        "k0": 0,
        "k2": 5_000,
    }
    row, start, _ = by_name["k0"]
    assert row != by_name["k1"][0]
    assert picked(shown, row, start) == "k0"


def test_a_stream_number_on_two_devices_is_two_lanes(timeline):
    # K16: stream 7 of device 0 runs 0-100 us, stream 7 of device 1 50-150 us
    table = timeline("K16").table()
    busy = dict(
        table.filter(table["lane"].str.contains("stream 7")).select("lane", "busy_ns").rows()
    )
    assert busy == {"GPU 0 · stream 7": 100_000, "GPU 1 · stream 7": 100_000}


def test_without_step_marks_every_event_is_drawn(timeline):
    # K33: kernels busy 50 of 70 us, no step
    shown = timeline("K33")
    assert [e for e in drawn(shown) if e[0].endswith("steps")] == []
    spans = [(start, start + dur) for *_, start, dur in kernels(shown)]
    assert max(end for _, end in spans) - min(start for start, _ in spans) == 70_000
    busy = dict(shown.table().select("lane", "busy_ns").rows())
    assert busy[kernels(shown)[0][0]] == 50_000


def test_mirrored_step_marks_are_drawn_once(timeline):
    # K34: steps 7 and 8 of 100 and 120 us, marked on the host and again on the device
    steps = [e for e in drawn(timeline("K34")) if e[0].endswith("steps")]
    assert [(name, dur) for _, _, name, _, dur in steps] == [
        ("step 7", 100_000),
        ("step 8", 120_000),
    ]


def test_times_stay_apart_in_single_precision(corpus):
    # K63: epoch microseconds with a fraction: what is drawn counts from the first event
    trace = wb.open(corpus / "cases" / "K07_epoch_us_fraction.json")
    starts = np.unique(wb.Timeline(trace).data.start)
    assert trace.meta.origin_ns > 2**53
    assert len(np.unique(starts.astype(np.float32))) == len(starts)
