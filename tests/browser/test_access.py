"""Every page for those who see it large, in colours of their own, or use no mouse; and axe-core on each."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser import drive
from tests.browser.conftest import OpenPage
from tests.browser.pages import PAGES, assert_readable, visit

# the element that has the focus: [what it is, whether anyone can see that it has it]. A grid draws its own ring; the
# page itself begins the next round.
FOCUSED = """() => {
  let e = document.activeElement;
  while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
  if (!e || e === document.body) return null;
  const rings = [e, e.parentElement, e.closest('label'), e.closest('[data-testid]')].filter(Boolean).some((r) => {
    const style = getComputedStyle(r);
    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
  });
  window.stops ??= [];
  window.stops.push(e);
  const again = window.stops.indexOf(e) < window.stops.length - 1;
  return [e.outerHTML.slice(0, 160), rings || e.matches('canvas, .js-plotly-plot *'), again];
}"""


def test_at_200_percent_nothing_is_cut_off_on_any_page_and_axe_finds_nothing_serious(new_page: OpenPage):
    # what is left of a window of 1280 x 1024 when all is twice as large
    page = new_page(width=640, height=512, device_scale_factor=2)
    drive.open(page, "/?cell=weights.1.0")
    for title in PAGES:
        page.get_by_test_id("stExpandSidebarButton").click()
        visit(page, title)
        page.get_by_role("button", name="Collapse sidebar").click()
        expect(page.get_by_test_id("stSidebar")).to_have_attribute("data-collapsed", "true")
        assert_readable(page, title)
        if title == PAGES[0]:
            worksheet, panel = drive.table(page, "output").bounding_box(), page.locator(".st-key-right").bounding_box()
            assert worksheet is not None
            assert panel is not None
            assert panel["y"] > worksheet["y"] + worksheet["height"]  # under it, not beside it


def test_the_tab_key_leads_through_every_page_and_in_forced_colours_each_stop_is_seen(new_page: OpenPage):
    page = new_page(forced_colors="active")
    drive.open(page, "/")
    assert len(PAGES) > 4
    for name in PAGES:
        visit(page, name)
        page.evaluate("() => { window.stops = []; document.body.tabIndex = -1; document.body.focus(); }")
        unseen, stops = [], 0
        while stops < 200:
            page.keyboard.press("Tab")
            found = page.evaluate(FOCUSED)
            if found is None or found[2]:
                break
            stops += 1
            if not found[1]:
                unseen.append(found[0])
        assert 10 < stops < 200, name  # else the focus is trapped
        assert unseen == [], name


def test_in_forced_colours_it_is_seen_what_is_chosen(new_page: OpenPage):
    page = new_page(forced_colors="active")
    drive.open(page, "/")
    ring = "e => getComputedStyle(e).outlineStyle"
    for mask, style in (("causal", "solid"), ("none", "none")):
        radio = page.get_by_test_id("stSidebar").get_by_role("radio", name=mask, exact=True)
        expect(radio).to_be_visible()
        assert radio.evaluate(ring) == style
    links = page.get_by_test_id("stSidebarNavLink")
    assert [each.evaluate(ring) for each in links.all()].count("solid") == 1
    assert links.first.evaluate(ring) == "solid"
    hidden, visible = (drive.table(page, "weights").locator(f"td[data-{kind}]").first for kind in ("hidden", "row"))
    border = "e => getComputedStyle(e).borderTopStyle"
    assert (hidden.evaluate(border), visible.evaluate(border)) == ("dashed", "solid")
