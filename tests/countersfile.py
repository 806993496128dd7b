"""Small files of Nsight Compute and rocprofiler-compute, written by hand in tests."""

IDENTITY = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
            "Block Size", "Grid Size", "Device", "CC"]  # fmt: skip
FFMA, FADD, FMUL = (
    f"smsp__sass_thread_inst_executed_op_{n}_pred_on.sum" for n in ("ffma", "fadd", "fmul")
)
READ, WRITE, DURATION = "dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum"
UNITS = {READ: "byte", WRITE: "byte", DURATION: "nsecond"}


def quoted(cells):
    return ",".join(f'"{c}"' for c in cells)


def identity(number, name, *, grid=4, block=128, device=0, cc="8.0"):
    return [number, 9, "python3", "host", name, 1, 7, f"({block}, 1, 1)", f"({grid}, 1, 1)",
            device, cc]  # fmt: skip


def raw(launches, *, units=UNITS, before=(), after=(), **sizes):
    """A raw page: launches are (name, {counter: text}); their columns are all the counters met."""
    names = list(dict.fromkeys(n for _, counts in launches for n in counts))
    rows = [
        quoted(IDENTITY + names),
        quoted([""] * len(IDENTITY) + [units.get(n, "") for n in names]),
    ]
    rows += [
        quoted(identity(i, name, **sizes) + [counts.get(n, "") for n in names])
        for i, (name, counts) in enumerate(launches)
    ]
    return "\n".join([*before, *rows, *after]) + "\n"


def details(rows):
    """A details page: rows are (launch number, kernel, section, metric, unit, value)."""
    header = [*IDENTITY, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    lines = [quoted(header)]
    lines += [quoted([*identity(i, kernel), *cells]) for i, kernel, *cells in rows]
    return "\n".join(lines) + "\n"


def write(folder, text, name="counters.csv"):
    path = folder / name
    path.write_text(text)
    return path


def rocprof(folder, rows, *, arch="gfx90a", benchmark=None):
    """A folder of rocprofiler-compute: rows are dicts of the columns of pmc_perf.csv."""
    base = {"Dispatch_ID": 0, "Kernel_Name": "k", "GPU_ID": 0, "Grid_Size": 1024,
            "Workgroup_Size": 256}  # fmt: skip
    rows = [base | row for row in rows]
    names = list(dict.fromkeys(n for row in rows for n in row))
    lines = [",".join(names), *(",".join(str(row.get(n, "")) for n in names) for row in rows)]
    (folder / "pmc_perf.csv").write_text("\n".join(lines) + "\n")
    (folder / "sysinfo.csv").write_text(f"gpu_model,gpu_arch,wave_size\nMI200,{arch},64\n")
    if benchmark:
        names = ["device", *benchmark]
        values = ["0", *(str(v) for v in benchmark.values())]
        (folder / "roofline.csv").write_text(",".join(names) + "\n" + ",".join(values) + "\n")
    return folder
