"""The table of trace break reasons: for each entry a program that has it, and one without, both run as they
stand."""

from __future__ import annotations

import copy
import linecache
import re
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb import jax_compat as jc
from lazynb.compare.misses.miss_causes import CAUSES
from lazynb.config import config
from lazynb.recording.break_examples import EXAMPLES, PRELUDE
from lazynb.recording.break_reasons import REASONS, find
from lazynb.running import break_hints

ELSEWHERE = {"compile", "hosts_differ"}
"""Those that a program alone does not have: tests/notebook/test_breaks_magic.py and tests/hosts run them."""


def run(program: str, name: str) -> tuple[dict, lazynb.Breaks]:
    """Runs a program of the table; its variables and breaks."""
    file = f"<{name}>"
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    variables: dict = {}
    exec(PRELUDE, variables)
    lazynb.sync()
    lazynb.clear_cache()
    with lazynb.lazy():
        exec(compile(program, file, "exec"), variables)
    return variables, lazynb.breaks()


def numbers(value) -> np.ndarray:
    array = np.array(jax.tree.map(np.asarray, value))
    return array.astype(float) if array.dtype == object else array


@pytest.fixture
def program_settings(monkeypatch):
    """The programs of some entries set limits."""
    for name in ("max_program", "max_pending"):
        monkeypatch.setattr(config, name, getattr(config, name))


def test_no_code_is_shared_by_two_breaks_or_misses():
    codes = [one.code for table in (REASONS, CAUSES) for one in table.values()]
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("kind", sorted(set(REASONS) - ELSEWHERE))
def test_the_example_has_this_break_and_the_cure_has_not(kind, clean, program_settings, capsys):
    if "matplotlib" in EXAMPLES[kind][0]:
        pytest.importorskip("matplotlib")
    reason = REASONS[kind]
    broken, found = run(reason.example, f"{kind} example")
    others = {one.kind for one in found} - {kind}
    assert (kind, others - {"sync"}) == (kind, set()), found
    here = [one for one in found if one.kind == kind]
    hints = {reason.hint, *(one.hint for one in break_hints._HINTS if one.kind == kind)}
    assert here and all(one.code == reason.code and one.hint in hints for one in here)
    assert all(one.location.text in reason.example for one in here)
    cured, after = run(reason.cure, f"{kind} cure")
    left = sum(one.count for one in after if one.kind == kind)
    assert left < sum(one.count for one in here) if reason.explicit else left == 0, after
    assert all(REASONS[one.kind].explicit for one in after)
    if "out" in broken and "out" in cured:
        np.testing.assert_allclose(numbers(broken["out"]), numbers(cured["out"]), rtol=1e-6)
    else:
        assert kind == "devices"  # its example is an error to eager JAX too


def test_every_reason_has_programs_and_every_program_a_reason():
    assert set(REASONS) == set(EXAMPLES)
    for kind, (example, cure) in EXAMPLES.items():
        assert example != cure
        if kind != "compile":
            compile(example, kind, "exec"), compile(cure, kind, "exec")


def test_codes_are_unique_well_formed_and_stay_what_they_are():
    codes = [reason.code for reason in REASONS.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"LNB\d{3}", code) for code in codes)
    assert all(reason.text and reason.hint for reason in REASONS.values())
    old = "bool float index item print asarray pickle sync effect"
    assert {kind: REASONS[kind].code for kind in old.split()} == {
        "bool": "LNB101",
        "float": "LNB103",
        "index": "LNB105",
        "item": "LNB106",
        "print": "LNB108",
        "asarray": "LNB110",
        "pickle": "LNB112",
        "sync": "LNB201",
        "effect": "LNB301",
    }


def test_a_reason_explains_itself():
    text = str(find("lnb103"))
    assert text.startswith("LNB103 float: float() needed a value.\nInstead: ")
    assert textwrap.indent(REASONS["float"].example, "    ").rstrip() in text
    assert textwrap.indent(REASONS["float"].cure, "    ").rstrip() in text
    page = find("format")._repr_html_()
    assert "LNB109" in page and "{out.sum():.3f}" in page and "&quot;step" in page


def test_find_takes_codes_and_kinds_and_suggests_similar_ones():
    assert find(" LNB101 ") is find("bool") is REASONS["bool"]
    with pytest.raises(ValueError, match="'floot'; there are float"):
        find("floot")
    with pytest.raises(ValueError, match=r"'LNB999'; there are"):
        find("LNB999")


# ---- what stays lazy: what Python's data model and jax.Array offer without a value -------------------------


def x():
    return jnp.arange(3.0) * 2


