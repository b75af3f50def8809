"""Why an update is not in place.

The truth is counted in the text of the HLO: copies of the array, and arrays that are written, in the program and in
the same program without the supposed holder.
"""

from __future__ import annotations

import linecache
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.config import config
from lazynb.xla.evidence import INFERRED, VERIFIED

N = 1 << 18  # a MiB
UPDATES = [  # of `v`, and the name of the operation
    ("v.at[5].set(1.0)", "scatter"),
    ("v.at[jnp.arange(3)].add(1.0)", "scatter-add"),
    ("v.at[2:9].multiply(3.0)", "scatter-mul"),
    ("jax.lax.dynamic_update_slice(v, jnp.ones(3, v.dtype), (4,))", "dynamic_update_slice"),
    ("jax.lax.fori_loop(0, 9, lambda i, w: w.at[i].set(1.0), v)", "scan"),
    ("jax.lax.scan(lambda w, i: (w.at[i].add(1.0), i), v, jnp.arange(5))[0]", "scan"),
    (
        "jax.lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1].at[s[0]].set(0.0)), (0, v))[1]",
        "while",
    ),
]


def copies(compilation, size: int = N) -> int:
    """The copies of an array of ``size`` numbers, by the text of the last program."""
    text = compilation.hlo.after
    return len(re.findall(rf"= \w+\[{size}\]\S* copy\(", text))


def written(compilation) -> int:
    """The arrays of N numbers that the last program writes, outside of loops, by its text."""
    lines = compilation.hlo.after.partition("ENTRY ")[2].splitlines()
    found = [match for line in lines if (match := re.search(rf"= \w+\[{N}\]\S* ([\w-]+)\(", line))]
    return sum(match[1] not in ("parameter", "get-tuple-element", "bitcast") for match in found)


def copied(compilation):
    return [one for one in compilation.findings if one.kind == "copied"]


def compiled(program: str, size: int = N, dtype: str = "float32"):
    """The compilation of ``program``, which may use ``a``, older than the trace; and its variables."""
    names = {"jax": jax, "jnp": jnp, "np": np, "lazynb": lazynb, "__name__": "__main__"}
    names["a"] = jnp.arange(size, dtype=dtype) * 1
    jax.block_until_ready(names["a"])
    program += "\nk = lazynb.compile()"
    linecache.cache["<updates>"] = (len(program), None, program.splitlines(keepends=True), "<updates>")
    with lazynb.lazy():
        exec(compile(program, "<updates>", "exec"), names)
        lazynb.sync()
    return names["k"], names


@pytest.mark.parametrize("update, operation", UPDATES)
@pytest.mark.parametrize("held", ["v = jnp.cos(a)", "v = a\ndel a", "v = jnp.sort(a)"])
def test_an_update_of_a_held_array_copies_it(clean, held, update, operation):
    compilation, _kept = compiled(f"{held}\nb = {update}")
    without, _also = compiled(f"{held}\nb = {update}\ndel v")
    assert written(compilation) == written(without) + 1
    assert not copied(without)
    [finding] = copied(compilation)
    assert finding.variables == ("v",) and finding.bytes == 4 * N and finding.label == VERIFIED
    line = held.count("\n") + 2
    assert finding.text.startswith(f"`{operation}` of <updates>:{line} is not in place: `v` (1 MiB) is ")
    assert ("is copied first" in finding.text) == (copies(compilation) == copies(without) + 1)
    assert "`del v` before the run" in finding.text
    cause = "an argument that is not donated" if "del a" in held else "also a result of the program"
    assert cause in finding.text
    assert "Compiled again" in finding.verdict
    boundaries = {kernel for one in compilation.findings if one.kind == "boundary" for kernel in one.kernels}
    assert finding.kernels[0] not in boundaries


@pytest.mark.parametrize("update, operation", UPDATES)
@pytest.mark.parametrize("held", ["v = jnp.cos(a)", "v = jnp.sort(a)"])
def test_an_update_of_an_array_that_nobody_holds_is_no_finding(clean, held, update, operation):
    compilation, _kept = compiled(f"{held}\nv = {update}")
    assert copies(compilation) == 0 and not copied(compilation)


def test_an_array_with_two_holders_names_both(clean):
    compilation, _kept = compiled("v = jnp.sort(a)\nw = v\nb = v.at[3].set(1.0)")
    [finding] = copied(compilation)
    assert set(finding.variables) == {"v", "w"} and "`del v, w`" in finding.text
    one, _also = compiled("v = jnp.sort(a)\nw = v\nb = v.at[3].set(1.0)\ndel v")
    assert copies(one) == 1 and "`del w`" in copied(one)[0].text


