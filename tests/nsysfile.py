"""Tiny Nsight Systems exports written by hand in tests: one line an event, times in ns."""

import sqlite3
from contextlib import closing

PID = 1001
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"


def global_id(pid, tid=0):
    return 1 << 56 | pid << 24 | tid


class Export:
    """Collects rows by table; a table exists when it has a row, as in real exports."""

    def __init__(self, schema="3.17.2"):
        self.rows = {}
        self.texts = {}
        self.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value=schema)

    def text(self, value):
        return self.texts.setdefault(value, len(self.texts) + 1)

    def add(self, table, **row):
        self.rows.setdefault(table, []).append(row)
        return self

    def kernel(self, name, start, end, correlation=0, *, pid=PID, device=0, stream=7, **more):
        at = {"start": start, "end": end, "deviceId": device, "streamId": stream}
        name = self.text(name)
        return self.add(KERNEL, **at, correlationId=correlation, globalPid=global_id(pid),
                        demangledName=name, shortName=name, **more)  # fmt: skip

    def call(self, name, start, end, correlation=0, *, pid=PID, tid=5):
        return self.add(RUNTIME, start=start, end=end, globalTid=global_id(pid, tid),
                        correlationId=correlation, nameId=self.text(name))  # fmt: skip

    def copy(self, kind, start, end, correlation=0, *, pid=PID, **more):
        at = {"start": start, "end": end, "deviceId": 0, "streamId": 7}
        return self.add(MEMCPY, **at, correlationId=correlation, globalPid=global_id(pid),
                        copyKind=kind, **more)  # fmt: skip

    def nvtx(self, text, start, end, *, pid=PID, tid=5, kind=59, domain=0, **more):
        return self.add(NVTX, start=start, end=end, eventType=kind, text=text,
                        globalTid=global_id(pid, tid), domainId=domain, **more)  # fmt: skip

    def write(self, folder, name="t.sqlite"):
        path = folder / name
        texts = [{"id": i, "value": t} for t, i in self.texts.items()]
        with sqlite3.connect(path) as db:
            for table, rows in {**self.rows, "StringIds": texts}.items():
                columns = list(dict.fromkeys(c for r in rows for c in r)) or ["id", "value"]
                declared = ", ".join(f'"{c}" {_type(table, c)}' for c in columns)
                db.execute(f'CREATE TABLE "{table}" ({declared})')
                marks = ", ".join("?" * len(columns))
                db.executemany(
                    f'INSERT INTO "{table}" VALUES ({marks})',
                    [[r.get(c) for c in columns] for r in rows],
                )
        db.close()
        return path


def _type(table, column):
    if (table, column) == ("StringIds", "id"):
        return "INTEGER PRIMARY KEY"
    return "TEXT" if column in {"value", "text", "name", "metricName"} else "INTEGER"


def busy_ns(path):
    """Return the length of the union of device records by device: plain SQL and a sweep."""
    spans = {}
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        tables = {r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in tables & {KERNEL, MEMCPY, MEMSET}:
            for device, start, end in db.execute(f"SELECT deviceId, start, end FROM {table}"):
                spans.setdefault(device, []).append((start, end))
    return {device: _union(sorted(times)) for device, times in spans.items()}


def _union(times):
    total, until = 0, times[0][0]
    for start, end in times:
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total
