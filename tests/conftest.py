"""What all tests share: markers that skip with a reason, the corpus, golden frames."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from goldens import assert_golden, golden_text
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).resolve().parent / "golden"
CORPUS = (ROOT / os.environ.get("WORKBENCH_CORPUS", "../shared")).resolve()
NO_CORPUS = "the recorded traces are absent: name their folder in WORKBENCH_CORPUS"

THOROUGH = bool(os.environ.get("WORKBENCH_THOROUGH"))
"""Also what takes an hour: many more examples, and the largest recordings everywhere."""
settings.register_profile("workbench", deadline=None, max_examples=50)  # busy is no failure
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("thorough" if THOROUGH else "workbench")
Golden = Callable[[str, pl.DataFrame], None]


@pytest.fixture
def thorough() -> bool:
    return THOROUGH


@functools.cache
def no_gpu() -> str | None:
    """Say why GPU tests cannot run; imports torch, so only asked when one is selected."""
    import torch

    return None if torch.cuda.is_available() else "torch sees no CUDA device"


@functools.cache
def no_browser() -> str | None:
    if chromium_path() is None:
        return "no Chromium found: install Debian's package chromium, or set WORKBENCH_CHROMIUM"
    missing = importlib.util.find_spec("playwright") is None
    return "playwright is not installed" if missing else None


def no_corpus() -> str | None:
    return None if (CORPUS / "traces").is_dir() else NO_CORPUS


def chromium_path() -> str | None:
    names = (os.environ.get("WORKBENCH_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


NEEDS = {"corpus": no_corpus, "gpu": no_gpu, "browser": no_browser}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden anew from what came out"
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, missing in NEEDS.items():
        if item.get_closest_marker(marker) and (reason := missing()):
            pytest.skip(f"{marker}: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    for marker in NEEDS:
        mine = [reason for reason in reasons if reason.startswith(f"Skipped: {marker}: ")]
        if mine:
            why = mine[0].removeprefix(f"Skipped: {marker}: ")
            terminalreporter.write_line(f"{len(mine)} tests marked {marker} skipped: {why}.")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests open and note, also in their child processes, out of the user's folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("WORKBENCH_CACHE_MAX_GB", raising=False)
        patch.setenv("WORKBENCH_NOTES", str(tmp_path_factory.mktemp("notes")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _never_replaced() -> Iterator[None]:
    """Let no test hand this process over to another program, as `workbench lab` does."""

    def refuse(*command: object) -> None:
        raise AssertionError(f"the tests would have become {command[1]}")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("execv", "execve"):
            patch.setattr(os, name, refuse)
        yield


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder with the recorded traces; use it in tests marked corpus."""
    if reason := no_corpus():
        pytest.skip(f"corpus: {reason}")
    return CORPUS


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path; use it in tests marked browser."""
    path = chromium_path()
    if path is None:
        pytest.skip(f"browser: {no_browser()}")
    return path


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a frame with tests/golden/NAME.json: floats nearly, all else exactly."""

    def compare(name: str, frame: pl.DataFrame) -> None:
        path = GOLDEN / f"{name}.json"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(golden_text(frame), encoding="utf-8")
        if not path.exists():
            pytest.fail(f"{path} does not exist: make it with pytest --update-golden")
        assert_golden(json.loads(path.read_text(encoding="utf-8")), frame)

    return compare
