"""Foreign SQLite files: whatever stands in them, nothing is written, run or trusted."""

import gzip
import random
import sqlite3
from contextlib import closing

import damage
import polars as pl
import pytest
from nsysfile import KERNEL, MEMSET, Export, busy_ns

import workbench as wb
from workbench import show
from workbench.errors import InputError, NotATraceError, WorkbenchError
from workbench.trace import schema, sqlite
from workbench.trace.open import open_source

COLUMNS = {"start": pl.Int64(), "value": pl.Float64(), "name": pl.String()}


def made(folder, *statements, name="t.sqlite"):
    path = folder / name
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)
    return path


def read(path, table="t", columns=COLUMNS):
    with sqlite.opened(path) as database:
        return database.read(table, columns), {p.code: p for p in database.tally.problems()}


def codes(trace):
    return set(trace.problems["code"])


def test_a_table_of_many_pieces_is_read_whole_and_in_order(tmp_path):
    path = made(tmp_path, "CREATE TABLE t (start INTEGER, value REAL, name TEXT)")
    with closing(sqlite3.connect(path)) as db, db:
        rows = ((i, i / 4, f"n{i % 3}" if i % 5 else None) for i in range(20_000))
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    frame, problems = read(path)
    assert frame["start"].to_list() == list(range(20_000))
    assert frame["value"].sum() == 19_999 * 20_000 / 8
    assert frame["name"].null_count() == 4_000
    assert problems == {}


def test_absent_tables_and_columns_read_as_none_and_null(tmp_path):
    path = made(tmp_path, "CREATE TABLE t (START INTEGER)", "INSERT INTO t VALUES (5)")
    frame, problems = read(path)
    assert frame.rows() == [(5, None, None)]  # SQLite's names have no case
    assert read(path, columns={"name": pl.String()})[0].rows() == [(None,)]
    assert read(path, "other")[0].rows() == []
    assert problems == {}


def test_values_of_another_type_are_read_where_they_can_be_and_counted_where_not(tmp_path):
    path = made(tmp_path, "CREATE TABLE t (start, value, name)")
    values = [
        (7, 1, "a"), ("8", "2.5", 9), (9.0, b"\xff", b"b\xff"), (9.5, float("inf"), None),
        (b"x", None, "c"), (1e300, -3, ""), ("-2", 2**62, "d"),
    ]  # fmt: skip
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", values)
    frame, problems = read(path)
    assert frame["start"].to_list() == [7, 8, 9, None, None, None, -2]
    assert frame["value"].to_list() == [1, 2.5, None, None, None, -3, 2.0**62]
    assert frame["name"].to_list() == ["a", "9", "b\ufffd", None, "c", "", "d"]
    assert problems["bad_value"].count == 5
    assert problems["bad_value"].first_example == "t.start: 9.5"


def test_views_and_computed_columns_are_not_run(tmp_path):
    """The view would never end, and the column would take 60 MB a row."""
    path = made(
        tmp_path,
        "CREATE TABLE t (start INTEGER, name TEXT AS (hex(zeroblob(30000000))))",
        "INSERT INTO t VALUES (5)",
        "CREATE VIEW v AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) "
        "SELECT start FROM n",
        "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; END",
    )
    assert read(path)[0].rows() == [(5, None, None)]
    frame, problems = read(path, "v")
    assert frame.rows() == []
    assert problems["not_a_table"].first_example == "view v"


def test_odd_tables(tmp_path):
    """A table without row numbers, columns that hide them, names to be quoted."""
    path = made(
        tmp_path,
        "CREATE TABLE t (start INTEGER PRIMARY KEY, name TEXT) WITHOUT ROWID",
        "INSERT INTO t VALUES (5, 'b'), (3, 'a')",
        "CREATE TABLE u (rowid INTEGER, oid TEXT, _rowid_ TEXT, start INTEGER)",
        "INSERT INTO u VALUES (9, 'x', 'y', 1), (8, 'x', 'y', 2)",
        'CREATE TABLE "a "" b" ("start" INTEGER)',
        'INSERT INTO "a "" b" VALUES (4)',
    )
    assert read(path)[0]["start"].to_list() == [3, 5]
    assert read(path, "u")[0]["start"].to_list() == [1, 2]
    assert read(path, 'a " b')[0]["start"].to_list() == [4]