def test_an_array_in_a_container_has_no_del(clean):
    compilation, _kept = compiled("state = {'v': jnp.sort(a)}\nb = state['v'].at[3].set(1.0)")
    [finding] = copied(compilation)
    assert (
        copies(compilation) == 1 and "del " not in finding.text and "a result of the program" in finding.text
    )


def test_two_updates_of_one_array(clean):
    compilation, _kept = compiled("v = jnp.sort(a)\nb = v.at[3].set(1.0)\nc = v.at[4].set(2.0)\ndel v")
    assert copies(compilation) == len(copied(compilation)) > 0
    for finding in copied(compilation):
        [own, other] = re.findall(r"`scatter` of <updates>:(\d)", finding.text)
        assert {own, other} == {"2", "3"} and finding.label == INFERRED and "del " not in finding.text


def test_an_array_that_another_line_reads(clean):
    compilation, _kept = compiled("v = jnp.sort(a)\nb = v.at[3].set(1.0)\nc = jnp.cumsum(v)\ndel v")
    unread, _also = compiled("v = jnp.sort(a)\nb = v.at[3].set(1.0)\nc = jnp.cumsum(a)\ndel v")
    assert (copies(compilation), copies(unread)) == (1, 0) and not copied(unread)
    [finding] = copied(compilation)
    assert finding.label == INFERRED and "because `cumsum` of <updates>:3 may read it" in finding.text
    assert "XLA copies an array before an operation overwrites it" in finding.text


def test_an_array_that_is_held_and_read(clean):
    compilation, _kept = compiled("v = jnp.sort(a)\nb = v.at[3].set(1.0)\nc = jnp.cumsum(v)")
    without, _also = compiled("v = jnp.sort(a)\nb = v.at[3].set(1.0)\nc = jnp.cumsum(v)\ndel v")
    assert copies(compilation) == copies(without) == 1  # so `del v` would not help
    [finding] = copied(compilation)
    assert "del " not in finding.text and "`cumsum`" in finding.text


def test_an_argument_that_is_donated_or_small(clean, monkeypatch):
    donated, _kept = compiled("b = a.at[3].set(1.0)\ndel a")
    assert copies(donated) == 0 and not copied(donated)
    small, _also = compiled("b = a.at[3].set(1.0)", size=10_000)
    [finding] = copied(small)
    assert copies(small, 10_000) == 1 and "not donated" in finding.text and "del " not in finding.text
    monkeypatch.setattr(config, "min_donated", 1000)
    lazynb.clear_cache()
    small, _also = compiled("b = a.at[3].set(1.0)", size=10_000)
    assert "`del a`" in copied(small)[0].text
    tiny, _also = compiled("v = jnp.sort(a)\nb = v.at[3].set(1.0)", size=100)
    assert copies(tiny, 100) == 1 and not copied(tiny)


def test_a_value_that_was_asked_for_has_no_del(clean):
    x = jnp.ones(N)
    with lazynb.lazy():
        v = jnp.sort(x)
        b = v.at[3].set(1.0)
        asked, one = lazynb.compile(v, b), lazynb.compile(b)
    [finding] = copied(asked)
    assert "also a result" in finding.text and "del " not in finding.text
    assert "`del v`" in copied(one)[0].text
    del v


def test_a_function_is_told_of_its_own_means(clean):
    x = jnp.ones(N)
    [argument] = copied(lazynb.compile(lambda v: v.at[3].set(1.0), x))
    assert "donate_argnums" in argument.text and "del " not in argument.text

    def both(v):
        w = jnp.sort(v)
        return w, w.at[3].set(1.0)

    [result] = copied(lazynb.compile(both, x))
    assert "also a result" in result.text and "del " not in result.text
    assert not copied(lazynb.compile(lambda v: jnp.sort(v).at[3].set(1.0), x))
    [jitted] = copied(lazynb.compile(lambda v: v.at[3].set(1.0), x, as_jit=True))
    assert "donate_argnums" in jitted.text and copies(lazynb.compile(lambda v: v * 2, x)) == 0


def test_the_text_and_the_json_have_it(clean):
    from lazynb.report.inspection.inspection_data import inspection

    compilation, _kept = compiled("v = jnp.sort(a)\nb = v.at[3].set(1.0)")
    told = [one["text"] for one in inspection(compilation)["findings"] if one["kind"] == "copied"]
    assert told == [copied(compilation)[0].text]
    assert "is not in place" in repr(compilation.findings)


def test_copies_of_other_kinds_are_no_finding(clean):
    for program in ("b = jnp.copy(a) + a", "b = jnp.ones((64, 64)).T.copy()", "v = jnp.cos(a)\nb = v * 2"):
        assert not copied(compiled(program)[0])
