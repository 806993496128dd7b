"""Everything that was sampled beside a run."""

from __future__ import annotations

from workbench.capture.samples import sampled

HEAD = "t_unix_ns,device,utilisation_pct,power_w,uuid"


def folder(tmp_path, *lines, devices='[{"index": 3, "uuid": "b"}]', head=HEAD):
    (tmp_path / "telemetry.csv").write_text("\n".join([head, *lines]) + "\n")
    (tmp_path / "run.json").write_text(f'{{"schema_version": 1, "devices": {devices}}}')
    return tmp_path


def test_gpus_of_the_run_and_the_host(tmp_path):
    run = folder(
        tmp_path, "1,cpu,50,,", "1,gpu0,10,300,GPU-a", "1,gpu1,20,400,GPU-b", "2,gpu1,,inf,"
    )
    assert sampled(run).rows() == [
        (1, None, "utilisation", 50.0, "%"),
        (1, 3, "power", 400.0, "W"),
        (1, 3, "utilisation", 20.0, "%"),
    ]


def test_without_a_file_or_with_a_strange_one_there_are_none(tmp_path):
    assert sampled(tmp_path).is_empty()
    assert sampled(folder(tmp_path, "1,2", head="a,b")).is_empty()
    (tmp_path / "telemetry.csv").write_bytes(b"\x00\xff\x00")
    assert sampled(tmp_path).is_empty()
    assert sampled(folder(tmp_path, "x,gpu0,1,1,", devices="7")).is_empty()
