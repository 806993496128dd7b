"""Which counter tracks there are is known without reading the tables they are made of."""

from __future__ import annotations

import pytest
from tinytrace import call, kernel, write
from views import traces

from workbench.trace import cache, store
from workbench.trace.open import open_source
from workbench.views import counter_tracks, kept_lanes, origin, track_offers
from workbench.views.timeline import Timeline
from workbench.views.track_offers import Known, Offer


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALLEST", 0)
    for module in (kept_lanes, track_offers):
        monkeypatch.setattr(module, "SMALLEST", 1)
    calls = [call("cudaLaunchKernel", 10 * k, 2, k) for k in (1, 2)]
    return write(tmp_path, [*calls, kernel("gemm", 15, 9, 1), kernel("relu", 25, 9, 2)])


def test_a_cached_trace_is_shown_without_reading_a_table(path, monkeypatch):
    first = Timeline(open_source(path))
    read, real = [], store.read_table
    monkeypatch.setattr(store, "read_table", lambda f, n, m: read.append(n) or real(f, n, m))
    again = Timeline(open_source(path))
    assert read == [store.HOST_STEPS_TABLE]
    assert again.tracks == first.tracks == ("GPU 0 · queue depth",)
    assert again.origin == first.origin == origin.origin(open_source(path))
    # what is drawn is read then: calls at 10 and 20 µs run at 15 and 25, the first event's is 15
    t, depth = (getattr(again.all_tracks[0].curve, n).tolist() for n in ("t", "value"))
    assert list(zip(t, depth, strict=True))[:-1] == [(0, 0), (5_000, 1), (10_000, 0)]


def test_what_is_kept_and_damaged_is_found_anew(path, tmp_path):
    source = open_source(path)
    kept = track_offers.offered(source)
    assert kept == [Known([Offer("queue depth", "queue depth", "launches", 0)], [0])]
    (file,) = (tmp_path / "cache").rglob("tracks.*")
    file.write_bytes(file.read_bytes()[:-9])
    assert track_offers.offered(open_source(path)) == kept


def test_a_table_laid_over_others_is_counted_itself(path):
    source = open_source(path)
    assert (source.rows("activities"), source.rows("problems")) == (
        source.activities.height,
        source.problems.height,
    )


def test_curves_of_very_many_rows_wait_to_be_chosen(monkeypatch):
    source = traces.trace(
        activities=[traces.kernel(f"k{k}", 10 * k, 5, occupancy=0.5) for k in range(3)],
        memory=[{"t_ns": 5, "device": 0, "bytes": 1, "total_allocated": 7, "total_reserved": 9}],
    )
    monkeypatch.setattr(counter_tracks, "LARGE", 2)
    shown = Timeline(source)
    assert "GPU 0 · occupancy" in shown.hidden
    assert "GPU 0 · memory allocated" not in shown.hidden
