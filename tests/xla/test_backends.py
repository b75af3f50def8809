"""The rules of a backend: XLA:CPU's are the ones that lazynb knows, and of another it says that it does not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.report.inspection.inspection_data import inspection
from lazynb.running.trace_executable import Executable
from lazynb.xla.fusion import boundaries
from lazynb.xla.fusion.backend_rules import BackendRules, GpuRules, TpuRules, UnknownBackendRules
from lazynb.xla.fusion.boundaries import boundary_by_words, find_boundaries, rules_of
from lazynb.xla.fusion.boundary_experiments import NotTestable
from lazynb.xla.fusion.boundary_reasons import REASONS
from lazynb.xla.fusion.cluster_edges import find_edges
from lazynb.xla.fusion.cpu_rules import CpuRules
from lazynb.xla.hlo.clusters import find_clusters
from lazynb.xla.hlo.module import parse


def softmax_module():
    compiled = jax.jit(lambda x: jax.nn.softmax(x @ x)).lower(jnp.ones((16, 16))).compile()
    return parse(compiled.as_text())


def loop_module():
    def run(x):
        return jax.lax.fori_loop(0, 5, lambda step, y: jnp.tanh(y @ x), x).sum()

    return parse(jax.jit(run).lower(jnp.ones((16, 16))).compile().as_text())


def compiled_softmax():
    x = jnp.ones((64, 32))
    with lazynb.lazy():
        y = jax.nn.softmax(jnp.sin(x))  # noqa: F841
        return lazynb.compile()


def test_a_compilation_has_the_rules_of_its_backend(clean):
    [trace] = compiled_softmax().traces
    assert type(trace.rules) is CpuRules and jax.default_backend() == "cpu"


@pytest.mark.parametrize("make", [softmax_module, loop_module])
@pytest.mark.parametrize("platform", ["gpu", "tpu", "a chip of next year"])
def test_an_unknown_backend_has_boundaries_without_reasons(make, platform):
    module = make()
    rules = rules_of(platform, module)
    clusters = find_clusters(module)
    found = find_boundaries(rules, clusters, lambda result: ("y",))
    known = find_boundaries(CpuRules(module), clusters, lambda result: ("y",))
    assert [(one.producer, one.consumer, one.bytes) for one in found] == [
        (one.producer, one.consumer, one.bytes) for one in known
    ]
    assert {one.code for one in found} <= {rules.unknown, "loop-carry", "result"}
    unexplained = [one for one in found if one.code == rules.unknown]
    assert unexplained
    for one in unexplained:
        assert one.label == "not known" and one.verify == "each-cause" and not one.variables
        assert one.text in (REASONS["no-rules"].text, REASONS["silent"].text)


def test_loop_carried_boundaries_are_found_on_an_unknown_backend():
    module = loop_module()
    found = find_boundaries(UnknownBackendRules(module), find_clusters(module), lambda result: ())
    known = find_boundaries(CpuRules(module), find_clusters(module), lambda result: ())
    carried = [one for one in known if one.code == "loop-carry"]
    assert carried and [one for one in found if one.code == "loop-carry"] == carried


def test_an_unknown_compilers_words_are_shown_and_not_interpreted():
    module = softmax_module()
    edge = find_edges(module, find_clusters(module), lambda result: ())[0]
    boundary = boundary_by_words(edge, UnknownBackendRules(module), "expensive producer would be duplicated")
    assert boundary.code == "other" and boundary.label == "compiler said"
    assert boundary.said == "expensive producer would be duplicated"
    assert boundary_by_words(edge, CpuRules(module), boundary.said).code != "other"


def test_the_inspector_says_that_the_rules_are_not_known(clean, monkeypatch):
    monkeypatch.setattr(Executable, "platform", "a chip of next year")
    compilation = compiled_softmax()
    data = inspection(compilation)
    between = [one for one in data["boundaries"] if one["consumer"] is not None]
    assert between and {one["code"] for one in between} == {"no-rules"}
    assert all("does not know by which rules" in one["text"] for one in between)
    boundary = next(one for one in compilation.boundaries if one.consumer)
    try:
        verified = compilation.verify(boundary)
        assert verified.code == "no-rules" or verified.label == "verified by recompiling"
    except NotTestable as error:
        assert "taken away" in str(error) or "nothing to take away" in str(error)


class EverythingIsACopy(BackendRules):
    """A backend whose rules are short."""

    reasons = {code: REASONS[code] for code in ("result", "copy")}

    def code_of(self, edge):
        return "copy"

    def meaning(self, edge, words):
        return "copy"

    def label(self, code, words):
        return "rule inferred"

    def keeping_alive(self, edge):
        return None


def test_a_backend_is_a_class_and_a_line_of_the_table(clean, monkeypatch):
    monkeypatch.setitem(boundaries.BACKENDS, "new", EverythingIsACopy)
    monkeypatch.setattr(Executable, "platform", "new")
    compilation = compiled_softmax()
    assert {one.code for one in compilation.boundaries} == {"result", "copy"}


def test_a_backend_without_knobs_makes_no_experiment_of_xla_cpus(clean, monkeypatch):
    """The options that take a cause away are the backend's: XLA:CPU's are not set for another."""
    monkeypatch.setattr(CpuRules, "without_library", {})
    a = jnp.ones((128, 128))
    with lazynb.lazy():
        y = jnp.tanh(a.sum(1))  # noqa: F841
        compilation = lazynb.compile()
        [boundary] = [one for one in compilation.boundaries if one.code == "library-producer"]
        with pytest.raises(NotTestable, match="no code of its own"):
            compilation.verify(boundary)


BACKENDS = [CpuRules, GpuRules, TpuRules, UnknownBackendRules]


@pytest.mark.parametrize("rules", BACKENDS)
def test_the_reasons_of_a_backend_are_entries_of_the_table(rules):
    assert set(rules.reasons) <= set(REASONS) and "result" in rules.reasons
    assert all(rules.reasons[code] is REASONS[code] for code in rules.reasons)


def test_each_reason_of_the_table_is_one_of_a_backend():
    assert set().union(*(rules.reasons for rules in BACKENDS)) == set(REASONS)