STAYS_LAZY = {
    "iteration": lambda: [value + 1 for value in x()],
    "unpacking": lambda: (lambda a, b, c: a + b * c)(*x()),
    "reversed": lambda: list(reversed(x())),
    "sum": lambda: sum(x()),
    "len": lambda: len(x()),
    "abs, round, divmod, pow": lambda: (abs(x()), round(x().sum(), 1), divmod(x(), 2.0), pow(x(), 2)),
    "copy": lambda: (copy.copy(x()), copy.deepcopy({"x": x()}), x().copy()),
    "repr": lambda: (repr(x()), f"{x()!r}", str([x()])),
    "dir and isinstance": lambda: (dir(x()), isinstance(x(), jax.Array), hasattr(x(), "columns")),
    "metadata": lambda: (
        x().shape,
        x().dtype,
        x().ndim,
        x().size,
        x().nbytes,
        x().itemsize,
        x().weak_type,
        x().aval,
    ),
    "placement": lambda: (x().sharding, x().device, x().devices(), x().committed, x().is_fully_addressable),
    "np.shape": lambda: (np.shape(x()), np.ndim(x()), np.size(x())),
    "state": lambda: (x().is_ready(), x().is_deleted(), x().copy_to_host_async()),
    "indexing": lambda: (x()[jnp.argmax(x())], x().at[jnp.argmax(x())].set(0.0)),
    "trees": lambda: jax.tree.map(lambda leaf: leaf + 1, {"a": x(), "b": [x()]}),
    "jax.lax.cond": lambda: jax.lax.cond(x().sum() > 0, lambda: 1.0, lambda: 2.0),
    "a host array on the left": lambda: np.ones(3, np.float32) + x(),
    "an array of tensors": lambda: jnp.array([x().sum(), 1.0]),
    "allclose": lambda: jnp.allclose(x(), x()),
    "random keys": lambda: [jax.random.normal(key) for key in jax.random.split(jax.random.key(0))],
    "eval_shape": lambda: jax.eval_shape(lambda v: v + 1, x()),
}
REFUSED = {
    "hash": lambda: hash(x()),
    "set": lambda: {x()},
    "key": lambda: {x(): 1},
    "bool of many": lambda: bool(x()),
    "float of many": lambda: float(x()),
    "index of a float": lambda: [1][x()[0]],
    "in, of a row": lambda: x() in x(),
    "in, of text": lambda: "a" in x(),
    "no such attribute": lambda: x().columns,
    "iteration over a scalar": lambda: list(x().sum()),
}


@pytest.mark.parametrize("name", STAYS_LAZY)
def test_each_listed_operation_stays_lazy(name, clean):
    with lazynb.lazy():
        STAYS_LAZY[name]()
    assert not lazynb.breaks() and not lazynb.events()


@pytest.mark.parametrize("name", REFUSED)
def test_what_jax_refuses_runs_nothing(name, clean):
    with pytest.raises(Exception) as eager:
        REFUSED[name]()
    with lazynb.lazy(), pytest.raises(type(eager.value)):
        REFUSED[name]()
    assert not lazynb.breaks() and not lazynb.events()


NEEDS_A_VALUE = {"addressable_shards", "global_shards", "traceback", "format", "clone", "unsafe_raw_buffer"}


def test_every_attribute_of_an_array_has_a_reason_or_stays_lazy(clean):
    """To read it; what a method does when it is called is another matter."""
    needed = set()
    for name in dir(jc.ArrayImpl):
        if name.startswith("_") and name not in (
            "__array__",
            "__cuda_array_interface__",
            "__array_namespace__",
            "_committed",
        ):
            continue
        lazynb.clear_cache()
        with lazynb.lazy():
            tensor = x()
            try:
                getattr(tensor, name)
                raised = None
            except Exception as error:
                raised = str(error)
        try:
            getattr(jnp.ones(3), name)
            eager = None
        except Exception as error:
            eager = str(error)
        assert raised == eager, name
        needed |= {name} if lazynb.breaks() else set()
        assert all(one.kind == "attribute" and one.detail == name for one in lazynb.breaks())
        del tensor
    assert needed <= NEEDS_A_VALUE and "addressable_shards" in needed


def test_the_device_of_a_pending_value_is_known_without_a_break(clean):
    device = jax.devices()[1]
    with lazynb.lazy():
        tensor = jax.device_put(np.ones(3, np.float32), device) * 2
        assert (tensor.device, tensor.devices(), tensor.platform()) == (device, {device}, device.platform)
        assert x().platform() == jax.devices()[0].platform and not hasattr(x(), "__cuda_array_interface__")
    assert not lazynb.breaks()


def test_each_membership_test_is_a_contains_break(clean):
    with lazynb.lazy():
        v = jnp.array([1.0, jnp.nan, 3.0])
        assert 3.0 in v and v[0] in v and 5 not in v and jnp.nan not in v
    assert {(one.kind, one.count) for one in lazynb.breaks()} == {("contains", 4)}
