"""Makes this interpreter one that has torch and the standard library, and nothing else for us.

Nobody may import what Workbench depends on. What the worker and a script import themselves is the
standard library, torch, and the part of Workbench that is made for it; torch may use what it needs.
"""

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
OURS = ("_workbench_child", "workbench.capture", "workbench.workloads", "workbench.errors")
FREE = {*sys.stdlib_module_names, "torch", "_workbench_child"}


def importer():
    """Return the name of the module whose code imports."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__", "").startswith(("importlib", "_frozen_importlib")):
        frame = frame.f_back
    return frame.f_globals.get("__name__", "")


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        top, who = name.partition(".")[0], importer()
        is_ours = who == "__main__" or who.startswith(OURS)
        refused = is_ours and top not in FREE and name != "workbench" and not name.startswith(OURS)
        if refused or top in BLOCKED:
            raise ModuleNotFoundError(f"{name} is blocked for {who}", name=name)


sys.meta_path.insert(0, Finder)