def test_nothing_is_written_beside_the_file(tmp_path):
    folder = tmp_path / "50% ?#"
    folder.mkdir()
    path = Export().kernel("k", 0, 50).write(folder, "a?b#c%41.sqlite")
    before = path.read_bytes()
    assert wb.summary(wb.open(path))["busy_ns"].to_list() == [50]
    assert [p.name for p in folder.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_a_file_that_is_still_written_says_so(tmp_path):
    """Two kernels are in the file, a third still stands in the write-ahead log beside it."""
    path = Export().kernel("k", 0, 50).kernel("k", 60, 70).write(tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute(f"INSERT INTO {KERNEL} (start, end, deviceId, streamId) VALUES (80, 90, 0, 7)")
        db.commit()
        trace = wb.open(path)
    assert wb.summary(trace)["busy_ns"].to_list() == [60]
    assert "still_written" in codes(trace)
    assert trace.meta.truncated


def test_a_packed_file_asks_to_be_unpacked(tmp_path):
    packed = tmp_path / "t.sqlite.gz"
    packed.write_bytes(gzip.compress(Export().kernel("k", 0, 50).write(tmp_path).read_bytes()))
    with pytest.raises(InputError, match="packed SQLite file; unpack it"):
        wb.open(packed)


def test_a_damaged_page_costs_the_rest_of_its_table_alone(tmp_path):
    """The last leaf of the kernels is overwritten; copies and what came before still read."""
    export = Export().copy(1, 100_000, 100_100, bytes=8)
    for i in range(500):
        export.kernel(f"kernel {i}", i * 100, i * 100 + 50)
    path = export.write(tmp_path)
    with closing(sqlite3.connect(path)) as db:
        page = db.execute("PRAGMA page_size").fetchone()[0]
        query = f"SELECT max(pageno) FROM dbstat WHERE name = '{KERNEL}' AND pagetype = 'leaf'"
        try:
            last = db.execute(query).fetchone()[0]
        except sqlite3.OperationalError:
            pytest.skip("this SQLite was built without dbstat")
    data = bytearray(path.read_bytes())
    data[(last - 1) * page : last * page] = b"\xff" * page
    path.write_bytes(data)
    trace = wb.open(path)
    found = trace.activities
    kernels = found.filter(pl.col("kind") == "kernel").height
    assert 0 < kernels < 500
    assert found.filter(pl.col("kind") == "copy")["bytes"].to_list() == [8]
    assert wb.summary(trace)["busy_ns"].to_list() == [kernels * 50 + 100]
    assert "damaged_table" in codes(trace)
    assert trace.meta.truncated


def test_a_tree_that_repeats_its_rows_is_cut(tmp_path):
    """The root's last child points to its first: without care every total would count it twice."""
    path = made(tmp_path, "CREATE TABLE t (start INTEGER, name TEXT)")
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany("INSERT INTO t VALUES (?, ?)", ((i, "x" * 50) for i in range(400)))
        page = db.execute("PRAGMA page_size").fetchone()[0]
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'").fetchone()[0]
    data = bytearray(path.read_bytes())
    at = (root - 1) * page
    assert data[at] == 5  # an interior page of a table
    cell = at + int.from_bytes(data[at + 12 : at + 14], "big")
    data[at + 8 : at + 12] = data[cell : cell + 4]
    path.write_bytes(data)
    frame, problems = read(path, columns={"start": pl.Int64()})
    assert frame["start"].is_unique().all()
    assert "damaged_table" in problems


@pytest.mark.parametrize("size", [16, 50, 100, 600])
def test_a_file_that_is_cut_in_its_table_of_contents(tmp_path, size):
    path = Export().kernel("k", 0, 50).write(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError) as refusal:
        wb.open(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_reading_ends_at_the_row_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "MAX_ROWS", 3)
    export = Export()
    for i in range(5):
        export.kernel("k", i * 100, i * 100 + 50)
    trace = wb.open(export.write(tmp_path))
    assert wb.summary(trace)["busy_ns"].to_list() == [150]
    assert "too_many_rows" in codes(trace)
    assert trace.meta.truncated


def test_reading_ends_at_the_time_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "SECONDS_FREE", -100)
    monkeypatch.setattr(sqlite, "_CLOCK_STEPS", 500)
    export = Export()
    for i in range(500):
        export.kernel("k", i * 100, i * 100 + 50)
    with pytest.raises(InputError, match=f"takes too long to read .{KERNEL}"):
        wb.open(export.write(tmp_path))


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["CREATE TABLE places (url TEXT)"], "its tables are places"),
        (["CREATE TABLE StringTable (_id_, value)", "CREATE TABLE CUPTI_X (a)"], "nvprof"),
        ([f"CREATE TABLE t{i} (a)" for i in range(9)], "t0, t1, t2, t3, t4, …"),
        (["CREATE TABLE t (a)", "DROP TABLE t"], "it has no tables"),
    ],
)
def test_any_other_database_is_refused(tmp_path, statements, said):
    with pytest.raises(NotATraceError) as refusal:
        wb.open(made(tmp_path, *statements))
    assert said in str(refusal.value)


def full_export(folder):
    """Everything that the reader looks at, once or a few times."""
    export = Export().nvtx("ProfilerStep#1", 0, 900).nvtx("lap", 10, 800, kind=60)
    export.nvtx("aten::mm, seq = 3, op_id = 1, sizes = [[2, 3], [3, 4]]", 20, 500)
    export.nvtx(None, 30, 40, domain=3, textId=export.text("named"))
    export.nvtx("mylib", 0, None, kind=75, domain=3)
    for i in range(1, 41):
        export.call("cudaLaunchKernel_v7000", 20 + i * 10, 25 + i * 10, i)
        export.kernel(f"kernel {i % 3}", 1000 + i * 100, 1050 + i * 100, i, registersPerThread=32,
                      gridX=1, gridY=1, gridZ=1, blockX=32, blockY=1, blockZ=1,
                      staticSharedMemory=8, dynamicSharedMemory=8, graphNodeId=None)  # fmt: skip
    export.copy(1, 9000, 9100, 41, bytes=64, srcKind=0, dstKind=2)
    export.add(MEMSET, start=9200, end=9300, deviceId=0, streamId=7, bytes=64, memKind=2)
    export.add("TARGET_INFO_GPU", id=0, name="GPU", smCount=132, cuDevice=0)
    export.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=1001)
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_700_000_000_000_000_000)
    export.add("TARGET_INFO_GPU_METRICS", typeId=1, metricId=2, metricName="SM Active [%]")
    export.add("GPU_METRICS", timestamp=150, typeId=1, metricId=2, value=75)
    export.add("ThreadNames", nameId=export.text("python"), globalTid=(1 << 56 | 1001 << 24 | 5))
    return export.write(folder, "full.sqlite")


