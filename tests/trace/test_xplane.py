"""XPlane: a small program by hand, and the recorded file against a slow decoder of its own.

GPU 0, stream 13, from 1000 ns: `fusion.kd` 0-2000.5 ns, `MemcpyD2H` 5000-6000 ns; XLA's own line
repeats the kernel. Thread 7 launches both (correlations 1 and 2) for module `jit_f`, operator
`fusion.1`, inside `Execute`; a Python call and a numbered step are beside it.
"""

import gzip
import re

import polars as pl
import pytest
from mutations import assert_opens_or_is_refused
from wiremade import message

import workbench as wb
from workbench.errors import InputError

NAMES = {1: "correlation_id", 2: "hlo_op", 3: "hlo_module", 4: "kernel_details",
         5: "memcpy_details", 6: "step_num", 7: "fusion.1", 8: "jit_f", 9: "device_vendor",
         10: "core_count"}  # fmt: skip
NUMBERS = {name: number for number, name in NAMES.items()}
KERNEL = "regs:40 static_shared:100 dynamic_shared:20 grid:8,2,1 block:256,1,1 occ_pct:75"
INT, TEXT, REF = 4, 5, 7


def stat(name, value, kind=INT):
    value = NUMBERS[value] if kind == REF else value
    return ((1, NUMBERS[name]), (kind, value))


def event(name, offset_ps, dur_ps, *stats):
    return ((1, name), (2, offset_ps), (3, dur_ps), *((4, s) for s in stats))


def line(number, name, timestamp_ns, *events):
    return ((1, number), (2, name), (3, timestamp_ns), *((4, e) for e in events))


def plane(number, name, names, *lines, stats=()):
    events = [(4, ((1, k), (2, ((1, k), (2, v))))) for k, v in names.items()]
    named = [(5, ((1, k), (2, ((1, k), (2, v))))) for k, v in NAMES.items()]
    return ((1, number), (2, name), *((3, x) for x in lines), *events, *named,
            *((6, s) for s in stats))  # fmt: skip


def space():
    whose = (stat("hlo_op", "fusion.1", REF), stat("hlo_module", "jit_f", REF))
    gpu = plane(
        1, "/device:GPU:0", {1: "fusion.kd", 2: "MemcpyD2H"},
        line(13, "Stream #13(Kernel,MemcpyD2H)", 1000,
             event(1, 0, 2_000_500, stat("correlation_id", 1),
                   stat("kernel_details", KERNEL, TEXT)),
             event(2, 5_000_000, 1_000_000, stat("correlation_id", 2),
                   stat("memcpy_details", "kind:DtoH size:4096 dest:0 async:1", TEXT))),
        line(99, "XLA Ops", 1000, event(1, 0, 2_000_500)),
        stats=[stat("device_vendor", "Nvidia", TEXT), stat("core_count", 132)],
    )  # fmt: skip
    host = plane(
        2, "/host:CPU",
        {1: "Execute", 2: "cuLaunchKernel", 3: "cuMemcpyDtoHAsync", 4: "$train.py:3 step",
         5: "train", 6: "Mark"},
        line(7, "main/7", 0,
             event(4, 0, 9_000_000), event(5, 50_000, 9_900_000, stat("step_num", 4)),
             event(1, 100_000, 3_000_000),
             event(2, 200_000, 300_000, stat("correlation_id", 1), *whose),
             event(3, 600_000, 100_000, stat("correlation_id", 2)), event(6, 700_000, 0)),
    )  # fmt: skip
    environment = ((2, "Task Environment"), (6, ((1, 1), (3, 5_000))),
                   (5, ((1, 1), (2, ((1, 1), (2, "profile_start_time"))))))  # fmt: skip
    return message((1, gpu), (1, host), (1, environment), (4, "host0"))


def write(folder, data):
    path = folder / "host.xplane.pb"
    path.write_bytes(data)
    return path


@pytest.fixture
def trace(tmp_path):
    return wb.open(write(tmp_path, space()))


