"""The project as a whole: pinned dependencies, light imports, the frozen public surface."""

from __future__ import annotations

import ast
import gzip
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import workbench
from workbench.analysis.names import ANALYSES, FUNCTIONS
from workbench.trace import schema

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAVY = {"torch", "holoviews", "bokeh", "pandas", "numba"}
MACHINE_PATH = re.compile(rb"(?<![\w./-])/(?:root|home|work)/")

# Changing what stands below means changing the changelog in the same commit.
PUBLIC_NAMES = {
    "CapturePlan",
    "Explorer",
    "Job",
    "Launcher",
    "Only",
    "Run",
    "Sweep",
    "Timeline",
    "Trace",
    "__version__",
    "allocator",
    "allocator_causes",
    "breakdown",
    "collectives",
    "compare",
    "copies",
    "coverage",
    "counter_roofline",
    "counters",
    "definitions",
    "delays",
    "energy",
    "exposed",
    "fragmentation",
    "frames",
    "gc",
    "groups",
    "idle",
    "idle_causes",
    "input_wait",
    "kernels",
    "launches",
    "leads",
    "memory",
    "memory_peak",
    "memory_timeline",
    "mfu",
    "modules",
    "notes",
    "op_tree",
    "open",
    "ops",
    "overlap",
    "phases",
    "queue",
    "queue_depth",
    "recompute",
    "record",
    "redact",
    "regions",
    "recoverable",
    "roofline",
    "save_view",
    "sequences",
    "step_times",
    "steps",
    "summary",
    "sweep",
    "sync_calls",
    "syncs",
    "trust",
    "waterfall",
    "waterfall_mean",
}
VERBS = {
    "cache",
    "ceilings",
    "compare",
    "doctor",
    "export",
    "lab",
    "notes",
    "record",
    "redact",
    "report",
    "runs",
    "show",
    "sweep",
    "trim",
    "workloads",
}
TABLES = {
    "activities": "id kind family name device stream start_ns dur_ns launch op step phase "
    "graph_node grid block registers shared_bytes occupancy bytes source",
    "launches": "id kind name thread start_ns dur_ns correlation op",
    "ops": "id name thread start_ns dur_ns self_ns parent depth sequence external_id phase step "
    "module forward input_dims input_types input_strides concrete_inputs kernel_backend "
    "kernel_file kernel_hash",
    "ranges": "id name domain thread device stream start_ns dur_ns parent form launch "
    "waits_on_stream waits_on_launch",
    "steps": "step device host_start_ns host_dur_ns start_ns dur_ns complete tail",
    "collectives": "id activity name requested group group_size members seq dtype in_elements "
    "out_elements bytes start_ns dur_ns",
    "frames": "id parent name module thread start_ns dur_ns",
    "memory": "t_ns device address bytes total_allocated total_reserved op category site",
    "segments": "device address bytes allocated active requested largest_free stream kind pool "
    "is_expandable",
    "counters": "t_ns device name value unit",
    "kernel_counters": "activity name value unit source",
    "dependencies": "op depends_on kind",
    "problems": "code count first_example effect",
}


def declared() -> list[Requirement]:
    extras = [name for group in PROJECT["optional-dependencies"].values() for name in group]
    return [Requirement(name) for name in PROJECT["dependencies"] + extras]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pinned}


def test_every_dependency_is_pinned_within_its_bound():
    pinned = pins()
    wrong = [
        str(r) for r in declared() if pinned.get(canonicalize_name(r.name), "0") not in r.specifier
    ]
    assert wrong == []


def test_what_the_dependencies_need_is_pinned_too():
    assert needed({canonicalize_name(r.name) for r in declared()}) - pins().keys() == set()


def needed(names: set[str]) -> set[str]:
    """Follow the installed metadata; torch's own needs differ by build and come with its wheel."""
    seen: set[str] = set()
    while names:
        name = names.pop()
        seen.add(name)
        for text in importlib.metadata.requires(name) or [] if name != "torch" else []:
            requirement = Requirement(text)
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if wanted and (other := canonicalize_name(requirement.name)) not in seen:
                names.add(other)
    return seen


def test_environment_file_uses_the_constraints_and_the_project():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = [entry["pip"] for entry in listed if isinstance(entry, dict)]
    assert pip == ["-c constraints.txt", "-e .[app,dev,bench]"]
    (python,) = [entry for entry in listed if str(entry).startswith("python=")]
    assert python.removeprefix("python=") in SpecifierSet(PROJECT["requires-python"])


def test_importing_workbench_loads_nothing_heavy():
    code = "import sys, workbench; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_public_names_are_frozen():
    assert set(getattr(workbench, "__all__", ())) == PUBLIC_NAMES


def test_every_public_name_resolves():
    assert [name for name in PUBLIC_NAMES if not hasattr(workbench, name)] == []


def test_verbs_are_frozen():
    if importlib.util.find_spec("workbench.cli") is None:
        assert set() == VERBS
        return
    import typer.main

    from workbench import cli

    assert set(typer.main.get_command(cli.app).commands) == VERBS


def test_the_package_run_as_a_module_is_the_command_line():
    said = subprocess.run(
        [sys.executable, "-m", "workbench", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"workbench {workbench.__version__}\n"


def test_table_columns_are_frozen():
    assert {name: " ".join(columns) for name, columns in schema.TABLES.items()} == TABLES


def test_the_recording_child_needs_torch_and_the_standard_library_alone():
    capture = ROOT / "workbench" / "capture"
    files = [capture / "worker.py", *sorted((capture / "child").glob("*.py"))]
    wrong = {f.name: foreign(f.read_text()) for f in files if f.exists()}
    assert {name: found for name, found in wrong.items() if found} == {}


def foreign(code: str) -> set[str]:
    """Top names that are imported from outside torch, the library and the file's own package."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level != 1:
            names.add((node.module or "..").split(".")[0])
    return names - sys.stdlib_module_names - {"torch"}


def test_a_foreign_import_is_found():
    assert foreign("import os, polars.io\nfrom . import x\nfrom .y import z\nimport torch.nn") == {
        "polars"
    }
    assert foreign("def f():\n    from workbench.errors import InputError") == {"workbench"}


def test_no_tracked_file_holds_a_path_of_some_machine():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    assert [str(f.relative_to(ROOT)) for f in files if f.exists() and leaks(f)] == []


def leaks(path: Path) -> bool:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return MACHINE_PATH.search(content) is not None


def test_a_path_of_some_machine_is_found(tmp_path):
    inside = tmp_path / "a.json.gz"
    inside.write_bytes(gzip.compress(b'{"cwd": "/ro' + b'ot/x"}'))
    assert leaks(inside)
    inside.write_bytes(gzip.compress(b"frame/wo" + b"rk/x https://host/home/"))
    assert not leaks(inside)


def test_the_page_of_definitions_is_what_the_docstrings_say():
    spec = importlib.util.spec_from_file_location("definitions", ROOT / "scripts/definitions.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.page() == made.PAGE.read_text("utf-8"), "run scripts/definitions.py"
    listed = {place for places in made.SUBJECTS.values() for place in places}
    for name, module in ANALYSES.items():
        assert f"{module}:{FUNCTIONS.get(name, name)}" in listed, name
