"""No secret leaves: one is planted in every place of a recording where a text can stand."""

import re

import planted
import polars as pl
import pytest
from planted import SECRET

from workbench.redaction import redact, tables
from workbench.redaction.key import Key
from workbench.redaction.pseudonyms import Kind, Names
from workbench.trace import schema, store
from workbench.trace.open import open_source
from workbench.trace.write.export import export


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return planted.folder(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def made(source):
    return redact(source, source.parent / f"{source.name}-{SECRET}")


def left(data):
    return sorted(set(re.findall(rb".{0,30}(?:zyxq|quark).{0,30}", data, re.IGNORECASE)))


def test_the_secret_is_in_every_file_and_every_table_before(source):
    assert all(left(planted.unpacked(f)) for f in source.iterdir())
    trace = open_source(source, cache=False).ranks[0]
    told = {f"{t}.{c}" for t, c in texts(trace) if holds(trace, t, c)}
    never = {"activities.family", "ops.input_types", "collectives.name", "collectives.requested",
             "collectives.members", "memory.category", "memory.site", "problems.code",
             "problems.effect"}  # fmt: skip
    unfilled = {n for n in columns() if n.split(".")[0] in (*schema.SELDOM, "memory")}
    assert columns() - told <= never | unfilled


def columns():
    return {f"{t}.{c}" for t, cs in schema.TABLES.items() for c, x in cs.items()
            if x.dtype in (pl.String(), pl.Categorical())}  # fmt: skip


def texts(trace):
    for name in schema.TABLES:
        frame = trace.frames if name == "frames" else trace.tables[name]
        for column, dtype in frame.schema.items():
            if dtype in (pl.String(), pl.Categorical()):
                yield name, column


def holds(trace, table, column):
    frame = trace.frames if table == "frames" else trace.tables[table]
    return frame[column].cast(pl.String).str.to_lowercase().str.contains(SECRET).any()


def test_no_byte_of_it_is_in_the_copy(made):
    assert left(planted.unpacked(made.path)) == []


def test_every_analysis_tells_the_same_of_both(made):
    differ = made.proof.filter(~pl.col("same"))
    assert differ.rows() == []
    assert {"kernels", "modules", "roofline", "trust"} <= set(made.proof["name"])


def test_files_that_are_not_known_stay_behind_and_are_named(made):
    assert sorted(f.name for f in made.path.iterdir()) == [
        "ceilings.json", "rank0.trace.json.gz", "run.json", "telemetry.csv",
    ]  # fmt: skip
    assert [x for x in made.left_out if x.startswith("the file")] == [
        f"the file {n}" for n in ("log.txt", "notes.json", "rank0.memory.json", "zyxquark.py")
    ]


def test_python_frames_other_than_of_modules_are_gone(made):
    trace = open_source(made.path, cache=False).ranks[0]
    names = trace.frames["name"].cast(pl.String).to_list()
    assert len(names) == 2
    assert re.fullmatch(r"nn\.Module: Module_\w+_3", names[0])
    assert names[1] == "nn.Module: Linear_0"
    assert trace.frames["parent"].to_list() == [None, 0]


def test_a_file_alone_and_a_folder_of_parquet_hold_none_of_it_either(source, tmp_path):
    alone = tmp_path / "zyxquark.json.gz"
    alone.write_bytes((source / "rank0.trace.json.gz").read_bytes())
    made = redact(alone, tmp_path / "zyxquark-copy.json")
    assert made.is_same
    assert left(planted.unpacked(made.path)) == []
    # in Parquet texts are packed, so they are looked for in what a reader gets, and in the manifest
    stored = export(open_source(alone), tmp_path / "zyxquark-stored")
    held = replaced_format(stored)
    made = redact(held, tmp_path / "zyxquark-parquet")
    assert made.is_same
    again = open_source(made.path)
    assert {f"{t}.{c}" for t, c in texts(again) if holds(again, t, c)} == set()
    assert left((made.path / store.MANIFEST).read_bytes()) == []
    for file in made.path.glob("*.parquet"):
        plain = tmp_path / "plain.parquet"
        pl.read_parquet(file).write_parquet(plain, compression="uncompressed")
        assert left(plain.read_bytes()) == [], file.name


def replaced_format(folder):
    """Give a stored trace the format of another tool, which is copied as Parquet again."""
    manifest = folder / store.MANIFEST
    text = manifest.read_text()
    assert '"format":"pytorch-profiler"' in text
    manifest.write_text(text.replace('"format":"pytorch-profiler"', '"format":"rocm-rpd"'))
    return folder


def test_every_column_of_text_has_a_rule():
    told = {f"{t}.{c}" for t, rules in tables.RULES.items() for c in rules}
    assert told == columns()
    assert set(tables.RULES) == set(schema.TABLES)


def test_every_kind_of_name_hides_the_secret_in_any_spelling():
    """What is public of a name may stay around it, and nothing else."""
    kinds = {v.word: v for v in vars(tables.kinds).values() if isinstance(v, Kind)}
    assert len(kinds) > 12
    spelled = [
        f"{begin}{name}{end}"
        for begin in ("", "void ", "at::", "nccl:", "cuda", "Memcpy ", "nn.Module: ", "step ", "4 ")
        for name in ("zyxquark", "Zyxquark", "ZYXQUARK", "zyx_quark", "ZyxQuark", "3zyxquark7")
        for end in ("", "_3", "Backward0", ".py", " ##", "<float>", "::gemm_bf16")
    ]
    for kind in kinds.values():
        new = Names(Key()).several(kind, spelled)
        assert len(set(new.values())) == len(spelled), kind.word
        kept = [n for n in new.values() if re.search("zyx|quark", n, re.IGNORECASE)]
        assert kept == [], kind.word
