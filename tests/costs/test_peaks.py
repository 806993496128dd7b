import pytest

from workbench.costs import hardware
from workbench.costs.peaks import MIXED, SINGLE, peak_of
from workbench.costs.precision import AMBIGUOUS
from workbench.costs.roofs import Roofs, from_hardware

PEAKS = {"bf16": 100.0, "fp32": 50.0}
ROOFS = Roofs("made", lambda precision, unit: PEAKS.get(precision), ())


def test_one_precision_has_its_peak():
    found = peak_of({"bf16": 10.0}, ROOFS)
    assert (found.flops_per_s, found.precision, found.rule) == (100.0, "bf16", SINGLE)
    assert (found.source, found.reason) == ("made", None)


def test_a_precision_stands_for_all_from_99_percent():
    assert peak_of({"bf16": 99.0, "fp32": 1.0}, ROOFS).flops_per_s == 100.0
    # what is left is not even asked for
    assert peak_of({"bf16": 99.0, AMBIGUOUS: 1.0}, ROOFS).flops_per_s == 100.0
    assert peak_of({"bf16": 98.0, "fp32": 2.0}, ROOFS).rule == MIXED


def test_a_mix_is_held_each_at_its_own_peak():
    # 30 / 100 + 10 / 50 = 0.5 s at peak for 40 FLOP: 80 FLOP/s
    found = peak_of({"fp32": 10.0, "bf16": 30.0}, ROOFS)
    assert found.flops_per_s == pytest.approx(80.0)
    assert found.precision == "bf16 75.0%, fp32 25.0%"


def test_a_trifle_of_unknown_precision_does_not_hide_a_mix():
    # 60 / 100 + 39.5 / 50 = 1.39 s at peak for the 99.5 FLOP that are known
    found = peak_of({"bf16": 60.0, "fp32": 39.5, AMBIGUOUS: 0.5}, ROOFS)
    assert found.flops_per_s == pytest.approx(99.5 / 1.39)
    assert peak_of({"bf16": 60.0, "fp32": 38.0, AMBIGUOUS: 2.0}, ROOFS).flops_per_s is None


def test_what_is_not_known_leaves_the_peak_null_with_the_reason():
    assert peak_of({AMBIGUOUS: 10.0}, ROOFS).reason == (
        "the kernels' names do not tell fp32 from TF32"
    )
    found = peak_of({"bf16": 30.0, "fp8": 10.0}, ROOFS)
    assert (found.flops_per_s, found.reason) == (None, "no peak of fp8 (matrix) in made")
    assert peak_of({"bf16": 1.0}, "no data sheet").reason == "no data sheet"
    assert peak_of({}, ROOFS).reason == "no matrix product ran in the steps"


def test_data_sheet_peaks_are_dense():
    roofs = from_hardware(hardware.lookup("NVIDIA H100 80GB HBM3"))
    assert peak_of({"bf16": 1.0}, roofs).flops_per_s == 989.4e12
