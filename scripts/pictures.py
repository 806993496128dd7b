"""Take the pictures of docs/img again, from the start notebook in a real JupyterLab.

Needs Chromium and an idle machine: the run that start.png shows is recorded on the spot.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser.labdrive import Lab  # noqa: E402
from browser.test_start import NAME, Panel, record  # noqa: E402

IMAGES = ROOT / "docs" / "img"
WIDTH, HEIGHT = 1280, 1500
COLOURS = 128


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy(ROOT / "notebooks" / NAME, folder)
        with Lab(folder) as lab, lab.page(width=WIDTH, height=HEIGHT) as tab:
            tab.open(NAME).run_all()
            sample, launcher, mine = (Panel(tab.page, i) for i in range(3))
            sample.ready()
            record(launcher)
            mine.ready()
            _top(launcher)
            _keep(tab.shot(folder / "start.png"))
            tab.set_dark(dark=True)
            _top(sample)
            tab.page.mouse.click(*sample.kernel()[:2])
            sample.box.get_by_role("tab", name="Overlap").click()
            tab.page.wait_for_timeout(2500)
            _keep(tab.shot(folder / "explorer_dark.png"))
            tab.set_dark(dark=False)
            sample.ready()
            _keep(tab.shot(folder / "timeline_gpu.png", ".wb-timeline"))


def _top(panel: Panel) -> None:
    """Bring a panel to the top of the page."""
    panel.box.evaluate("(e) => e.scrollIntoView({ block: 'start' })")
    panel.page.wait_for_timeout(1200)


def _keep(path: Path) -> None:
    """Store a picture with few colours, which keeps it small."""
    Image.open(path).convert("RGB").quantize(COLOURS).save(IMAGES / path.name, optimize=True)
    print(f"{path.name}: {(IMAGES / path.name).stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
