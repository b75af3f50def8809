"""``print`` of what the public functions give, and of what lies in it, is a text and never an address."""

from __future__ import annotations

import contextlib
import types

import jax.numpy as jnp
import pytest

import lazynb

BORING = (str, bytes, int, float, type, types.ModuleType, lazynb.LazyTensor, type(None))


@pytest.fixture
def results(clean):
    x = jnp.ones((8, 8))
    with lazynb.lazy():
        y = jnp.tanh(x) * 2 + 1
        graph, compilation = lazynb.graph(y), lazynb.compile(y)
    jitted = lazynb.compile(lambda x: jnp.tanh(x).sum(), x, as_jit=True)
    held = lazynb.budget(breaks=2, bytes="1 GiB")
    begun = lazynb.budget(compiles=3)
    with begun, lazynb.lazy():
        float(jnp.sin(x).sum())
    with pytest.raises(lazynb.BudgetExceeded) as over, lazynb.budget(breaks=0), lazynb.lazy():
        float(jnp.sin(x).sum())
    return {
        "graph": graph,
        "compile": compilation,
        "as_jit": jitted,
        "diff": lazynb.diff(compilation, jitted),
        "numerics": lazynb.numerics(jnp.tanh, x),
        "explain": lazynb.explain(lambda x: float(jnp.tanh(x).sum()), x),
        "breaks": lazynb.breaks(),
        "events": lazynb.events(),
        "cache_info": lazynb.cache_info(),
        "budgets": [held, begun, over.value],
        "blocks": [lazynb.lazy(), lazynb.lazy(strict=True), lazynb.eager()],
        "inspect": lazynb.inspect(compilation),
        "config": lazynb.config,
    }


def walk(name, value, depth, seen):
    """Objects of lazynb in ``value``, with how to reach them."""
    if isinstance(value, BORING) or id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for number, one in enumerate(value[:3]):
            yield from walk(f"{name}[{number}]", one, depth, seen)
    if not type(value).__module__.startswith("lazynb"):
        return
    yield name, value
    for attribute in () if depth == 0 else sorted(set(dir(value)) - {"sync"}):
        one = None
        if attribute[0] != "_":
            with contextlib.suppress(RuntimeError):  # what a budget used, before it begins
                one = getattr(value, attribute)
        if not callable(one):
            yield from walk(f"{name}.{attribute}", one, depth - 1, seen)


def test_no_public_object_prints_an_address(results):
    found = [one for name, value in results.items() for one in walk(name, value, 2, {})]
    assert len(found) > 60
    for name, value in found:
        for text in (str(value), repr(value)):
            assert " at 0x" not in text and text.strip(), f"{name}: {text[:200]}"


def test_what_is_printed_says_what_it_is(results):
    words = {
        "graph": "3 operations pending",
        "compile": "Compilation(3 operations",
        "as_jit": "as jax.jit",
        "diff": "kernel",
        "numerics": "equal",
        "explain": "1 trace break",
        "breaks": "trace break",
        "events": "location",
        "cache_info": "executable",
        "inspect": "operations → ",
    }
    assert [name for name, said in words.items() if said not in str(results[name])] == []


def test_a_budget_tells_its_limits_and_what_was_counted(results):
    held, begun, over = map(str, results["budgets"])
    assert held == f"lazynb.budget(breaks=2, bytes={1 << 30}): not begun"
    assert begun == "lazynb.budget(compiles=3): 1 compilation, 1 trace break in the block"
    assert over.startswith("over budget: ")
    assert [str(one).partition(":")[0] for one in results["blocks"]] == [
        "lazynb.lazy()",
        "lazynb.lazy(strict=True)",
        "lazynb.eager()",
    ]


def test_an_inspector_prints_its_static_form_before_its_data_are_computed(results):
    widgets = pytest.importorskip("lazynb.notebook.inspector_widget")
    compilation, forms = results["compile"], results["inspect"]._repr_mimebundle_()
    waiting = widgets.Inspector(compilation, {}, {"text/plain": repr(compilation)})
    waiting.complete_when_shown(lambda part: {}, lambda data: forms)
    assert repr(waiting) == repr(compilation)  # a front end asks for it: nothing is computed
    assert str(waiting) == forms["text/plain"] != repr(waiting)
    for ready in (widgets.Inspector(compilation), widgets.Inspector(compilation, static=forms)):
        assert "operations → " in str(ready) and repr(ready) == str(ready)
