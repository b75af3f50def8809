"""One cell on several chips: what runs in a loop, once and in all."""

from __future__ import annotations

import types

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.differences.variant_comparison import program_figures
from lazynb.report import target_report
from lazynb.report.target_report import TargetComparison
from lazynb.user_code.source_lines import Place
from lazynb.xla.hlo.shapes import memory_space


def looped(target, turns):
    with lazynb.lazy():
        x = jnp.ones((256, 256))
        return lazynb.compile(jax.lax.fori_loop(0, turns, lambda step, y: jnp.tanh(y @ x), x), target=target)


@pytest.mark.parametrize("target", ["cpu", "v5e", "h100"])
def test_loop_kernels_and_bytes_count_once_per_iteration(target, needs):
    """What stands outside of the loop runs once: seven turns more are seven times the body."""
    needs(target)
    less, more = (program_figures(looped(target, turns)) for turns in (5, 12))
    assert (less.kernels, less.moved) == (more.kernels, more.moved)
    assert more.runs > less.runs > less.kernels
    body, rest = divmod(more.moved_in_all - less.moved_in_all, 7)
    assert rest == 0 and 0 < body <= less.moved
    condition = 4 + 1  # bytes: it reads a number, writes a truth value, and runs once more than the body
    assert less.moved_in_all == less.moved + 4 * body + condition
    if target != "cpu":
        assert more.seconds_in_all > less.seconds_in_all > less.seconds == more.seconds


def test_a_loop_of_unknown_length_has_no_totals(needs):
    with lazynb.lazy():
        x = jnp.ones((64, 64))
        y = jax.lax.while_loop(lambda y: y.sum() < 9e3, lambda y: jnp.tanh(y) + y, x)
        compilation = lazynb.compile(y, target=needs("v5e"))
    one = program_figures(compilation)
    assert one.runs is None and one.moved_in_all is None and one.moved > 0
    text = repr(TargetComparison([compilation]))
    assert "how often they run is not known" in text and "each kernel once" in text


# ---- Lines whose kernels differ ----------------------------------------------------------------------------


def made(*kernels, programs=1):
    """A compilation whose kernels have parts of these lines, such as ``[1, 2]``; 0 is a line of cell 1."""
    places = [
        Place("c1", 7, "seven", 1),
        *(Place("c2", number, f"line {number}", 2) for number in range(1, 9)),
    ]
    traces = []
    for number in range(programs):
        own = kernels[number::programs]
        clusters = [types.SimpleNamespace(name=f"k{at}", is_kernel=True) for at in range(len(own))]
        fates = {
            line: types.SimpleNamespace(clusters=[f"k{at}" for at, lines in enumerate(own) if line in lines])
            for line in range(9)
        }
        traces.append(types.SimpleNamespace(clusters=clusters, fates=fates))
    nodes = [types.SimpleNamespace(place=place) for place in places]
    return types.SimpleNamespace(traces=traces, snapshot=types.SimpleNamespace(nodes=nodes))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (made([1], [1], [1], [1]), made([1], [1]), {1: ("4 kernels, alone", "2 kernels, alone")}),
        (made([1, 2], [1, 2]), made([1, 2]), {1: ("2 kernels, with 2", "with 2"), 2: ("2 kernels, with 1", "with 1")}),
        (made([1, 2], [2, 3]), made([1, 2], [2, 3]), {}),
        (made([1, 2, 3]), made([1, 2], [2, 3], [1, 3]), {
            1: ("with 2, 3", "2 kernels: 1 with 2, 1 with 3"),
            2: ("with 1, 3", "2 kernels: 1 with 1, 1 with 3"),
            3: ("with 1, 2", "2 kernels: 1 with 1, 1 with 2"),
        }),
        (made([1], [2]), made([1]), {2: ("alone", "no kernel")}),
        (made([1], [2]), made([1], []), {2: ("alone", "not known")}),
        (made([1], [1], [1, 2]), made([1, 2]), {1: ("3 kernels: 2 alone, 1 with 2", "with 2")}),
        (made([0, 1]), made([0], [1]), {1: ("with cell 1, line 7", "alone"), 7: ("with cell 2, line 1", "alone")}),
        (made([1], [2], programs=2), made([1], [2]), {}),  # kernels of two programs have the same name
    ],
)  # fmt: skip
def test_lines_are_compared_kernel_by_kernel(one, other, said, monkeypatch):
    monkeypatch.setattr(target_report, "program_figures", lambda one: types.SimpleNamespace(target=id(one)))
    rows = TargetComparison([one, other])._lines()
    lines = {int(row.pop("line").split(":")[0].rpartition(" ")[2]): tuple(row.values()) for row in rows}
    assert lines == said


@pytest.mark.parametrize(
    "program",
    [
        jax.nn.softmax,
        lambda x: jnp.tanh(x @ x).sum(),
        lambda x: jnp.sort(x * 2, axis=0) + 1,
        lambda x: (x - x.mean(0)) / x.std(0),
        lambda x: jnp.linalg.qr(x)[1] @ x,
        lambda x: jax.nn.relu(x @ x) @ x,
    ],
)
def test_the_kernels_of_one_line_are_all_the_kernels(program, needs):
    made = [
        lazynb.compile(program, jax.ShapeDtypeStruct((64, 64), jnp.float32), target=target)
        for target in ("cpu", needs("h100"), needs("v5e"))
    ]
    kernels = [sum(cluster.is_kernel for cluster in one.clusters) for one in made]
    text, page = repr(shown := TargetComparison(made)), shown.to_html()
    unknown = "Kernels whose line is not known" in text
    assert ("Lines whose kernels differ" in text) == (len(set(kernels)) > 1) or unknown
    assert ("same lines share a kernel" in page) == ("Lines whose kernels differ" not in text)
    assert ("as far as their lines are known" in page) == (unknown and "same lines share a kernel" in page)
    for count in kernels:
        assert (
            unknown or len(set(kernels)) == 1 or (f"{count} kernels, alone" if count > 1 else "alone") in text
        )
    for finding in made[2].findings:
        assert not ("through memory" in finding.text and "VMEM" in finding.text)


def test_what_stays_in_vmem_does_not_go_through_memory(needs):
    def program(x, w):
        return jnp.tanh(x @ w) @ w

    for rows, between in [(256, 0), (1 << 16, 1)]:
        x, w = (jax.ShapeDtypeStruct((size, 1024), jnp.float32) for size in (rows, 1024))
        made = lazynb.compile(program, x, w, target=needs("v5e"))
        traffic = [one for one in made.findings if one.kind == "boundary"]
        assert bool(traffic) == bool(between), traffic
        for one in traffic:
            producer = made.traces[0].module.by_name[one.boundary[0]]
            assert memory_space(producer.shape) == 0 and "VMEM" not in one.text
