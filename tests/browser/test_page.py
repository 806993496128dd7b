"""The page of a recording in a browser without a network: alive, linked, and silent."""

import pytest
from browser.labdrive import Browser

import workbench as wb
from workbench.resources import data
from workbench.views.theme import DARK

pytestmark = pytest.mark.browser
TIMELINE = "document.querySelector('.wb-timeline').timeline"
PAINTED = f"() => document.querySelector('.wb-timeline') && {TIMELINE}.got && !{TIMELINE}.asked"


@pytest.fixture(scope="module")
def browser(chromium):
    with Browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    explorer = wb.Explorer(data() / "generated_gpu_2ranks")
    explorer.panes.open("Kernels")
    return explorer, explorer.save(tmp_path_factory.mktemp("page") / "page.html")


def opened(tab, path):
    tab.page.context.set_offline(True)
    tab.goto_file(path)
    tab.page.wait_for_function(PAINTED)
    tab.page.wait_for_function("() => document.querySelector('.wb-page').page")
    return tab.page


def selected(page, table):
    rows = page.locator(f"[data-table='{table}'] tr.wb-selected")
    return [int(row.get_attribute("data-row")) for row in rows.all()]


def test_rows_and_events_are_linked(browser, saved, tmp_path):
    explorer, path = saved
    with browser.page(1280, 1300) as tab:
        page = opened(tab, path)
        # a kernel row shows its longest event, as in the explorer
        page.locator("[data-table='kernels'] tbody tr[data-row='3']").click()
        explorer.panes.tables["kernels"].selected = 3
        mark = page.evaluate(f"{TIMELINE}.mark")
        assert {k: mark[k] for k in ("text", "start", "dur", "row")} == {
            k: explorer.timeline.mark[k] for k in ("text", "start", "dur", "row")
        }
        details = page.locator(".wb-page-details")
        assert mark["text"] in details.inner_text()
        assert "operator" in details.inner_text()
        # an event marks the rows it belongs to; its operator's row too
        page.evaluate(f"{TIMELINE}.model.mark({TIMELINE}.model.places[0])")
        explorer.panes.tables["kernels"].selected = 0
        assert selected(page, "kernels") == [0]
        page.locator(".wb-page-tabs [data-tab='Operators']").click()
        page.locator("[data-table='ops'] tbody tr").first.wait_for()
        assert selected(page, "ops") == [explorer.panes.row_of("ops")]
        # a step and a gap move the window
        page.locator(".wb-page-tabs [data-tab='Steps']").click()
        page.locator("[data-table='steps'] tbody tr[data-row='1']").click()
        start, length = explorer.frames["steps"].select("start_ns", "dur_ns").row(1)
        window = page.evaluate(f"{TIMELINE}.model.get('window')")
        assert window == [str(start), str(start + length)]
        page.locator(".wb-page-tabs [data-tab='Idle']").click()
        page.locator("[data-table='idle'] tbody tr[data-row='0']").click()
        assert page.evaluate(f"{TIMELINE}.model.get('window')") != window
        tab.shot(tmp_path / "idle.png")


def test_tables_sort_and_the_search_finds(browser, saved):
    _, path = saved
    with browser.page(1280, 1300) as tab:
        page = opened(tab, path)
        page.locator("[data-table='kernels'] th[data-name='count']").click()
        counts = [
            int(cell.get_attribute("data-v"))
            for cell in page.locator("[data-table='kernels'] tbody td:nth-child(6)").all()
        ]
        assert counts == sorted(counts, reverse=True)
        assert len(counts) > 10
        page.locator(".wb-timeline-bar input").fill("nccl")
        page.locator(".wb-timeline-count", has_text="matches in this window").wait_for()
        page.keyboard.press("Enter")
        page.locator(".wb-timeline-count", has_text="Match 1").wait_for()
        assert "nccl" in page.locator(".wb-page-details b").inner_text()
        assert len(selected(page, "kernels")) == 1


def test_every_tab_is_filled_in_both_themes(browser, saved, tmp_path):
    _, path = saved
    for dark in (False, True):
        with browser.page(1280, 1600, dark=dark) as tab:
            page = opened(tab, path)
            for button in page.locator(".wb-page-tabs button").all():
                button.click()
                section = page.locator("section:not([hidden])")
                for figure in section.locator(".wb-figure").all():
                    figure.locator(".bk-Figure").wait_for(timeout=20_000)
                for table in section.locator("[data-table]").all():
                    table.locator("table, .wb-nothing").first.wait_for()
                tab.shot(tmp_path / f"{button.get_attribute('data-tab')}-{dark}.png")
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            rgb = tuple(int(DARK.background[k : k + 2], 16) for k in (1, 3, 5))
            assert (background == f"rgb{rgb}") == dark


def test_a_click_on_a_point_of_the_roofline_shows_its_activity(browser, saved):
    _, path = saved
    with browser.page(1280, 1600) as tab:
        page = opened(tab, path)
        page.locator(".wb-page-tabs [data-tab='Roofline']").click()
        page.locator("section:not([hidden]) .bk-Figure").first.wait_for(timeout=20_000)
        page.evaluate("document.querySelector('.wb-page').page.tables.roofline.set('selected', 2)")
        assert page.evaluate(f"{TIMELINE}.mark.dur") is not None


def test_the_keys_walk_along_the_tabs(browser, saved):
    _, path = saved
    with browser.page(1280, 1300) as tab:
        page = opened(tab, path)
        page.locator(".wb-page-tabs [data-tab='Kernels']").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("section:not([hidden])").get_attribute("data-tab") == "Operators"
        for _ in range(3):  # Kernels, Overview, and round to the last one
            page.keyboard.press("ArrowLeft")
        assert page.locator("section:not([hidden])").get_attribute("data-tab") == "Notes"


def test_a_page_without_scripts_shows_a_picture_and_says_so(browser, saved):
    _, path = saved
    context = browser.chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.resolve().as_uri())
    assert "needs JavaScript" in page.locator("body").inner_text()
    assert page.locator("noscript img, img[alt='Overview of the timeline']").first.is_visible()
    context.close()
