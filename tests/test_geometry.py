"""The plane: hulls against their definition, every output inside the hull of what its query sees, and the figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from attention import Experiment, drawings, geometry, lessons, run
from attention.geometry import drawn, hull, outside
from attention.model import Model
from tests.strategies import MASKS, SEEDS, law, rows

LESSON = lessons.masked_self_attention()
SQUARE = ((0, 0), (2, 0), (2, 2), (0, 2))
INK = "#123456"

points = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("given", "corners"),
    [
        ([(1, 1)], ((1, 1),)),
        ([(1, 1), (1, 1)], ((1, 1),)),
        ([(2, 2), (0, 0), (1, 1)], ((0, 0), (2, 2))),  # on one line: its ends
        ([(0, 0), (1, 0), (2, 0), (2, 2), (1, 1), (0, 2)], SQUARE),
        ([], ()),
    ],
)
def test_hulls_that_can_be_seen_at_a_glance(given, corners):
    assert hull(given) == corners


def cross(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


@law
@given(points)
def test_a_hull_is_made_of_given_points_turns_left_at_each_corner_and_has_all_points_inside(given):
    corners = hull(given)
    assert set(corners) <= set(given)
    n = len(corners)
    if n > 2:
        # by the definition, and not by the order in which it was built: all points lie left of every edge
        for a, b in ((corners[i], corners[(i + 1) % n]) for i in range(n)):
            assert all(cross(a, b, point) >= 0 for point in given)
            assert sum(cross(a, b, corner) == 0 for corner in corners) == 2  # no corner on an edge
    assert all(outside(point, corners) < 1e-12 for point in given)


@pytest.mark.parametrize(
    ("point", "corners", "far"),
    [
        ((1, 1), SQUARE, 0),
        ((2, 1), SQUARE, 0),
        ((3, 1), SQUARE, 1),
        ((5, 6), SQUARE, 5),  # 3 beyond one side and 4 beyond the other
        ((1, 1), ((0, 0), (2, 0)), 1),
        ((4, 0), ((0, 0), (2, 0)), 2),
        ((3, 4), ((0, 0),), 5),
    ],
)
def test_how_far_a_point_lies_outside(point, corners, far):
    assert outside(point, corners) == far


def test_outside_of_nothing_is_no_number():
    assert math.isnan(outside((0, 0), ()))


MODELS = (
    Model(),
    Model(heads=3),
    Model(heads=2, style="paper"),
    Model(heads=4, kv_heads=2, style="paper", positions="rotary.half", soft_cap=2.0),
    Model(heads=2, positions="alibi"),
    Model(positions="sinusoidal", scale="none"),
    Model(sink=0.5),
)


@st.composite
def modelled(draw):
    """Experiments of eight dimensions with any of the models, with one sequence or two."""
    n, m = draw(st.integers(1, 6)), draw(st.integers(0, 5))
    return Experiment(
        tokens=tuple("abcdef"[:n]),
        encodings=draw(rows(n, 8, magnitude=2.0)),
        seed=draw(SEEDS),
        mask=draw(st.sampled_from(MASKS)),
        model=draw(st.sampled_from(MODELS)),
        key_tokens=tuple("uvwxy"[:m]),
        key_encodings=draw(rows(m, 8, magnitude=2.0)) if m else (),
    )


@law
@given(modelled(), st.data())
def test_every_output_lies_in_the_hull_of_the_values_that_its_query_sees(experiment, data):
    trace = run(experiment)
    for h in range(len(trace.heads)):
        of = trace.of_head(h)
        d = of.head.v.shape[1]
        pair = data.draw(st.tuples(*[st.integers(0, d - 1)] * 2))
        size = max(1.0, of.head.v.abs().max().item())
        for query in range(experiment.n):
            found = drawn(of, query, pair)
            hidden = of.head.mask[query]
            assert found.visible == tuple(j for j in range(experiment.n_keys) if not hidden[j])
            if found.output is None:
                assert hidden.all()
                assert experiment.model.sink is None
            else:
                assert outside(found.output, found.hull) <= 1e-5 * size


def test_an_output_that_is_no_mean_would_be_found_outside():
    trace = run(LESSON)
    head = replace(trace.head, output=2 * trace.head.output)  # as if the percentages summed to 200 %
    found = drawn(replace(trace, heads=(head,)), 2)
    assert found.output is not None
    assert outside(found.output, found.hull) > 1


def test_the_lesson_in_the_plane():
    trace = run(LESSON)
    found = drawn(trace, 1)
    assert found.visible == (0, 1)
    assert [tuple(round(x, 4) for x in corner) for corner in found.hull] == [(-0.3502, 0.5303), (0.6038, 0.7434)]
    assert [round(x, 4) for x in found.output] == [-0.0062, 0.6072]
    assert [tuple(round(x, 2) for x in end) for end in found.arrows["encodings"]] == [
        (1.16, 0.23),
        (0.57, 1.36),
        (4.41, -2.16),
    ]
    # the first query sees one value alone, which is its output
    assert drawn(trace, 0).hull == (drawn(trace, 0).output,)


def test_two_dimensions_are_picked_and_the_second_of_one_is_zero():
    trace = run(Experiment(("a", "b"), [[1, 2, 3], [4, 5, 6]]))
    assert drawn(trace, 0, (2, 1)).arrows["encodings"] == ((3, 2), (6, 5))
    line = run(Experiment(("a", "b"), [[1], [-2]]))
    assert drawn(line, 1).arrows["encodings"] == ((1, 0), (-2, 0))
    assert outside(drawn(line, 1).output, drawn(line, 1).hull) < 1e-6


def test_a_query_that_sees_nothing_has_no_output_and_with_a_sink_the_origin():
    blind = replace(LESSON, mask="padding.right.3")
    found = drawn(run(blind), 0)
    assert (found.visible, found.hull, found.output) == ((), (), None)
    with_sink = drawn(run(replace(blind, model=Model(sink=0.0))), 0)
    assert (with_sink.hull, with_sink.output) == (((0.0, 0.0),), (0.0, 0.0))


# --- figures --------------------------------------------------------------------------------------------------------


def plane(experiment, names, query=0):
    trace = run(experiment)
    tokens = dict.fromkeys(geometry.NAMES, experiment.tokens)
    return drawings.plane(drawn(trace, query), names, tokens, INK, ["d1", "d2"])


def test_a_plane_has_an_arrow_for_each_token_and_hollow_ones_for_what_is_not_seen():
    figure = plane(LESSON, ["v"], query=1)
    by_name = {trace.name: trace for trace in figure.data if trace.name}
    assert list(by_name) == ["Hull of the values that it sees", "Values", "Its output"]
    values = by_name["Values"]
    assert values.marker.symbol[1::3] == ("arrow", "arrow", "arrow-open")
    ends = run(LESSON).head.v.tolist()
    assert [list(end) for end in zip(values.x[1::3], values.y[1::3], strict=True)] == ends
    assert values.x[::3] == (0, 0, 0)
    assert figure.data[2].text == ("v1", "v2", "v3")
    assert list(by_name["Its output"].x) == [run(LESSON).output[1, 0].item()]
    assert figure.layout.yaxis.scaleanchor == "x"  # so that angles are true


def test_labels_of_people_are_text_in_a_plane():
    hostile = replace(LESSON, tokens=("<b>x</b>", "%{x} #000001", "a&b"))
    words = " ".join(plane(hostile, ["q"]).data[0].hovertext)
    assert "&lt;b&gt;x&lt;/b&gt;" in words
    assert "&#35;000001" in words
    assert "a&amp;b" in words
    assert "<" not in words


def test_equal_tokens_share_the_name_of_their_arrow():
    names = plane(replace(LESSON, encodings=[[1, 2], [3, 4], [1, 2]]), ["q"]).data[1].text
    assert names == ("q1, q3", "q2")


def test_a_plane_of_sixty_four_tokens_has_no_letters_and_one_of_none_seen_has_no_output():
    figure = plane(lessons.a_long_one(), ["q", "v"])
    assert [trace.mode for trace in figure.data] == ["lines", "lines+markers", "lines+markers", "markers+text"]
    nothing = plane(replace(LESSON, mask="padding.right.3"), ["v"])
    assert [trace.name for trace in nothing.data] == ["Hull of the values that it sees", "Values", None]
    zeros = plane(Experiment(("a",), [[0, 0]]), ["encodings", "v"])
    assert zeros.layout.xaxis.range == (-1, 1)


def test_a_rotation_keeps_the_length_and_draws_the_arc_between():
    before, after = (1.0, 0.0), (0.0, 1.0)
    figure = drawings.rotation(before, after, INK, ["d1", "d2"])
    arc = figure.data[0]
    radii = [math.hypot(x, y) for x, y in zip(arc.x, arc.y, strict=True)]
    assert radii == pytest.approx([0.4] * len(radii))
    assert (arc.x[0], arc.y[0]) == pytest.approx((0.4, 0))
    assert (arc.x[-1], arc.y[-1]) == pytest.approx((0, 0.4))


def test_a_table_of_positions_and_the_costs_are_drawn_as_they_are():
    figure = drawings.positions([[0.0, 1.0], [0.5, -3.0]], INK)
    (cells,) = figure.data
    assert torch.tensor(cells.z).tolist() == [[0.0, 1.0], [0.5, -3.0]]
    assert (cells.zmin, cells.zmax) == (-3, 3)
    assert figure.layout.yaxis.range == (2.5, 0.5)  # position 1 on top
    without, with_cache = drawings.costs([1, 2, 3], [1, 4, 9], 1, INK).data
    assert (without.y, with_cache.y) == ((1, 4, 9), (1, 2, 3))
    assert without.marker.size == (5, 11, 5)


# --- on a page ------------------------------------------------------------------------------------------------------


def shown(**change):
    """A visitor of a page that shows nothing but the geometry of the lesson with these changes."""

    def page(change):
        from dataclasses import replace

        from attention import lessons, run
        from attention.ui import geometry

        geometry.show(run(replace(lessons.masked_self_attention(), **change)))

    visitor = AppTest.from_function(page, default_timeout=60, kwargs={"change": change})
    visitor.run()
    assert [exception.message for exception in visitor.exception] == []
    return visitor


def values(visitor):
    """The ends of the values' arrows on the page, and the output's place."""
    figure = json.loads(visitor.get_by_key("geometry-v").proto.spec)
    traces = {trace.get("name"): trace for trace in figure["data"]}
    return traces["Values"], traces.get("Its output")


def test_the_page_follows_the_query_that_is_picked():
    visitor = shown()
    assert visitor.caption[-1].value.startswith("The output of query 3, (3.4989, 2.2427), lies in the hull of the 3 ")
    visitor.selectbox(key="geometry-query-3").set_value(0)
    visitor.run()
    assert visitor.caption[-1].value.startswith("The output of query 1, (0.6038, 0.7434), lies in the one value")
    assert values(visitor)[1]["x"] == [pytest.approx(0.6038, abs=1e-4)]


def test_of_more_dimensions_two_are_picked():
    change = {"encodings": [[1.0, 2, 3], [4, 5, 6], [7, 8, 9.5]]}
    visitor = shown(**change)
    assert [box.key for box in visitor.selectbox] == ["geometry-query-3", "geometry-0-3", "geometry-1-3"]
    visitor.selectbox(key="geometry-1-3").set_value(2)
    visitor.run()
    output = run(replace(LESSON, **change)).output[2].tolist()
    found = values(visitor)[1]
    assert (found["x"], found["y"]) == ([pytest.approx(output[0])], [pytest.approx(output[2])])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"encodings": [[1.0], [2.0], [3.0]]}, "lies in the hull of the 3 values"),
        ({"mask": "padding.right.3"}, "Query 3 sees no key, so it has no output: NaN"),
        ({"model": Model(sink=1.0)}, "and the origin, for the sink takes a share"),
        ({"key_tokens": ("x",), "key_encodings": [[1, 2]], "mask": "none"}, "lies in the one value that it sees"),
        ({"model": Model(heads=2, style="paper")}, "lies in the hull of the 3 values"),
        ({"tokens": ("<b>bold</b>", "*x*", ":red[y]")}, "lies in the hull of the 3 values"),
    ],
)
def test_every_kind_of_experiment_is_drawn_and_described(change, says):
    visitor = shown(**change)
    assert says in visitor.caption[-1].value
    assert not any("bold" in markdown.value for markdown in visitor.markdown)
