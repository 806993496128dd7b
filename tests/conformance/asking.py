"""Puts a question to the tool that CONFORMANCE_TOOL names; this project's when it names none."""

import importlib
import os

import pytest

OWN = "conformance.tool"
NAME = os.environ.get("CONFORMANCE_TOOL", OWN)
tool = importlib.import_module(NAME)
ours = pytest.mark.skipif(NAME != OWN, reason="about the rules of other tools")


def ask(question, files):
    """Return the tool's answer; a question that it does not answer skips the test."""
    try:
        return getattr(tool, question)(files)
    except NotImplementedError:
        pytest.skip(f"{NAME} does not answer {question}")
