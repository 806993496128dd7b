"""Progress of a long reading: shown where someone watches, and a reading that can be stopped."""

import io
import signal
import subprocess
import sys
import time

import pytest
from tinytrace import kernel, write

from workbench import progress
from workbench.trace import container


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_line_after_a_second_and_none_at_the_end(monkeypatch, clock):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.shown("a.json", 10):
        progress.at(0.1)
        assert screen.getvalue() == ""
        clock[0] = 1.5
        progress.at(0.42)
        assert screen.getvalue().endswith("Reading a.json: 42%")
    assert screen.getvalue().endswith("\r\x1b[2K")


def test_short_work_and_unwatched_work_print_nothing(monkeypatch, clock):
    for screen, later in ((Terminal(), 0.5), (io.StringIO(), 9.0)):
        monkeypatch.setattr(sys, "stderr", screen)
        with progress.shown("a.json", 1 << 40):
            clock[0] += later
            progress.at(0.5)
        assert screen.getvalue() == ""


def test_one_listener_at_a_time(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    heard = []
    with progress.told_to(heard.append), progress.shown("a.json", 10):
        progress.at(0.5)
    progress.at(0.9)
    assert heard == [0.5]


def test_reading_says_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "PIECE", 64)
    path = write(tmp_path, [kernel("k", i, 1) for i in range(20)])
    heard = []
    with progress.told_to(heard.append), container.ahead(path) as (stream, _):
        assert b"".join(stream) == path.read_bytes()
    assert heard == sorted(heard)
    assert 0 < heard[0] < heard[-1] == 1


def test_an_interrupt_stops_a_reading_with_130(tmp_path):
    path = write(tmp_path, [kernel("k", 0, 1)])
    slow = (
        "import sys, time; from workbench import cli; from workbench.trace import container\n"
        "def forever(f, size):\n"
        "    yield b'['\n"
        "    print('reading', flush=True)\n"
        "    while True: time.sleep(0.05); yield b' '\n"
        f"container._plain = forever; sys.argv = ['workbench', 'show', {str(path)!r}]\n"
        "cli.main()"
    )
    child = subprocess.Popen([sys.executable, "-c", slow], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"reading\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 130
