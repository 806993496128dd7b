"""A picture in a page, with a stand-in for its kernel."""

import json

import holoviews as hv
import pytest
from browser.labdrive import Browser

from workbench.views.figure import HERE, Figure, bokehjs

pytestmark = pytest.mark.browser
KERNEL = """([source, bokehjs, item]) => {
  const load = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  return import(load).then(({ default: figure }) => {
    const heard = new Set();
    window.asked = [];
    const say = (message, buffers) => [...heard].forEach((f) => f(message, buffers));
    const model = {
      get: () => 100, off: (_, f) => heard.delete(f),
      on: (name, f) => { if (name === "msg:custom") heard.add(f); },
      send: (message) => {
        if (message.type === "bokehjs") {
          const bytes = new TextEncoder().encode(bokehjs);
          window.load = () => say({ type: "bokehjs" }, [bytes]);
        } else window.asked.push(message);
      } };
    window.answer = () => {
      const { view, seq } = window.asked.at(-1);
      say({ type: "item", item: JSON.parse(item), view, seq });
    };
    window.box = document.createElement("div");
    document.body.append(window.box);
    figure.render({ model, el: window.box });
  });
}"""


def picture(_theme, _width):
    return hv.Curve([(0, 1), (1, 2)])


@pytest.fixture(scope="module")
def browser(chromium):
    with Browser(chromium) as running:
        yield running


def test_a_picture_that_left_the_page_before_it_was_drawn_is_drawn_when_it_comes_back(browser):
    item = json.dumps(Figure(picture, height=100).item("light", 600))
    with browser.page() as tab:
        page = tab.page
        page.evaluate(KERNEL, [(HERE / "figure.js").read_text(), bokehjs().decode(), item])
        page.wait_for_function("() => window.asked.length === 1")
        page.evaluate("() => { window.answer(); window.box.remove(); window.load(); }")
        page.evaluate("() => document.body.append(window.box)")
        page.wait_for_function("() => window.asked.length === 2")
        page.evaluate("() => window.answer()")
        page.wait_for_function("() => window.box.querySelector('.bk-Figure')")
