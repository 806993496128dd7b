import json

import pytest

from workbench.costs import hardware, sheets
from workbench.costs.roofs import from_hardware
from workbench.errors import InputError, UsageError


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


def test_what_the_table_holds_besides_peaks():
    h100, mi300x = hardware.given("H100-SXM-80GB"), hardware.given("MI300X")
    # sold as 80 GB, of which a device reports 79.1 GiB; 50 MiB of L2; 450 GB/s to 7 others
    assert (h100.memory_bytes, h100.cache_bytes) == (80 * 2**30, 50 * 2**20)
    assert (h100.link_bytes_per_s, h100.link_domain, h100.tdp_w) == (450e9, 8, 700)
    assert (h100.achieved_flops_per_s["bf16"], h100.pcie_generation) == (794.5e12, 5)
    assert (mi300x.last_cache_bytes, mi300x.peer_bytes_per_s) == (256 * 2**20, 64e9)
    assert hardware.given("Rubin (VR200 NVL72)").public.startswith("announced")


def test_no_published_product_is_above_its_peak():
    for part in hardware.table():
        for precision, achieved in part.achieved_flops_per_s.items():
            assert achieved < part.peak(precision, "matrix"), part.part


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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("part,bf16_tflops\nX,1\n", "there is no column 'bf16_tflops'"),
        ("part,vendor\nX\n", "more or fewer cells"),
        ("part,vendor\nX,Y,Z\n", "more or fewer cells"),
        ("part,vendor\n,Y\n", "does not name its part"),
        ("part,memory_gb_per_s\nX,fast\n", "fast"),
        ("part,memory_gb_per_s\nX,inf\n", "memory_gb_per_s is inf"),
        ("part,memory_gb_per_s\nX,-1\n", "memory_gb_per_s is -1"),
        ("part,memory_gb_per_s\nX,0\n", "memory_gb_per_s is 0"),
        ("part,memory_gb_per_s\nX,1e-9\n", "memory_gb_per_s is 1e-9"),
        ("part,bf16_matrix_tflops\nX,0\n", "bf16_matrix_tflops is 0"),
    ],
)
def test_a_broken_table_says_so(tmp_path, text, reason):
    broken = tmp_path / "hardware.csv"
    broken.write_text(text)
    with pytest.raises(InputError, match=r"hardware\.csv is no hardware table") as error:
        hardware.table(broken)
    assert reason in str(error.value)


def test_a_file_of_any_size_or_kind_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "big.csv").write_bytes(b"x" * (sheets.MAX_FILE_BYTES + 1))
    (tmp_path / "odd.json").write_bytes(b"\xff\x00")
    for name, reason in (("big.csv", "larger than"), ("odd.json", "no hardware table")):
        with pytest.raises(InputError, match=reason):
            hardware.given(str(tmp_path / name))
    with pytest.raises(InputError, match="cannot be read"):
        hardware.given(str(tmp_path / "none.csv"))


def test_a_part_is_given_by_its_name_or_by_that_of_a_device():
    assert hardware.given("h100-sxm-80gb").part == "H100-SXM-80GB"
    assert hardware.given("NVIDIA H200").part == "H200-SXM-141GB"
    with pytest.raises(UsageError, match="did you mean H100-SXM-80GB"):
        hardware.given("H100-SXM-80")
    # a name that was begun and not ended: the shortest that begin so
    with pytest.raises(UsageError, match="did you mean H100-"):
        hardware.given("H10")


def test_a_part_is_given_by_a_csv_of_the_form_of_the_table(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("part,bf16_matrix_tflops,memory_gb_per_s\nboard 7,100,1000\n")
    found = hardware.given(str(file))
    assert (found.part, found.peak("bf16", "matrix")) == ("board 7", 100e12)
    assert (found.memory_bytes_per_s, found.verified) == (1e12, "no")
    file.write_text("part\na\nb\n")
    with pytest.raises(InputError, match="describes 2 parts"):
        hardware.given(str(file))


def test_a_part_is_given_by_json(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text('{"peaks": {"fp8_matrix_tflops": 2.5}, "memory": {"gb_per_s": 2, "gib": 1}}')
    found = hardware.given(str(file))
    assert (found.part, found.peak("fp8", "matrix")) == ("mine", 2.5e12)
    assert (found.memory_bytes_per_s, found.memory_bytes) == (2e9, 2**30)
    for broken in (
        '{"peaks": {"fp8": 1}, "memory": {"gb_per_s": 2}}',
        '{"peaks": {"fp8_matrix_tflops": 0}, "memory": {"gb_per_s": 2}}',
        '{"peaks": {"memory_gb_per_s": 5}, "memory": {"gb_per_s": 2}}',
        '{"peaks": {"part": 7}, "memory": {"gb_per_s": 2}}',
        '{"peaks": {}}',
        '{"peaks": {}, "memory": {"gb_per_s": 2, "speed": 3}}',
    ):
        file.write_text(broken)
        with pytest.raises(InputError, match=r"mine\.json is no hardware table"):
            hardware.given(str(file))
