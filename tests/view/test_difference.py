"""A miss explained: signs, ghosts, text and drawing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.report.drawing_style import ADDED, CHANGED, REMOVED, contrasting_ink, tint
from lazynb.report.miss_report import SIGNS, MissReport, explained_miss


def run(*lines, **values):
    code = "\n".join(lines)
    with lazynb.lazy():
        exec(compile(code, "program.py", "exec"), {"jnp": jnp, **values})


@pytest.fixture
def edited(clean):
    """A miss with something added, removed, changed and kept."""
    x = jnp.ones((4, 3))
    run("a = jnp.sin(x)", "b = jnp.exp(a)", "c = b.sum(axis=0)", "d = jnp.sqrt(c)", "print(d)", x=x)
    run(
        "a = jnp.sin(x)",
        "c = a.sum(axis=0)",
        "c = jnp.tanh(c)",
        "d = jnp.sqrt(c)",
        "print(d)",
        x=jnp.ones((5, 3)),
    )
    return explained_miss(1)


def names(explained, sign):
    return [explained.snapshot.nodes[node].name for node, one in explained.signs.items() if one == sign]


def test_signs_say_what_differs(edited, capsys):
    assert names(edited, "+") == ["tanh"]
    assert names(edited, "-") == ["exp"]
    changed = [
        node.names or (node.name,) for node in edited.snapshot.nodes if edited.signs.get(node.id) == "~"
    ]
    assert changed == [("x",)]
    assert len(edited.snapshot.nodes) == len(edited.signs) + 3  # sin, sum and sqrt stay


def test_removed_operations_stand_where_they_were(edited):
    order = [node.name for node in edited.snapshot.nodes if node.kind == "op"]
    assert order == ["sin", "exp", "reduce_sum", "tanh", "sqrt"]
    for node in edited.snapshot.nodes:
        assert all(operand < node.id for operand, _ in node.operands)
    ghost = next(node for node in edited.snapshot.nodes if node.name == "exp")
    assert edited.snapshot.nodes[ghost.operands[0][0]].name == "sin"


def test_the_text_has_causes_cures_and_signs(edited):
    text = repr(edited)
    assert text.startswith("Miss 1 · ") and "compared with miss 0" in text
    assert re.search(r"LNB432  `x` is \(5, 3\), was \(4, 3\)", text) and "to do: pad or cut `x`" in text
    signs = {line[0]: line for line in text.splitlines() if line[:1] in SIGNS}
    assert set(signs) == set(SIGNS) and "exp" in signs["-"] and "tanh" in signs["+"] and "x" in signs["~"]


def test_the_drawing_marks_by_sign_and_colour(edited):
    root = ET.fromstring(edited.draw().source)
    boxes = {
        group.get("id"): group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("id")
    }
    texts = {box: "".join(group.itertext()) for box, group in boxes.items()}
    fills = {box: ET.tostring(group, encoding="unicode") for box, group in boxes.items()}
    for name, sign, colour in (("exp", "−", REMOVED), ("tanh", "+", ADDED)):
        (box,) = [box for box, text in texts.items() if name in text]
        assert sign in texts[box] and colour in fills[box]
    (changed,) = [box for box, text in texts.items() if "~" in text]
    fill, line = tint(CHANGED), CHANGED
    assert f'fill="{fill}"' in fills[changed] and f'stroke="{line}"' in fills[changed]  # an input: x
    (ghost,) = [box for box, text in texts.items() if "exp" in text]
    assert "stroke-dasharray" in fills[ghost]
    (kept,) = [box for box, text in texts.items() if "sqrt" in text]
    assert (
        not any(colour in fills[kept] for colour in (ADDED, CHANGED, REMOVED))
        and "stroke-dasharray" not in fills[kept]
    )


def test_the_html_has_the_drawing_and_the_text(edited):
    html = edited._repr_html_()
    assert "data:image/svg+xml" in html and "LNB432" in html and "Step by step" in html and "tanh" in html
    assert all(f"{sign} {word}" in html for sign, (word, _) in SIGNS.items())


def test_without_a_layout_engine_the_text_is_left(edited, monkeypatch):
    from lazynb.report import miss_report as difference

    def missing(*_):
        raise difference.LayoutUnavailable("install graphviz")

    monkeypatch.setattr(difference, "draw", missing)
    html = edited._repr_html_()
    assert "install graphviz" in html and "tanh" in html and "LNB432" in html


def test_a_program_unlike_all_others_is_explained_as_new(clean):
    run("print(jnp.sin(x))", x=jnp.ones(3))
    explained = explained_miss(0)
    assert explained.signs == {} and "nothing like it" in repr(explained) and explained.draw().source
    assert "LNB401" in explained._repr_html_()


def test_an_unknown_miss_number_is_refused_with_the_known_ones(clean):
    with pytest.raises(ValueError, match="nothing was compiled yet"):
        explained_miss(0)
    run("print(jnp.sin(x))", x=jnp.ones(3))
    with pytest.raises(ValueError, match="there is no miss 7; there is 0"):
        explained_miss(7)
    run("print(jnp.cos(x))", x=jnp.ones(3))
    with pytest.raises(ValueError, match="there are 0 to 1"):
        explained_miss(-1)
    assert isinstance(explained_miss(1), MissReport)


def test_equal_steps_of_a_long_trace_are_abbreviated(clean):
    loop = ("y = x", "for i in range(200):", "    y = jnp.sin(y)", "    y = y + 1")
    run(*loop, "print(y)", x=jnp.ones(3))
    run(*loop, "y = jnp.tanh(y)", "print(y)", x=jnp.ones(3))
    explained = explained_miss(1)
    assert len(repr(explained).splitlines()) < 15 and "steps the same" in repr(explained)
    assert len(explained.view().boxes) <= 40


def test_the_colours_are_told_apart_and_legible():
    from lazynb.report import drawing_style

    assert len({ADDED, CHANGED, REMOVED}) == 3
    assert {ADDED, CHANGED, REMOVED} <= set(drawing_style.CLUSTERS), "of Okabe and Ito's"
    assert all(contrasting_ink(colour) for colour in (ADDED, CHANGED, REMOVED))
