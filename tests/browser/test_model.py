"""Heads and two sequences on the worksheet, in a real browser: tabs, a second grid, lights, pins, small multiples."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from attention import Experiment, explain, lessons, link, run
from attention.explain import named
from attention.model import Model
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import findings

D1 = 2
SECOND = "[class*=st-key-encodings_of_keys]"
TWO = replace(engine.LESSON, model=Model(heads=2))


def tab(page: Page, head: int) -> None:
    page.get_by_role("radio", name=f"Head {head}", exact=True).click()


def lit(page: Page, number: int) -> set[tuple[str, int, int]]:
    """The cells that are lit, once there are so many."""
    cells = page.locator("table[data-step] td[data-operand]")
    expect(cells).to_have_count(number)
    found = cells.evaluate_all(
        "cells => cells.map((c) => [c.closest('table').dataset.step, +c.dataset.row, +c.dataset.col])"
    )
    return {(step, row, col) for step, row, col in found}


def test_each_tab_shows_its_heads_numbers_and_a_click_pins_that_heads_cell(page: Page):
    drive.open(page, f"/?{link.write(TWO)}")
    engine.assert_shows(page, TWO)
    tab(page, 2)
    engine.assert_shows(page, TWO, head=1)
    drive.table(page, "weights").locator("td[data-row='1'][data-col='0']").click()
    panel = page.locator(".st-key-why")
    expect(panel.get_by_role("heading", name="Head 2, Percentages: query 2, key 1")).to_be_visible()
    expect(panel).to_contain_text("51.13 %")
    expect(page).to_have_url(re.compile("cell=h2.weights.1.0"))
    tab(page, 1)
    engine.assert_shows(page, TWO)
    expect(drive.table(page, "weights").locator("[aria-selected=true]")).to_have_count(0)


def test_an_operand_of_the_joined_outputs_opens_the_head_that_it_is_from(page: Page):
    drive.open(page, f"/?{link.write(TWO, 'joined.2.3')}")
    page.locator(".st-key-why").get_by_role("radio", name="output 3,2").click()
    engine.assert_shows(page, TWO, head=1)
    expect(drive.table(page, "output").locator("td[data-row='2'][data-col='1'][aria-selected=true]")).to_have_count(1)


def test_a_number_of_the_second_sequence_is_typed_into_its_own_grid(page: Page):
    experiment = lessons.encoder_decoder_attention()
    drive.open(page, f"/?{link.write(experiment)}")
    engine.assert_shows(page, experiment)
    drive.type_cell(page, D1, 2, "-3.5", SECOND)
    rows = (*experiment.key_encodings[:2], (-3.5, experiment.key_encodings[2][1]))
    changed = replace(experiment, key_encodings=rows)
    engine.assert_shows(page, changed)
    drive.type_cell(page, D1, 0, "2")
    engine.assert_shows(page, engine.with_cell(0, 0, 2.0, changed))


@pytest.mark.parametrize("positions", ["rotary.interleaved", "rotary.half", "sinusoidal", "alibi"])
def test_pointing_lights_exactly_what_a_cell_was_computed_from_in_every_model(page: Page, positions: str):
    rows = [[i - j / 4 for j in range(4)] for i in range(3)]
    model = Model(heads=2, style="course", positions=positions, soft_cap=3.0)
    experiment = Experiment(
        tuple("abc"), rows, model=model, key_tokens=("x", "y"), key_encodings=((1, 2, 0.5, -1), (0, 1, 1, 2))
    )
    drive.open(page, f"/?{link.write(experiment)}")
    engine.assert_shows(page, experiment)
    trace = run(experiment)
    for step in ("positioned", "key_positioned", "q", "k", "rotated_q", "rotated_k", "scores", "biased_scores"):
        if step not in engine.numbers(experiment):
            continue
        drive.table(page, step).locator("td[data-row='1'][data-col='1']").hover()
        operands = {(o.step, o.row, o.col) for o in explain(trace, step, 1, 1).operands}
        assert lit(page, len(operands)) == operands
    assert named(trace, "h2.weights.1.1").head == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_eight_heads_stand_side_by_side_and_the_page_is_accessible(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    experiment = replace(engine.LESSON, model=Model(heads=8))
    drive.open(page, f"/?{link.write(experiment)}")
    drive.drawn(page)
    chart = page.locator(".st-key-all_heads .js-plotly-plot")
    expect(chart.locator(".heatmaplayer .hm")).to_have_count(16)  # each with its invisible one, for words
    expect(chart).to_contain_text("Head 8")
    page.locator("[data-testid=stExpander]").filter(has_text="Model").locator("summary").click()
    expect(page.get_by_text("Style of heads")).to_be_visible()
    assert findings(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_arrows_in_the_plane_follow_another_mask_and_are_accessible(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    drive.open(page, "/")
    drive.drawn(page)
    page.locator("[data-testid=stExpander]").filter(has_text="In the plane").locator("summary").click()
    charts = page.locator(".st-key-plane .js-plotly-plot")
    expect(charts.first.locator(".scatterlayer .trace").first).to_be_visible()
    page.locator(".st-key-plane").get_by_role("combobox").click()
    page.get_by_role("option", name="1 write").click()
    expect(page.locator(".st-key-plane")).to_contain_text("lies in the one value that it sees")
    page.get_by_role("radio", name="none").click()
    engine.assert_shows(page, replace(engine.LESSON, mask="none"))
    expect(page.locator(".st-key-plane")).to_contain_text("lies in the hull of the 3 values that it sees")
    page.get_by_role("heading", name="Heatmaps").hover()
    assert findings(page) == []
