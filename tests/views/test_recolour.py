"""A picture of the dark theme in light colours is the one that would have been drawn light."""

import base64
import gzip
import json
import re
from dataclasses import replace

import pytest

from workbench.panels.answers import Answers
from workbench.panels.choice import Choice
from workbench.panels.panes import BREAKDOWN
from workbench.panels.parts import Picture
from workbench.panels.tabs import TABS
from workbench.resources import data
from workbench.trace.open import open_source
from workbench.views import figure, recolour
from workbench.views.theme import DARK, LIGHT

PARTS = [BREAKDOWN, *(part for tab in TABS.values() for part in tab)]
PICTURES = {part.name: part for part in PARTS if isinstance(part, Picture)}


@pytest.fixture(scope="module")
def answers():
    return Answers(open_source(data() / "generated_gpu_2ranks"), Choice())


def drawn(part, frame, theme):
    """Return a picture's JSON, objects counted from 0, arrays unpacked."""
    item = json.dumps(figure.item(part.draw(frame, theme=theme, width=600)))
    item = re.sub(r'"H4sI[^"]*"', lambda m: repr(gzip.decompress(base64.b64decode(m[0]))), item)
    seen = {}
    item = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "id", item)
    return re.sub(r'"p\d+"', lambda m: f'"p{seen.setdefault(m[0], len(seen))}"', item)


@pytest.mark.parametrize("name", PICTURES)
def test_light_pictures_are_as_drawn(answers, name):
    part = PICTURES[name]
    frame = answers[part.frame]
    if frame.is_empty():
        pytest.skip(f"the sample has no {part.frame}")
    light = drawn(part, frame, "light")
    dark = drawn(part, frame, "dark")
    assert dark != light
    # white is Bokeh's own background, which its JSON leaves out
    told = recolour.recoloured(dark, DARK, LIGHT).replace(
        ' "background_fill_color": "#ffffff",', ""
    )
    assert told == light


def test_each_colour_of_a_theme_has_one_in_the_other():
    assert recolour.pairs(DARK, LIGHT)["#111418"] == "#ffffff"


def test_a_colour_with_two_others_is_told():
    two = replace(LIGHT, lane=LIGHT.background)
    with pytest.raises(ValueError, match="of the theme light is #111418 and #1b2027"):
        recolour.pairs(two, DARK)
