"""`workbench redact` as a user types it: where it writes, what it refuses, what it says."""

import json
import re
from dataclasses import replace

import polars as pl
import pytest
from sametrace import differences
from tinytrace import call, kernel, mark, op, step, write
from typer.testing import CliRunner

from workbench import cli
from workbench.errors import InputError, UsageError
from workbench.redaction import copy, proof, redact
from workbench.redaction import key as keys
from workbench.trace import store
from workbench.trace.open import open_source
from workbench.trace.synthetic import generate
from workbench.trace.write import chrome


def run(*args):
    return CliRunner().invoke(cli.app, ["redact", *map(str, args)], standalone_mode=False)


def refused(*args):
    with pytest.raises((UsageError, InputError)) as error:
        raise run(*args).exception
    return str(error.value)


@pytest.fixture
def one(tmp_path):
    (tmp_path / "in").mkdir()
    events = [step(k, 100 * k, 100) for k in (1, 2, 3)]
    for k in (1, 2, 3):
        events += [op("acme::route", 100 * k + 4, 9), mark("acme phase", 100 * k + 1, 60)]
        events += [call("cudaLaunchKernel", 100 * k + 5, 2, k)]
        events += [kernel("acme_gemm_bf16", 100 * k + 9, 20, k)]
    return write(tmp_path / "in", events, "acme.json")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    generate().write(folder)
    return folder


def test_a_file_becomes_a_file_with_its_key_beside_it(one, tmp_path):
    new = tmp_path / "shared.json.gz"
    result = run(one, "-o", new)
    assert result.exception is None
    assert result.exit_code == 0
    assert re.search(r"^kernels +analysis +\d+ +none", result.stdout, re.MULTILINE)
    assert "differ: none" in result.stderr
    assert "1 kernels, 1 operators, 1 ranges" in result.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "in", "shared.json.gz", "shared.json.gz.key.json",
    ]  # fmt: skip
    trace = open_source(new, cache=False)
    key = keys.read(tmp_path / "shared.json.gz.key.json")
    assert sorted(key.names.values()) == ["acme phase", "acme::route", "acme_gemm_bf16"]
    names = {*trace.activities["name"].cast(pl.String)}
    assert {key.names[n] for n in names} == {"acme_gemm_bf16"}
    assert trace.activities["family"].cast(pl.String).to_list() == ["gemm"] * 3
    lost = differences(open_source(one), trace)
    assert lost == ["activities.name", "ops.name", "ranges.name"]
    assert trace.origin_ns == open_source(one).origin_ns


def test_a_copy_says_so(one, tmp_path):
    redact(one, tmp_path / "new.json")
    problems = open_source(tmp_path / "new.json").problems
    assert problems["code"].to_list() == ["redacted"]
    assert "pseudonyms" in problems["effect"][0]


def test_a_copy_of_a_copy_is_one_too(one, tmp_path):
    redact(one, tmp_path / "new.json")
    again = redact(tmp_path / "new.json", tmp_path / "again.json")
    assert again.is_same
    assert open_source(again.path).problems["code"].to_list() == ["redacted"]
    assert again.renamed == {"kernel": 1, "op": 1, "range": 1}  # another salt, other names


def test_names_are_the_same_in_every_rank_and_with_the_same_key(job, tmp_path):
    first = redact(job, tmp_path / "a")
    assert first.is_same
    assert sorted(p.name for p in first.path.iterdir()) == [
        "rank0.trace.json.gz", "rank1.trace.json.gz",
    ]  # fmt: skip
    ranks = open_source(first.path).ranks
    kernels = [{*trace.activities["name"].cast(pl.String)} for trace in ranks]
    assert kernels[0] == kernels[1]
    assert {*keys.read(first.key).names} & {n for n in kernels[0] if "kernel_" in n}
    again = redact(job, tmp_path / "b", key=first.key)
    other = redact(job, tmp_path / "c")
    assert again.key == first.key
    texts = [(r.path / "rank0.trace.json.gz").read_bytes() for r in (first, again, other)]
    names = [{*keys.read(r.key).names} for r in (first, again, other)]
    assert names[0] == names[1]
    assert not names[0] & names[2]
    assert len(texts[0]) == len(texts[1])


