"""What the worker asks of the training environment: torch, by the names listed here.

`real_run` (conftest.py) records under an import hook that refuses all else.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import workbench

CHILD = Path(workbench.__file__).parent / "capture" / "child"
BLOCKED = Path(__file__).parent / "fake" / "blocked"

ALIASES = {
    "torch": "torch",
    "self.torch": "torch",
    "self.cuda": "torch.cuda",
    "profiler": "torch.profiler",
    "memory": "torch.cuda.memory",
    "nvtx": "torch.cuda.nvtx",
    "distributed": "torch.distributed",
}
TORCH_NAMES = """
torch.__version__ torch.autograd torch.autograd.profiler torch.autograd.profiler.emit_nvtx
torch.cuda torch.cuda.Event torch.cuda.device_count
torch.cuda.get_device_properties torch.cuda.is_available torch.cuda.memory
torch.cuda.memory._record_memory_history torch.cuda.memory._snapshot torch.cuda.nvtx
torch.cuda.nvtx.range_pop torch.cuda.nvtx.range_push torch.cuda.profiler torch.cuda.profiler.start
torch.cuda.profiler.stop torch.cuda.set_device
torch.cuda.synchronize torch.device torch.distributed torch.distributed.ReduceOp
torch.distributed.ReduceOp.MIN torch.distributed.all_reduce torch.distributed.barrier
torch.distributed.destroy_process_group torch.distributed.init_process_group torch.get_num_threads
torch.optim torch.optim.Optimizer torch.profiler torch.profiler.ExecutionTraceObserver
torch.profiler.profile torch.profiler.schedule
torch.profiler.supported_activities torch.set_num_threads torch.tensor torch.version
torch.version.cuda torch.version.hip
"""
OF_A_PROFILE = {
    "current_action",
    "on_trace_ready",
    "profile_memory",
    "record_shapes",
    "record_steps",
    "step_num",
    "with_stack",
}


def dotted(node):
    """Return `self.torch.cuda` as text; None for what is no chain of names."""
    if isinstance(node, ast.Name):
        return node.id
    start = dotted(node.value) if isinstance(node, ast.Attribute) else None
    return None if start is None else f"{start}.{node.attr}"


def names_of_torch(code):
    found = set()
    for node in ast.walk(ast.parse(code)):
        text = dotted(node) or ""
        for alias, full in ALIASES.items():
            if text.startswith(f"{alias}."):
                found.add(full + text.removeprefix(alias))
    return found


def test_the_worker_uses_these_names_of_torch_and_no_other():
    used = set().union(*(names_of_torch(path.read_text()) for path in CHILD.glob("*.py")))
    assert used == set(TORCH_NAMES.split())
    for name in used:
        value = torch
        for part in name.split(".")[1:]:
            value = getattr(value, part)


def test_names_of_torch_are_found():
    code = "self.torch.a.b(torch.c)\nprofiler = torch.profiler\nprofiler.d()\nother.torch.e"
    assert names_of_torch(code) == {
        "torch.a",
        "torch.a.b",
        "torch.c",
        "torch.profiler",
        "torch.profiler.d",
    }


def test_a_profile_and_an_optimiser_have_what_the_hooks_use():
    made = torch.profiler.profile()
    assert {name for name in OF_A_PROFILE if not hasattr(made, name)} == set()
    assert made.current_action.name == "RECORD"
    assert callable(torch.optim.Optimizer.profile_hook_step)


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("import json, workbench.errors", False),
        ("import numpy", True),
        ("import workbench.trace", True),
        ("import importlib; importlib.import_module('numpy')", True),
    ],
)
def test_the_import_hook_refuses_what_is_not_for_the_worker(code, refused):
    env = os.environ | {"PYTHONPATH": str(BLOCKED)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    assert (b"is blocked for __main__" in done.stderr) is refused
    assert done.returncode == refused


MARKED = f"""
import sys, types
from importlib import import_module
package = types.ModuleType("_workbench_child")
package.__path__ = [{str(CHILD)!r}]
sys.modules[package.__name__] = package
marked = import_module("_workbench_child.marked")
said = []
marked.listen(imported=lambda: said.append("imported"), ended=said.append)
from workbench.capture import step, workload
step()
step(0.5)
workload(lambda: None)()
print(*said, *sorted(marked.functions))
"""


def test_marks_are_found_where_workbench_is_not_installed():
    command = [sys.executable, "-I", "-S", "-c"]
    missing = subprocess.run([*command, "import workbench"], capture_output=True, check=False)
    assert b"No module named 'workbench'" in missing.stderr
    done = subprocess.run([*command, MARKED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["imported", "None", "0.5", "None", "<lambda>"]
