"""Entry of the child process: executed as a file, by whichever Python runs the training.

It puts nothing on `sys.path`: the packages beside this project must not leak into a foreign
environment. The child package gets a private name, so a user's own `workbench` stays theirs.
"""

from __future__ import annotations

import sys
import types
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Load the child package from the folder beside this file and run the job given on stdin."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    package = types.ModuleType("_workbench_child")
    package.__path__ = [str(here / "child")]
    sys.modules[package.__name__] = package
    import_module("_workbench_child.job").run(*sys.argv[1:])


if __name__ == "__main__":
    main()