def survives(path):
    """Open a file and show everything of it; None when it is refused."""
    try:
        trace = open_source(path)
        for name in show.names():
            show.frame(trace, name, show.Choice())
    except WorkbenchError as refusal:
        said = str(refusal)
    else:
        said = None
    if said is not None:
        assert "\n" not in said
        return None
    for row in wb.summary(trace, window="all").iter_rows(named=True):
        assert row["busy_ns"] is None or row["window_ns"] == row["busy_ns"] + row["idle_ns"]
    assert set(trace.tables) == set(schema.TABLES) - {"frames"}
    return trace


VALUES = (None, "text", b"\x00\xff", -1, 2**62 + 7, -(2**63), 2**63 - 1, 1e300, 0.5, -1e999)


def columns_of(path):
    with closing(sqlite3.connect(path)) as db:
        tables = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {t: [r[1::4] for r in db.execute(f'PRAGMA table_info("{t}")')] for t in tables}


def test_any_value_in_any_column(tmp_path, thorough):
    """In each file six columns hold a wrong value in every other row; each has its turns."""
    path = full_export(tmp_path)
    assert survives(path)
    columns = [(t, *c) for t, found in columns_of(path).items() for c in found]
    original = path.read_bytes()
    seed = random.Random(3)
    for _ in range(9 if thorough else 1):
        seed.shuffle(columns)
        for i in range(0, len(columns), 6):
            path.write_bytes(original)
            with closing(sqlite3.connect(path)) as db, db:
                for table, column, key in columns[i : i + 6]:
                    # SQLite itself holds a row number to be an integer
                    value = seed.choice(VALUES) if not key else seed.choice((-1, 2**63 - 1))
                    where = "rowid = 1" if key else "rowid % 2 = 1"
                    db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (value,))
            assert survives(path)


def test_any_column_or_table_may_be_absent(tmp_path):
    path = full_export(tmp_path)
    original = path.read_bytes()
    tables = columns_of(path)
    parts = [(t, None) for t in tables] + [(t, c) for t, found in tables.items() for c, _ in found]
    random.Random(4).shuffle(parts)
    for i in range(0, len(parts), 4):
        path.write_bytes(original)
        gone = set()
        with closing(sqlite3.connect(path)) as db, db:
            for table, column in parts[i : i + 4]:
                if table in gone:
                    continue
                if column is None:
                    gone.add(table)
                    db.execute(f'DROP TABLE "{table}"')
                else:
                    db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "no {column}"')
        assert survives(path)


def test_damaged_exports_open_or_are_refused(tmp_path, thorough):
    original = full_export(tmp_path).read_bytes()
    seed = random.Random(20)
    opened, count = 0, 200 if thorough else 20
    for i in range(count):
        path = tmp_path / f"{i}.sqlite"
        path.write_bytes(damage.pages(original, seed))
        trace = survives(path)
        opened += trace is not None
        if trace is not None and not trace.problems.height:  # so the totals are of what is there
            rows = wb.summary(trace, window="all").iter_rows(named=True)
            assert {r["device"]: r["busy_ns"] for r in rows} == busy_ns(path)
        path.unlink()
    assert 1 < opened < count


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name", ["nsys/odd_no_kernels_rtx5060ti_schema3.17.2.sqlite", "rocm/rpd_matmul_result.rpd"]
)
def test_damaged_recorded_files_open_or_are_refused(corpus, tmp_path, name, thorough):
    original = (corpus / "traces" / name).read_bytes()
    seed = random.Random(30)
    opened, count = 0, 100 if thorough else 12
    for i in range(count):
        path = tmp_path / f"{i}.sqlite"
        path.write_bytes(damage.pages(original, seed))
        opened += survives(path) is not None
        path.unlink()
    assert 0 < opened < count


@pytest.mark.parametrize("name", [b"k\xccx y", b"bad\n   token `"])
def test_a_schema_that_is_no_text_is_refused_in_one_sentence(tmp_path, name):
    path = full_export(tmp_path)
    data = path.read_bytes()
    at = data.index(b"CREATE TABLE")
    broken = b"CREATE " + name
    path.write_bytes(data[:at] + broken + data[at + len(broken) :])
    with pytest.raises(InputError, match="table of contents") as refusal:
        open_source(path)
    assert "\n" not in str(refusal.value)
