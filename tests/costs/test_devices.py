"""Devices as recordings describe them, against the parts of the table."""

import pytest

import workbench as wb
from workbench.costs import devices
from workbench.costs.devices import match
from workbench.trace.core import Device

GIB = 2**30


def kineto(name, sms, gib, major, minor=0, *, warp=32):
    given = {"numSms": sms, "totalGlobalMem": int(gib * GIB), "warpSize": warp}
    return Device(0, name, given | {"computeMajor": major, "computeMinor": minor})


def test_a_name_of_one_part_needs_no_properties():
    found = match(Device(0, "NVIDIA H100 PCIe"))
    assert (found.part.part, found.how) == ("H100-PCIe-80GB", "by its name")
    assert (found.compute_share, found.memory_share) == (1, 1)


def test_a_virtual_function_of_the_whole_part():
    found = match(kineto("AMD Instinct MI300X VF", 304, 191.5, 9, 4, warp=64))
    assert (found.part.part, found.compute_share) == ("MI300X", 1)
    # 38 of 304 units that see all of the memory can use all of its bandwidth; with 48 GiB, 2/8
    whole = match(kineto("AMD Instinct MI300X VF", 38, 192, 9, 4, warp=64))
    quarter = match(kineto("AMD Instinct MI300X", 38, 48, 9, 4, warp=64))
    assert (whole.compute_share, whole.memory_share) == (0.125, 1)
    assert (quarter.compute_share, quarter.memory_share) == (0.125, 0.25)
    assert quarter.hardware.memory_bytes_per_s == pytest.approx(5.3e12 / 4)


@pytest.mark.parametrize(
    ("name", "compute", "memory"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 1 / 7, 1 / 8),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 3 / 7, 4 / 8),
        ("NVIDIA A100-SXM4-40GB MIG 4g.20gb", 4 / 7, 4 / 8),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 1 / 7, 4 / 8),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", 1 / 7, 1 / 8),
        ("NVIDIA H200 MIG 1g.35gb", 1 / 7, 2 / 8),
        ("NVIDIA H100 80GB HBM3 MIG 7g.80gb", 1, 1),
    ],
)
def test_mig_profiles_are_sevenths_of_compute_and_eighths_of_memory(name, compute, memory):
    found = match(Device(0, name))
    assert (found.compute_share, found.memory_share) == pytest.approx((compute, memory))


