"""Which roofs hold for a device of a recording, and what they say of themselves."""

from pathlib import Path

import pytest

from workbench.costs import hardware
from workbench.costs.roofs import choose
from workbench.trace.core import Device, TraceMeta


def meta_of(*devices):
    return TraceMeta(Path("x.json"), "pytorch-profiler", "0", 0, devices=devices)


def test_a_whole_part_is_named_and_no_more():
    roofs = choose(meta_of(Device(0, "NVIDIA H200")), 0, None, None)
    assert roofs.source == "data sheet: H200-SXM-141GB"


def test_a_share_of_a_part_says_so_and_has_lower_roofs():
    # 3/7 of 312 TFLOP/s and 4/8 of 1555 GB/s
    roofs = choose(meta_of(Device(0, "NVIDIA A100-SXM4-40GB MIG 3g.20gb")), 0, None, None)
    assert roofs.peak("bf16", "matrix") == pytest.approx(312e12 * 3 / 7)
    assert roofs.memory.bytes_per_s == 777.5e9
    assert roofs.source == (
        "data sheet: A100-SXM-40GB by its name with its MIG profile, "
        "0.429 of its peaks, 0.5 of memory"
    )


def test_a_part_found_by_its_properties_says_by_which():
    properties = {"numSms": 304, "totalGlobalMem": 192 * 2**30, "warpSize": 64}
    roofs = choose(meta_of(Device(0, "", properties)), 0, None, None)
    assert roofs.source == "data sheet: MI300X by its 304 multiprocessors and 192.0 GiB"


def test_the_part_that_a_caller_names_stands_for_the_recorded_one():
    roofs = choose(meta_of(Device(0, "NVIDIA H200")), 0, None, hardware.given("T4"))
    assert roofs.source == "data sheet: T4"


def test_without_a_part_there_is_a_reason():
    assert choose(meta_of(Device(0, "ARTEMIS")), 0, None, None) == "no data sheet for 'ARTEMIS'"
    assert choose(meta_of(), 3, None, None) == "the recording does not name the device"
    assert choose(meta_of(), None, None, None).startswith("no data sheet for processors")


def test_a_device_that_is_one_die_of_the_part_a_caller_names_has_its_half():
    # 383 TFLOP/s and 3,277 GB/s of both dies of an MI250X
    for device in (Device(0, "AMD Instinct MI250X", {"numSms": 110}), Device(0, None)):
        roofs = choose(meta_of(device), 0, None, hardware.given("MI250X"))
        assert roofs.peak("bf16", "matrix") == 191.5e12
        assert roofs.memory.bytes_per_s == 1638.5e9
        assert roofs.source == "data sheet: MI250X, 0.5 of its peaks, 0.5 of memory"


def test_a_slice_of_the_part_a_caller_names_stays_a_slice():
    slice_of = Device(0, "NVIDIA A100-SXM4-40GB MIG 3g.20gb")
    roofs = choose(meta_of(slice_of), 0, None, hardware.given("A100-SXM-40GB"))
    assert roofs.peak("bf16", "matrix") == pytest.approx(312e12 * 3 / 7)
    roofs = choose(meta_of(slice_of), 0, None, hardware.given("T4"))
    assert roofs.peak("fp16", "matrix") == 65e12
