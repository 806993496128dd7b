"""The questions of the suite, put to this project; another tool answers with the same functions."""

import functools

import workbench as wb

TIMES = (
    "window", "busy", "compute", "communication", "overlap", "exposed_communication", "copy",
    "exposed_copy", "idle",
)  # fmt: skip
SORTS = {"kernel": "compute", "collective": "communication", "copy": "copy", "set": "copy"}


@functools.lru_cache(maxsize=4)
def _opened(folder, files):
    return wb.open(files[0] if len(files) == 1 else folder, cache=False)


def opened(files):
    return _opened(files[0].parent, tuple(files))


def times(files):
    rows = wb.summary(opened(files), window="all").iter_rows(named=True)
    return {(r["rank"], r["device"]): {n: r[f"{n}_ns"] for n in TIMES} for r in rows}


def overlap_share(files):
    rows = wb.overlap(opened(files), window="all").iter_rows(named=True)
    return {(r["rank"], r["device"]): r["overlap_share"] for r in rows}


def sorts(files):
    rows = wb.kernels(opened(files), window="all").select("name", "kind").rows()
    return {name: SORTS[kind] for name, kind in rows}


def waits(files):
    rows = wb.collectives(opened(files), window="all").select("rank", "seq", "wait_ns").rows()
    return {(rank, seq): ns for rank, seq, ns in rows}


def bandwidths(files):
    frame = wb.collectives(opened(files), window="all")
    rows = frame.select("seq", "algorithm_bytes_per_s", "bus_bytes_per_s").rows()
    return {seq: (algorithm, bus) for seq, algorithm, bus in rows}
