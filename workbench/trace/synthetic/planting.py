"""The planted idle gaps: each drains the device, lets one cause pass, and launches one kernel.

The kernel that ends a gap is named after its cause (`planted_garbage_collection`), so that tests
and readers find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.trace.synthetic.recorder import CALL_NS

if TYPE_CHECKING:
    from workbench.trace.synthetic.program import Program

COMPUTE, COPY = 7, 24
PLANTED_NS = 40_000
"""A planted kernel lasts longer than launching the next one takes."""
LATENCY_LIMIT_NS = 10_000
GRAPH_KERNELS = 3
SYNC_TAIL_NS = 2_000


def plant_gaps(program: Program) -> None:
    """Plant one gap of every cause, in the order of the specification."""
    _kernel(program, "first")
    for plant in (
        _sync,
        _data_loading,
        _garbage_collection,
        _operator,
        _python,
        _host_unknown,
        _launch_call,
        _dependency,
        _launch_latency,
        _unknown,
        _graph,
    ):
        plant(program)
    program.recorder.synchronize(COMPUTE, program.recorder.device_end + SYNC_TAIL_NS)


def _kernel(program: Program, cause: str, call_ns: int = CALL_NS, start: int = 0) -> None:
    """Launch the kernel that ends a gap; `start` holds it back on the device."""
    recorder = program.recorder
    with recorder.op("aten::add_"):
        call = recorder.call("cudaLaunchKernel", call_ns)
        begin = max(start, recorder.ready(call, COMPUTE))
        recorder.run(call, "kernel", f"planted_{cause}", COMPUTE, start=begin, ns=PLANTED_NS)


def _sync(program: Program) -> None:
    """Let a synchronising call return late."""
    if ns := program.spec.gaps.sync_ns:
        program.recorder.synchronize(None, program.recorder.device_end + ns)
        _kernel(program, "sync")


def _data_loading(program: Program) -> None:
    if ns := program.spec.gaps.data_loading_ns:
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        _host(program, ns, "user_annotation", name, "data_loading")


def _garbage_collection(program: Program) -> None:
    if ns := program.spec.gaps.garbage_collection_ns:
        _host(program, ns, "python_function", "Python GC", "garbage_collection")


def _operator(program: Program) -> None:
    if ns := program.spec.gaps.operator_ns:
        _host(program, ns, "cpu_op", "aten::randperm", "operator")


def _python(program: Program) -> None:
    """Run Python, or without recorded stacks do what nothing explains."""
    if not (ns := program.spec.gaps.python_ns):
        return
    if program.spec.stacks:
        _host(program, ns, "python_function", "train.py(58): log_metrics", "python")
    else:
        _idle(program, ns, "python")


def _host_unknown(program: Program) -> None:
    if ns := program.spec.gaps.host_unknown_ns:
        _idle(program, ns, "host_unknown")


def _host(program: Program, ns: int, category: str, name: str, host_class: str) -> None:
    """Hold one host event open until the device has been idle for `ns`."""
    recorder = program.recorder
    start = recorder.now
    with recorder.event(category, name, host_class):
        recorder.advance_to(recorder.device_end + ns)
    recorder.plant(f"host_{host_class}", start)
    _kernel(program, host_class)


def _idle(program: Program, ns: int, kernel: str) -> None:
    """Let the host do nothing that is recorded until the device has been idle for `ns`."""
    recorder = program.recorder
    start = recorder.now
    recorder.advance_to(recorder.device_end + ns)
    recorder.plant("host_unknown", start)
    _kernel(program, kernel)


def _launch_call(program: Program) -> None:
    """Make a launch call while the device is busy that returns `ns` after it went idle."""
    recorder = program.recorder
    if not (ns := program.spec.gaps.launch_call_ns):
        return
    with recorder.op("aten::add_"):
        call = recorder.call("cudaLaunchKernel", recorder.device_end + ns - recorder.now)
        recorder.note("launch_call", ns)
        start = recorder.ready(call, COMPUTE)
        recorder.run(call, "kernel", "planted_launch_call", COMPUTE, start=start, ns=PLANTED_NS)


def _launch_latency(program: Program) -> None:
    """Launch in time a kernel that starts late, within what launching may take."""
    if ns := program.spec.gaps.launch_latency_ns:
        program.recorder.note("launch_latency", ns)
        _kernel(program, "launch_latency", start=program.recorder.device_end + ns)


def _unknown(program: Program) -> None:
    """Launch in time a kernel that starts later than launching may take."""
    if ns := program.spec.gaps.unknown_ns:
        late = LATENCY_LIMIT_NS + ns
        program.recorder.note("launch_latency", LATENCY_LIMIT_NS)
        program.recorder.note("unknown", ns)
        _kernel(program, "unknown", start=program.recorder.device_end + late)


def _dependency(program: Program) -> None:
    """Launch a kernel that waits on a copy of another stream and starts `ns` after it.

    It comes first of the gaps that begin on the device: the copy starts as soon as it is called.
    """
    recorder = program.recorder
    if not (ns := program.spec.gaps.dependency_ns):
        return
    with recorder.op("aten::copy_"):
        program.copy(COPY, 2 * PLANTED_NS)
    recorder.wait(COMPUTE, COPY)
    if program.spec.sync_events:
        recorder.note("dependency", ns)
    _kernel(program, "dependency", start=recorder.device_end + ns)


def _graph(program: Program) -> None:
    """One graph launch of three kernels with a pause between them."""
    recorder = program.recorder
    if not (ns := program.spec.gaps.graph_ns):
        return
    with recorder.op("Graphed"):
        call = recorder.call("cudaGraphLaunch", CALL_NS)
        start = recorder.ready(call, COMPUTE)
        for node in range(GRAPH_KERNELS):
            kernel = recorder.run(
                call, "kernel", "planted_graph", COMPUTE, start=start, ns=PLANTED_NS
            )
            kernel.graph_node = (1 << 32) + node
            start = kernel.end + ns
    recorder.note("graph", ns * (GRAPH_KERNELS - 1))