def test_what_is_in_the_way_stays(one, tmp_path):
    (tmp_path / "new.json").write_text("mine")
    assert refused(one, "-o", tmp_path / "new.json").endswith("exists already; give another name.")
    assert (tmp_path / "new.json").read_text() == "mine"
    (tmp_path / "b.json.key.json").write_text("{}")
    assert "give it with --key to use the same" in refused(one, "-o", tmp_path / "b.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere")
    assert "exists already" in refused(one, "-o", tmp_path / "link.json")
    assert "is no key of a redaction" in refused(
        one, "-o", tmp_path / "c.json", "--key", tmp_path / "new.json"
    )
    assert (tmp_path / "new.json").read_text() == "mine"
    assert not (tmp_path / "c.json").exists()


def test_places_that_make_no_sense_are_refused(one, job, tmp_path):
    assert "There is no file or folder" in refused(tmp_path / "no", "-o", tmp_path / "a")
    assert "There is no folder" in refused(one, "-o", tmp_path / "no" / "a.json")
    assert "which it is a copy of" in refused(job, "-o", job / "inside")
    assert "would lie in the copy itself" in refused(
        job, "-o", tmp_path / "a", "--key", tmp_path / "a" / "key.json"
    )
    assert "There is no folder" in refused(
        job, "-o", tmp_path / "a", "--key", tmp_path / "no" / "key.json"
    )
    assert "name a FILE.json.gz" in refused(one, "-o", tmp_path / "folder")
    assert "is a folder, and so is its copy" in refused(job, "-o", tmp_path / "a.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


def test_a_trace_of_a_run_is_copied_with_its_run(one, tmp_path):
    (one.parent / "run.json").write_text('{"schema_version": 1}')
    assert refused(one, "-o", tmp_path / "a.json").endswith("redact the folder.")


def test_what_is_no_recording_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    assert "a.txt" in refused(tmp_path / "a.txt", "-o", tmp_path / "b.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt"]


def test_a_copy_that_fails_leaves_nothing(one, tmp_path, monkeypatch):
    def full(*_):
        yield b"{"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(chrome, "_texts", full)
    assert "No space left on device" in refused(one, "-o", tmp_path / "a.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


def test_another_tools_recording_becomes_a_folder_of_parquet(one, tmp_path):
    held = store.save(open_source(one), tmp_path / "held", frames=True)
    manifest = held / store.MANIFEST
    manifest.write_text(manifest.read_text().replace("pytorch-profiler", "nsight-systems"))
    assert "a folder of Parquet" in refused(held, "-o", tmp_path / "a.json")
    made = redact(held, tmp_path / "a")
    assert made.is_same
    assert store.is_stored(made.path)
    trace = open_source(made.path)
    assert trace.meta.format == "nsight-systems"
    assert trace.meta.sha256 != open_source(held).meta.sha256


def test_a_cut_recording_stays_one_with_its_faults(one, tmp_path):
    cut = tmp_path / "in" / "cut.json"
    cut.write_bytes(one.read_bytes()[:-60])
    made = redact(cut, tmp_path / "a.json")
    assert made.is_same
    trace = open_source(made.path)
    assert trace.meta.truncated
    assert trace.problems["code"].to_list() == ["cut_short", "redacted"]


def test_json_holds_every_row_and_what_was_done(one, tmp_path):
    result = run(one, "-o", tmp_path / "a.json", "--json")
    told = json.loads(result.stdout)
    assert {r["name"] for r in told["rows"] if r["kind"] == "analysis"} >= {"summary", "mfu"}
    assert all(r["same"] for r in told["rows"])
    assert told["meta"]["renamed"] == {"kernel": 1, "op": 1, "range": 1}


# ---- the proof ------------------------------------------------------------------------------


def compared(one, tmp_path, change):
    original = open_source(one)
    made = redact(one, tmp_path / "new.json")
    new = change(open_source(made.path))
    return proof.compare(original, new, keys.read(made.key), copy.REDACTED.code)


def differ(found):
    return {r["name"]: r["difference"] for r in found.filter(~pl.col("same")).rows(named=True)}


def test_an_equal_copy_is_proved_equal(one, tmp_path):
    found = compared(one, tmp_path, lambda trace: trace)
    assert found["difference"].unique().to_list() == ["none"]


def test_names_within_json_are_put_back_as_they_were_written(tmp_path):
    (tmp_path / "in").mkdir()
    inputs = {"Concrete Inputs": ['[{"acme": "\u00e9"}]', "1"], "Input Dims": [[2], []]}
    source = write(tmp_path / "in", [op("aten::mm", 10, 5, **inputs)])
    made = redact(source, tmp_path / "new.json")
    assert made.is_same
    (text,) = open_source(made.path).ops["concrete_inputs"].cast(pl.String)
    assert re.fullmatch(r'\["value_\w+","1"\]', text)


def test_one_nanosecond_is_found(one, tmp_path):
    def later(trace):
        first = pl.col("id") == 0
        table = trace.activities.with_columns(
            dur_ns=pl.when(first).then(pl.col("dur_ns") + 1).otherwise("dur_ns")
        )
        return replace(trace, tables={**trace.tables, "activities": table})

    found = differ(compared(one, tmp_path, later))
    assert {"kernels", "breakdown", "table:activities"} <= {*found, "table:activities"}
    assert "20000 before, 20001 after" in found["activities"]


def test_a_name_that_is_another_is_found(one, tmp_path):
    def mixed(trace):
        name = pl.col("name").cast(pl.String) + "x"
        table = trace.ranges.with_columns(name.cast(pl.Categorical))
        return replace(trace, tables={**trace.tables, "ranges": table})

    assert "ranges" in differ(compared(one, tmp_path, mixed))


def test_a_row_less_is_found_and_exits_1(one, tmp_path, monkeypatch):
    opened = copy.open_source

    def other(path, **more):
        trace = opened(path, **more)
        tables = {**trace.tables, "ranges": trace.ranges[:-1]}
        return replace(trace, tables=tables) if "new" in path.name else trace

    monkeypatch.setattr(copy, "open_source", other)
    result = run(one, "-o", tmp_path / "new.json")
    assert 1 in {result.exit_code, result.return_value}
    assert re.search(r"^ranges +table +6 +6 rows before, 5 after", result.stdout, re.MULTILINE)
    assert re.search("differ: .*ranges", result.stderr)


def test_an_analysis_that_breaks_is_an_answer_too(one, tmp_path):
    def fewer(trace):
        return replace(trace, tables={**trace.tables, "ops": trace.ops[:-1]})

    found = differ(compared(one, tmp_path, fewer))
    assert any("IndexError" in text for text in found.values())


def test_what_the_stacks_tell_differs_by_choice(tmp_path):
    (tmp_path / "in").mkdir()
    at = {"ph": "X", "cat": "python_function", "pid": 9, "tid": 1}
    events = [step(1, 0, 100), step(2, 100, 100), op("aten::mm", 10, 5)]
    events.append(at | {"name": "a.py(3): main", "ts": 1, "dur": 50, "args": {"Python id": 1}})
    made = redact(write(tmp_path / "in", events), tmp_path / "new.json")
    assert made.is_same
    chosen = made.proof.filter(pl.col("difference") == proof.BY_CHOICE)["name"].to_list()
    assert chosen == ["trust", "idle", "frames", "frames"]  # an analysis and the table
    assert made.left_out == ("1 Python calls other than of modules",)


# ---- recorded -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt_tiny_cpu", "gpt_tiny_cpu_2ranks", "gpt_tiny_cpu_stacks"])
def test_the_sample_runs_are_proved_equal(name, request, tmp_path):
    made = redact(request.config.rootpath / "data" / name, tmp_path / "new")
    assert made.proof.filter(~pl.col("same")).rows() == []


RECORDED = (
    "hta/nccl_args_resnet_a100_rank0_of_2.json.gz",
    "hta/mtia_inference_rank0.json.gz",
    "hta/trace_diff_control_a100_rank3_of_8.json.gz",
    "tracelens/mi300_torch_compile_triton.json.gz",
    "tracelens/mi300_resnet_ddp_act_checkpoint_rank0_of_8.json.gz",
    "tracelens/rocprofv3_mi350x_results.json.gz",
    "tracelens/mi300_jax_conv_minimal.xplane.pb",
    "ascend_npu/pytorch_level1_rank0_trace_view.json.gz",
    "nsys/fuser_h100_schema3.16.sqlite",
    "rocm/rpd_matmul_result.rpd",
    "memory/cuda_memory_snapshot_llm_train.pickle.gz",
    "chakra/chakra.0.et.gz",
    "odd_derived/json_cut_mid_event.json.gz",
)


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_recordings_of_many_tools_are_proved_equal(corpus, tmp_path, name):
    source = corpus / "traces" / name
    is_events = open_source(source).ranks[0].meta.format == "pytorch-profiler"
    made = redact(source, tmp_path / ("new.json.gz" if is_events else "new"))
    assert made.proof.filter(~pl.col("same")).rows() == []