def test_streams_become_activities_and_what_xla_derives_does_not(trace):
    columns = ["kind", "name", "device", "stream", "start_ns", "dur_ns", "bytes"]
    # 2000.5 ns lies between 2000 and 2001: half to even
    assert trace.activities.select(pl.col(columns)).rows() == [
        ("kernel", "fusion.kd", 0, 13, 1000, 2000, None),
        ("copy", "MemcpyD2H", 0, 13, 6000, 1000, 4096),
    ]
    derived = trace.ranges.filter(pl.col("device") == 0)
    assert derived.select("name", "domain", "dur_ns").rows() == [("fusion.kd", "XLA Ops", 2000)]
    assert trace.origin_ns == 5_000


def test_what_a_kernel_says_of_itself(trace):
    kernel = trace.activities.row(0, named=True)
    assert (kernel["grid"], kernel["block"]) == ([8, 2, 1], [256, 1, 1])
    assert (kernel["registers"], kernel["shared_bytes"], kernel["occupancy"]) == (40, 120, 0.75)


def test_kernels_belong_to_hlo_operators_and_these_to_modules(trace):
    names = trace.ops["name"].cast(pl.String).to_list()
    op = trace.activities["op"][0]
    chain = []
    while op is not None:
        chain.append(names[op])
        op = trace.ops["parent"][op]
    assert chain == ["fusion.1", "jit_f", "Execute"]
    assert names[trace.activities["op"][1]] == "Execute"  # the copy says no operator


def test_a_module_that_runs_twice_is_two_rows(tmp_path):
    whose = (stat("hlo_op", "fusion.1", REF), stat("hlo_module", "jit_f", REF))
    other = (stat("hlo_op", "jit_f", REF), stat("hlo_module", "jit_f", REF))
    calls = [event(2, 10**6 * at, 500_000, stat("correlation_id", at), *which)
             for at, which in enumerate([whose, whose, other, whose, other], start=1)]  # fmt: skip
    host = plane(2, "/host:CPU", {2: "cuLaunchKernel"}, line(7, "main", 0, *calls))
    ops = wb.open(write(tmp_path, message((1, host)))).ops
    # fusion.1 (two calls), then the other, then both again: two runs of the module, two of each
    assert sorted(ops["name"].cast(pl.String)) == sorted(["fusion.1", "jit_f"] * 2 + ["jit_f"] * 2)
    assert ops["depth"].to_list() == [0, 1, 1, 0, 1, 1]


def test_numbered_steps_python_frames_and_instants(trace):
    assert trace.host_steps["step"].to_list() == [4]
    host = trace.ranges.filter(pl.col("device").is_null())
    assert sorted(host.select("name", "domain").rows()) == [
        ("Mark", "instant"), ("ProfilerStep#4", "step"), ("train", "user"),
    ]  # fmt: skip
    assert trace.frames.select("name", "start_ns", "dur_ns").rows() == [
        ("train.py:3 step", 0, 9000)
    ]
    assert [(t.pid, t.tid, t.name) for t in trace.meta.threads] == [("/host:CPU", 7, "main/7")]


def test_device(trace):
    (device,) = trace.meta.devices
    assert device.properties == {"device_vendor": "Nvidia", "core_count": 132}
    assert trace.meta.device_kind == "cuda"


@pytest.mark.parametrize(
    ("timestamp_ns", "offset_ps", "start_ns"),
    [(0, 500, 0), (0, 1500, 2), (1, 500, 2), (2, 500, 2), (0, 501, 1), (0, 499, 0), (7, 0, 7)],
)
def test_picoseconds_round_half_to_even(tmp_path, timestamp_ns, offset_ps, start_ns):
    gpu = plane(1, "/device:GPU:0", {1: "k"},
                line(1, "Stream #1", timestamp_ns, event(1, offset_ps, 1000)))  # fmt: skip
    assert wb.open(write(tmp_path, message((1, gpu)))).origin_ns == start_ns