def test_recorded_multiprocessors_beat_the_profile():
    # 42 of 108, where 3/7 of the name would be 46.3; 312 TFLOP/s x 42/108 = 121.3
    found = match(kineto("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 42, 19.6, 8))
    assert (found.compute_share, found.memory_share) == (42 / 108, 0.5)
    assert found.hardware.peak("bf16", "matrix") == pytest.approx(121.3e12, rel=1e-3)
    assert found.hardware.memory_bytes_per_s == pytest.approx(777.5e9)
    assert found.hardware.multiprocessors == 42
    assert found.part.multiprocessors == 108


def test_one_of_two_dies_is_half_a_part():
    found = match(Device(0, "AMD Instinct MI250X"))
    assert (found.compute_share, found.memory_share) == (0.5, 0.5)
    assert found.hardware.peak("bf16", "matrix") == 191.5e12
    # a driver that names both parts: 104 compute units are a die of MI250, 110 of MI250X
    both = "AMD Instinct MI250X / MI250"
    parts = [match(kineto(both, n, 64, 9, warp=64)).part.part for n in (104, 110)]
    assert parts == ["MI250", "MI250X"]


def test_a_bare_name_is_told_by_properties():
    # Of the H100 with 132 multiprocessors, 80, 94 and 96 GiB: 95.1 fits the last alone
    found = match(kineto("NVIDIA H100", 132, 95.1, 9))
    assert found.part.part == "H100-SXM-96GB-HBM2e-500W"
    assert found.how == "by its 132 multiprocessors and 95.1 GiB"
    assert match(kineto("NVIDIA H100", 114, 79.1, 9)).part.part == "H100-PCIe-80GB"
    assert devices.unknown(kineto("NVIDIA H100", 120, 79.1, 9)).endswith(
        "of which none has 120 multiprocessors and 79.1 GiB"
    )
    reason = devices.unknown(Device(0, "NVIDIA H100"))
    assert reason.startswith("no data sheet for 'NVIDIA H100'; closest: H100-SXM-80GB, H100-")
    assert reason.endswith(", and no recorded property tells which")
    reason = devices.unknown(Device(0, "AMD Instinct MI300X OAM"))
    assert reason.endswith("closest: MI300X, and no recorded property confirms it")


def test_a_form_in_the_name_leaves_the_other_forms_out():
    # an SXM and a PCIe card have the same 108 multiprocessors and 80 GiB, and other bandwidths
    assert match(kineto("A100 board", 108, 79.2, 8)) is None
    assert "and other roofs" in devices.unknown(kineto("A100 board", 108, 79.2, 8))
    assert match(kineto("A100-PCIE board", 108, 79.2, 8)).part.part == "A100-PCIe-80GB"


def test_parts_with_the_same_roofs_are_as_good_as_one():
    found = match(kineto("NVIDIA A100-PG509-200", 108, 39.4, 8))
    assert found.part.part == "A100-SXM-40GB"
    assert found.how.endswith("which A100-PCIe-40GB has with the same roofs")


def test_names_that_say_nothing_are_told_by_properties():
    radeon = match(kineto("AMD Radeon Graphics", 104, 64, 9, warp=64))
    assert (radeon.part.part, radeon.compute_share) == ("MI210", 1)
    assert radeon.how.endswith("which MI250 has with the same roofs")
    assert match(kineto("AMD Radeon Graphics", 110, 64, 9, warp=64)).part.part == "MI250X"
    assert match(kineto(None, 304, 192, 9, 4, warp=64)).part.part == "MI300X"
    assert match(kineto("", 304, 256, 9, 4, warp=64)).part.part == "MI325X"
    # H100 and H800 have these, and other fp64 peaks
    assert match(kineto(None, 132, 79.1, 9)) is None
    # 32 threads at once are no MI210; nor is what records another gfx number
    assert match(kineto("AMD Radeon Graphics", 104, 64, 9, warp=32)) is None
    assert match(kineto("AMD Radeon Graphics", 104, 64, 9, 4, warp=64)) is None


def test_unknown_devices_say_so():
    assert devices.unknown(Device(0, "ARTEMIS")) == "no data sheet for 'ARTEMIS'"
    assert devices.unknown(Device(0, None)) == "the recording does not name the device"
    assert devices.unknown(None) == "the recording does not name the device"
    laptop = kineto("NVIDIA GeForce RTX 4090 Laptop GPU", 76, 16, 8, 9)
    assert "closest: RTX-4090, of which none has 76" in devices.unknown(laptop)
    slice_of = devices.unknown(Device(0, "NVIDIA H100 MIG 1g.10gb"))
    assert slice_of.startswith("no data sheet for 'NVIDIA H100 MIG 1g.10gb'; closest: parts of ")


def test_properties_of_any_kind_do_no_harm():
    odd = {"numSms": True, "totalGlobalMem": "16 GB", "warpSize": 10**400, "computeMajor": None}
    assert match(Device(0, "NVIDIA H100", odd)) is None
    assert match(Device(0, "NVIDIA H200", odd)).compute_share == 1
    assert match(Device(0, "NVIDIA H200", {"numSms": 10**300})).compute_share == 1


def test_multiprocessors_as_recorded_else_of_the_part():
    assert devices.multiprocessors(Device(0, "Odd", {"smCount": 7})) == 7
    assert devices.multiprocessors(Device(0, "AMD Instinct MI250X")) == 110
    assert devices.multiprocessors(Device(0, "Odd")) is None


NAMED = {
    "hta/critical_path_alexnet_a100.json.gz": "A100-SXM-40GB",
    "hta/trace_diff_test_v100_rank1_of_2.json.gz": "V100-SXM2-16GB",
    "hta/df_index_resolver_v100_rank1_of_2.json.gz": "V100-SXM2-32GB",
    "hta/amd_mi250_minitoy_train_rocm6.2.json.gz": "MI210",
    "hta/mtia_inference_rank0.json.gz": None,
    "kineto/h100_cuda_sync_after_fix.json.gz": "H100-SXM-96GB-HBM2e-500W",
    "kineto/resnet50_v100_num_workers_0_2021.json.gz": "V100-DGXS-32GB",
    "nsys/cloverleaf_a100_schema3.13.sqlite": "A100-SXM-80GB",
    "nsys/fuser_h200_schema3.16.sqlite": "H200-SXM-141GB",
    "nsys/odd_no_kernels_rtx5060ti_schema3.17.2.sqlite": "RTX-5060-Ti-16GB",
    "param/linear_rtx2080ti_kineto.json.gz": "RTX-2080-Ti",
    "tracelens/b300_microbench_moe_01_many_experts_few_tokens.json.gz": "B300-SXM-270GB",
    "tracelens/mi210_gpu_only.json.gz": "MI210",
    "tracelens/mi300_bert_small_inference.json.gz": "MI300X",
    "tracelens/mi300_jax_conv_minimal.xplane.pb": "MI300X",
    "tracelens/mi300_vllm_piecewise_graph_capture.json.gz": "MI300X",
    "tracelens/rocprofv3_mi350x_results.json.gz": "MI350X",
}


@pytest.mark.corpus
@pytest.mark.parametrize(("file", "part"), NAMED.items())
def test_devices_of_the_corpus(corpus, file, part):
    first = wb.open(corpus / "traces" / file, cache=False).ranks[0].meta.devices[0]
    found = match(first)
    assert (found.part.part if found else None) == part


@pytest.mark.parametrize("profile", ["0g.5gb", "9g.5gb", "8c.3g.20gb"])
def test_a_slice_that_no_part_has_is_of_none(profile):
    assert devices.match(Device(0, f"NVIDIA A100-SXM4-40GB MIG {profile}")) is None
