"""Predict, then reveal."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.differences.kernel_prediction import (
    BadPrediction,
    check_kernel_prediction,
    parse_groups,
    written_lines,
)
from lazynb.report.prediction_report import PredictionResult


@pytest.mark.parametrize(
    "text, groups",
    [
        ("1", [{1}]),
        ("2-4 | 5 7", [{2, 3, 4}, {5, 7}]),
        ("2,3|4", [{2, 3}, {4}]),
        (" 10 - 12 ", [{10, 11, 12}]),
    ],
)
def test_groups_of_lines_are_parsed(text, groups):
    assert parse_groups(text) == groups


@pytest.mark.parametrize("text", ["", "a", "1 | ", "1-", "1 2 | 2", "-3", "1 | 2 | 1-5"])
def test_malformed_groups_are_refused(text):
    with pytest.raises(BadPrediction):
        parse_groups(text)


def compiled():
    a, b = jnp.ones((256, 128)), jnp.ones((256, 128))
    with lazynb.lazy():
        h = a * b
        t = jnp.tanh(h)
        del h
        s = t.sum(1)  # noqa: F841
        return lazynb.compile()


def test_a_prediction_is_compared_line_by_line(clean):
    compilation = compiled()
    lines = [place.line for place in written_lines(compilation.snapshot)]
    assert [place.text for place in written_lines(compilation.snapshot)] == [
        "h = a * b",
        "t = jnp.tanh(h)",
        "s = t.sum(1)  # noqa: F841",
    ]
    right = check_kernel_prediction(compilation, [set(lines[:2]), {lines[2]}])
    assert [(verdict.expected, verdict.fused) for verdict in right.verdicts] == [(True, True), (False, False)]
    assert right.right == 2 and right.verdicts[1].boundaries
    wrong = check_kernel_prediction(compilation, [{lines[0]}, set(lines[1:])])
    assert [(verdict.expected, verdict.fused) for verdict in wrong.verdicts] == [(False, True), (True, False)]
    assert wrong.right == 0


def test_a_line_without_operations_is_refused(clean):
    with pytest.raises(BadPrediction, match="no operation was recorded on line 9999"):
        check_kernel_prediction(compiled(), [{9999}])


def test_reveal_shows_text_and_escapes(clean):
    compilation = compiled()
    reveal = PredictionResult(check_kernel_prediction(compilation, []))
    bundle = reveal._repr_mimebundle_()
    assert "1 of 2 right" in bundle["text/plain"] and "1 of 2 right" in bundle["text/html"]
    a = jnp.ones(3)
    with lazynb.lazy():
        y = a + 1  # <script>
        z = y * 2  # noqa: F841
        shown = PredictionResult(check_kernel_prediction(lazynb.compile(), []))._repr_mimebundle_()[
            "text/html"
        ]
    assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_an_empty_compilation_has_nothing_to_predict(clean):
    with lazynb.lazy():
        shown = repr(PredictionResult(check_kernel_prediction(lazynb.compile(), [])))
    assert "nothing to predict" in shown
