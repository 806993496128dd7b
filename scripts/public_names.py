"""Write the lists of data/public_names that the installed torch itself tells.

`operators.txt`: every operator in the dispatcher's registry, without overloads, and every node of
autograd. `classes.txt`: modules, optimisers and loaders. The other lists are kept by hand.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import torch
from torch import nn, optim

_FOLDER = Path(__file__).resolve().parent.parent / "data" / "public_names"
_NAMESPACES = """
aten c10d _c10d_functional _c10d_functional_autograd mkl mkldnn onednn prims profiler quantized
_quantized sparse symm_mem inductor
"""
_LOADERS = ("_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter", "DataLoader")
_WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule")


def main() -> None:
    """Write both lists."""
    names = {n.partition(".")[0] for n in torch._C._dispatch_get_all_op_names()}  # noqa: SLF001
    known = {n for n in names if n.partition("::")[0] in _NAMESPACES.split()}
    _write("operators.txt", known | {n for n in dir(torch._C._functions) if n[0] != "_"})  # noqa: SLF001
    classes = {n for m in (nn, optim) for n, c in vars(m).items() if isinstance(c, type)}
    _write("classes.txt", classes.union(_LOADERS, _WRAPPERS))


def _write(name: str, words: set[str]) -> None:
    head = f"# Written by scripts/public_names.py from torch {torch.__version__.partition('+')[0]}."
    text = textwrap.fill(" ".join(sorted(words)), 100, break_on_hyphens=False)
    (_FOLDER / name).write_text(f"{head}\n{text}\n", encoding="utf-8")
    print(f"{len(words)} names in {name}")


if __name__ == "__main__":
    main()
