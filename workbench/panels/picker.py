"""Which runs there are to show and to compare with, in two dropdowns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.panels import opened
from workbench.panels.controls import GIVEN, NO_CHOICE
from workbench.panels.runs import Offer, offers

if TYPE_CHECKING:
    from workbench.panels.controls import Controls
    from workbench.panels.opened import Given


class Picker:
    """Offers the runs of a folder, what was given at the start, and what was opened by its path."""

    def __init__(self, controls: Controls, runs_dir: str | Path, given: Given | None) -> None:
        # as a run names itself: absolute, links kept, so that the two can be compared
        self.runs_dir = Path(os.path.abspath(Path(runs_dir).expanduser()))  # noqa: PTH100
        self.controls, self.given = controls, given
        self.offers: tuple[Offer, ...] = ()
        self._paths: list[str] = []
        """Paths outside of the folder that were opened."""

    def refresh(self) -> None:
        """List the runs again; what is chosen stays."""
        self.offers = offers(self.runs_dir)
        runs = [(o.label, str(o.path)) for o in self.offers]
        runs += [(opened.name(p), p) for p in self._paths]
        given = [] if self.given is None else [(opened.name(self.given), GIVEN)]
        run, before = self.controls.run, self.controls.before
        kept = run.value, before.value
        run.options = [*runs, *given] or [("no runs yet", NO_CHOICE)]
        before.options = [("no run", NO_CHOICE), *runs, *given]
        for control, value in zip((run, before), kept, strict=True):
            if value in [v for _, v in control.options]:
                control.value = value

    @property
    def first(self) -> str:
        """What is shown at the start: what was given, else the newest run that is done."""
        if self.given is not None:
            return GIVEN
        return next((str(o.path) for o in self.offers if o.reason is None), NO_CHOICE)

    def source(self, value: str) -> Given:
        """Return what an entry stands for: a path, or what was given at the start."""
        return self.given if value == GIVEN and self.given is not None else value

    def entry(self, path: str) -> str:
        """Return the entry of a path; one that is not offered yet is from now on."""
        listed = [str(o.path) for o in self.offers] + self._paths
        found = next((p for p in listed if opened.is_same(path, p)), None)
        if found is not None:
            return found
        if isinstance(self.given, (str, Path)) and opened.is_same(path, str(self.given)):
            return GIVEN
        self._paths.append(path)
        self.refresh()
        return path

    def reason(self, source: Given) -> str | None:
        """Say why a run can't be looked at, where the folder says so."""
        return next((o.reason for o in self.offers if str(o.path) == str(source)), None)

    def is_whole(self, path: str) -> bool:
        """Say whether a path is that of a run that is done."""
        return any(str(o.path) == path and o.reason is None for o in self.offers)
