"""Which questions an explorer asks."""

import functools
from dataclasses import replace

from workbench.panels.questions import QUESTIONS


def counted(monkeypatch):
    """Return a list that gets the name of each frame when it is computed."""
    asked = []

    def wrapped(name, question):
        @functools.wraps(question.ask)
        def ask(*sources, **options):
            asked.append(name)
            return question.ask(*sources, **options)

        return replace(question, ask=ask)

    for name, question in list(QUESTIONS.items()):
        monkeypatch.setitem(QUESTIONS, name, wrapped(name, question))
    return asked