def test_a_tpu_has_no_streams_so_its_operators_are_the_activity(tmp_path):
    tpu = plane(1, "/device:TPU:0", {1: "%fusion"}, line(1, "XLA Ops", 0, event(1, 0, 1000)),
                line(2, "XLA Modules", 0, event(1, 0, 1000)))  # fmt: skip
    trace = wb.open(write(tmp_path, message((1, tpu))))
    assert (trace.activities.height, trace.ranges.height, trace.meta.device_kind) == (1, 1, "tpu")


def test_a_host_alone_is_host_execution(tmp_path):
    host = plane(1, "/host:CPU", {1: "Execute"}, line(7, "main", 0, event(1, 0, 5000)))
    trace = wb.open(write(tmp_path, message((1, host))))
    assert trace.meta.device_kind == "cpu"
    assert wb.summary(trace)["busy_ns"].to_list() == [5]


def test_times_beyond_reason_and_sums_are_left_out(tmp_path):
    summed = ((1, 1), (5, 12), (3, 1000))
    gpu = plane(1, "/device:GPU:0", {1: "k"}, line(1, "Stream #1", 0, event(1, 0, 1000), summed),
                line(2, "Stream #2", 2**63 - 1, event(1, 2**62, 1000)))  # fmt: skip
    trace = wb.open(write(tmp_path, message((1, gpu))))
    assert trace.activities.height == 1
    codes = dict(trace.problems.select("code", "count").rows())
    assert codes == {"invalid_record": 1, "aggregated_events": 1}


def test_damage_is_named(tmp_path):
    with pytest.raises(InputError, match="damaged XPlane file: the field at byte 0 does not fit"):
        wb.open(write(tmp_path, space()[:-3][:200]))


def test_any_damage_opens_or_is_refused(tmp_path):
    assert assert_opens_or_is_refused(tmp_path / "t.pb", space(), is_json=False) > 10


def test_packed_with_gzip(tmp_path):
    assert wb.open(write(tmp_path, gzip.compress(space()))).activities.height == 2


def fields(data):
    """Decode one message the slow way, with no code of the project."""

    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at

    at = 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        elif key & 7 == 2:
            size, at = varint(at)
            value, at = data[at : at + size], at + size
        else:
            size = 8 if key & 7 == 1 else 4
            value, at = data[at : at + size], at + size
        yield key >> 3, value


@pytest.mark.corpus
def test_the_recorded_file_against_a_slow_decoder(corpus):
    path = corpus / "traces/tracelens/mi300_jax_conv_minimal.xplane.pb"
    want = {}
    for number, whole in fields(path.read_bytes()):
        if number != 1:
            continue
        name = next((v for n, v in fields(whole) if n == 2), b"").decode()
        device = re.match(r"/device:GPU:(\d+)", name)
        for n, stream in fields(whole):
            for k, e in fields(stream) if n == 3 and device else ():
                if k == 4:
                    ps = {f: v for f, v in fields(e) if f != 4}
                    want.setdefault(int(device[1]), []).append(round(ps.get(3, 0) / 1000))
    trace = wb.open(path)
    got = trace.activities.group_by("device", maintain_order=True).agg("dur_ns").sort("device")
    assert {d: sorted(x) for d, x in got.rows()} == {d: sorted(x) for d, x in want.items()}
    assert trace.activities["launch"].null_count() == 0
    assert trace.problems.height == 0
    # 5 calls of the jitted function, each on 8 GPUs
    runs = trace.ops.filter(pl.col("name").cast(pl.String) == "jit_forward_3d_conv")
    assert runs.height == 40


@pytest.mark.corpus
def test_the_recorded_file_beside_the_reference(corpus):
    """The reference may be of the source's other recording of this program: a hint, no more.

    It counts as copies what the driver does by kernels (`__amd_rocclr_copyBuffer`); the recording
    calls them kernels, and so do we.
    """
    trace = wb.open(corpus / "traces/tracelens/mi300_jax_conv_minimal.xplane.pb")
    busy = dict(wb.summary(trace).select("device", "busy_ns").rows())
    assert busy[7] == pytest.approx(3_586_493, rel=0.05)
