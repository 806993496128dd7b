import json

import pytest

from workbench.costs import hardware
from workbench.costs.roofs import from_hardware
from workbench.errors import InputError


def test_forms_of_one_generation_are_told_apart():
    # dense bf16 of the data sheets, TFLOP/s: SXM 989.4, PCIe 756, NVL 835.5
    names = ["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL"]
    peaks = [hardware.lookup(n).peak("bf16", "matrix") for n in names]
    assert peaks == [989.4e12, 756e12, 835.5e12]
    assert [hardware.lookup(n).form for n in names] == ["SXM5", "PCIe", "NVL"]


def test_case_and_spaces_do_not_matter_and_nothing_else_is_forgiven():
    assert hardware.lookup(" nvidia  h200 ").part == "H200-SXM-141GB"
    assert hardware.lookup("NVIDIA H100") is None
    assert hardware.lookup("H100") is None
    assert hardware.lookup(None) is None


def test_an_unknown_name_is_unknown_with_the_closest():
    reason = hardware.unknown("NVIDIA H100 80GB HBM2")
    assert reason.startswith("no data sheet for 'NVIDIA H100 80GB HBM2'; closest: NVIDIA H100 80GB")
    assert hardware.unknown("zzzz") == "no data sheet for 'zzzz'"
    assert hardware.unknown(None) == "the recording does not name the device"


def test_a_precision_without_its_own_units():
    h100, v100 = (hardware.lookup(n) for n in ("NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB"))
    assert h100.peak("fp32", "matrix") == 67e12  # no fp32 tensor cores: the ordinary units
    assert h100.peak("tf32", "matrix") == 494.7e12
    assert h100.peak("bf16", "vector") == 67e12
    assert v100.peak("bf16", "matrix") is None
    assert v100.peak("fp64", "matrix") == 7.8e12
    assert h100.peak("int8", "matrix") is None


def test_utilisation_of_k48():
    # 9600 tokens/s of 0.05 TFLOP: 480 TFLOP/s of 989.4 = 48.5 %
    peak = hardware.lookup("NVIDIA H100 80GB HBM3").peak("bf16", "matrix")
    assert round(100 * 9600 * 0.05e12 / peak, 1) == 48.5


@pytest.mark.corpus
def test_peaks_of_k48(corpus):
    table = json.loads((corpus / "cases" / "K48_peaks.json").read_bytes())
    for precision in ("bf16", "tf32"):
        for name, tflops in table[precision].items():
            peak = hardware.lookup(name).peak(precision, "matrix")
            assert peak == pytest.approx(tflops * 1e12, rel=0.01), name


def test_every_row_has_a_source_and_says_whether_it_was_verified():
    names = [n for part in hardware.table() for n in part.device_names]
    assert len(names) == len({n.casefold() for n in names}) >= 20
    for part in hardware.table():
        assert part.source, part.part
        assert part.verified, part.part
        assert part.memory_bytes_per_s > 1e11


def test_roofs_of_a_data_sheet_have_main_memory_alone():
    roofs = from_hardware(hardware.lookup("NVIDIA H200"))
    assert roofs.source == "data sheet: H200-SXM-141GB"
    assert roofs.level(1).bytes_per_s == roofs.memory.bytes_per_s == 4.8e12


def test_a_broken_table_says_so(tmp_path):
    broken = tmp_path / "hardware.csv"
    broken.write_text("part,device_names\nX,Y\n")
    with pytest.raises(InputError, match=r"hardware\.csv cannot be used"):
        hardware.table(broken)
