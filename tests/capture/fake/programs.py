"""Stand-ins for nsys and ncu: they hold to the command line that the real ones document.

Written as programs onto a PATH by `install`. They run the training in a session of its own, with no
open file of the caller's but the three standard ones, and yield what was recorded elsewhere.
"""

import sys
from pathlib import Path

_HEAD = """#!{python}
import os, shutil, subprocess, sys
words = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "said"), "a") as said:
    print(os.path.basename(__file__), *words, file=said)
def options(known):
    found = {{}}
    while words and words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        assert name in known, name
        found[name] = value
    return found
def train():
    done = subprocess.run(words, close_fds=True, stdin=subprocess.DEVNULL, start_new_session=True)
    return done.returncode
"""
_NSYS = """
verb = words.pop(0)
if verb == "profile":
    found = options({{"--trace", "--sample", "--cpuctxsw", "--cuda-graph-trace", "--capture-range",
                      "--capture-range-end", "--force-overwrite", "--output"}})
    assert found["--capture-range"] == "cudaProfilerApi"
    code = train()
    if "FAKE_NO_REPORT" not in os.environ:
        open(found["--output"].replace("%%", "%"), "w").write("a report")
    else:
        print("No reports were generated")
    sys.exit(code)
assert verb == "export"
given = dict(zip(words[::2], words[1::2]))
if "FAKE_EXPORT_ERROR" in os.environ:
    print("Importer error status: unrecognised report", file=sys.stderr)
    sys.exit(1)
if "FAKE_EXPORT_S" in os.environ:
    import time
    open(os.path.join(here, "exporting"), "w").close()
    time.sleep(float(os.environ["FAKE_EXPORT_S"]))
assert (given["--type"], words[-1].endswith(".nsys-rep")) == ("sqlite", True)
shutil.copy({result!r}, given["--output"])
"""
_NCU = """
found = options({{"--set", "--csv", "--page", "--print-units", "--target-processes",
                  "--profile-from-start", "--kernel-name", "--log-file"}})
assert (found["--page"], found["--profile-from-start"]) == ("raw", "off")
code = train()
if "FAKE_NO_KERNEL" in os.environ:
    with open(found["--log-file"], "w") as page:
        print("==PROF== Connected", "==WARNING== No kernels were profiled.", sep="\\n", file=page)
else:
    shutil.copy({result!r}, found["--log-file"].replace("%%", "%"))
sys.exit(code)
"""


def install(folder, name, result):
    """Write a stand-in that yields the file `result`."""
    text = _HEAD + {"nsys": _NSYS, "ncu": _NCU}[name]
    program = Path(folder) / name
    program.write_text(text.format(python=sys.executable, result=str(result)))
    program.chmod(0o755)
    return program
