"""Colours: stable, and apart for eyes that miss a cone type."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest

from workbench.errors import UsageError
from workbench.views import theme

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
SEES = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "normal": np.eye(3),
}
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
) / np.array([[0.9505], [1.0], [1.089]])


def lab(colour: str, eye: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(SEES[eye]) @ linear, 0, 1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(a: str, b: str, eye: str) -> float:
    return float(np.linalg.norm(lab(a, eye) - lab(b, eye)))


def test_distance_of_black_and_white_is_100():
    assert distance("#000000", "#ffffff", "normal") == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("name", theme.THEMES)
@pytest.mark.parametrize("eye", SEES)
def test_the_main_classes_stay_apart(name, eye):
    colours = [theme.THEMES[name].of(c) for c in ("compute", "communication", "copy", "idle")]
    assert min(distance(a, b, eye) for a, b in combinations(colours, 2)) > 15


@pytest.mark.parametrize("name", theme.THEMES)
@pytest.mark.parametrize("eye", SEES)
def test_no_family_looks_like_communication(name, eye):
    t = theme.THEMES[name]
    assert min(distance(f, t.of("communication"), eye) for f in t.families) > 20


@pytest.mark.parametrize("name", theme.THEMES)
@pytest.mark.parametrize("eye", SEES)
def test_every_class_stands_off_its_lane_and_off_the_other_classes(name, eye):
    t = theme.THEMES[name]
    colours = [t.of(c) for c in ("compute", "communication", "copy", "step", "range")]
    assert min(distance(c, t.lane, eye) for c in colours) > 12
    assert min(distance(a, b, eye) for a, b in combinations(colours, 2)) > 9


def luminance(colour: str) -> float:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("name", theme.THEMES)
def test_names_are_legible_on_every_box(name):
    # as the front end chooses: dark text on what is brighter than 0.55 of white, else white
    for colour in theme.THEMES[name].palette:
        r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        text = "#14181f" if (0.299 * r + 0.587 * g + 0.114 * b) / 255 > 0.55 else "#ffffff"
        light, dark = sorted((luminance(text), luminance(colour)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 3, colour


def test_both_themes_count_alike():
    assert len(theme.LIGHT.palette) == len(theme.DARK.palette)


def test_a_kernel_keeps_its_colour_over_tile_sizes_but_not_over_kinds():
    small, large = "sgemm_64x32_tn<float>", "sgemm_128x64_tn<half, 3>"
    assert theme.family_index(small) == theme.family_index(large)
    assert theme.index("collective", None, small) == theme.CLASSES.index("communication")
    assert theme.index("set", None, small) == theme.CLASSES.index("copy")
    assert theme.index("kernel", "gemm", small) == theme.index("kernel", "gemm", "anything")


def test_a_colour_is_the_same_in_another_process():
    code = "from workbench.views import theme; print(theme.family_index('aten::mm'))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) == theme.family_index("aten::mm")


def test_an_odd_name_has_a_colour():
    for name in ("", "123", "\ud800", "</script>"):
        assert 0 <= theme.family_index(name) < len(theme.LIGHT.families)


def test_an_unknown_class_names_the_nearest():
    with pytest.raises(UsageError, match="communication"):
        theme.LIGHT.of("comunication")


@pytest.mark.parametrize(("a", "b", "middle"), [("#000000", "#ffffff", "#7f7f7f"),
                                                ("#102030", "#102030", "#102030")])  # fmt: skip
def test_blend(a, b, middle):
    assert theme.blend(a, b) == middle
    assert (theme.blend(a, b, 1), theme.blend(a, b, 0)) == (a, b)
