"""Makes this interpreter one that has torch but nothing else that Workbench depends on."""

import sys

BLOCKED = {
    "anywidget",
    "bokeh",
    "holoviews",
    "ipywidgets",
    "isal",
    "msgspec",
    "platformdirs",
    "polars",
    "psutil",
    "pynvml",
    "rich",
    "scipy",
    "typer",
}


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} is blocked in this test", name=name)


sys.meta_path.insert(0, Finder)
