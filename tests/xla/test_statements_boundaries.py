"""Each statement about the boundaries of random programs, held against readings that share no code with lazynb's:
which there are, what goes over them, whose words are given for them, and what an experiment showed.

``LAZYNB_EXAMPLES`` is the number of programs.
"""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from jax import lax
from xla import plain_crossing, plain_hlo
from xla.test_verifications import tried

import lazynb
from lazynb.xla.evidence import COMPILER, LABELS, UNKNOWN, VERIFIED
from lazynb.xla.fusion import fusion_log

EXAMPLES = int(os.environ.get("LAZYNB_EXAMPLES", "12"))
ROWS, COLUMNS = 96, 160
INPUTS = [np.random.default_rng(seed).normal(size=(ROWS, COLUMNS)).astype(np.float32) for seed in range(2)]


def recurrence(a):
    return lax.scan(lambda carry, row: (carry * 0.5 + row, carry), a[0], a)[1]


@jax.jit
def twice_tanh(a):
    return jnp.tanh(jnp.tanh(a) * 2)


UNARY = {
    "exp": lambda a: jnp.exp(-jnp.abs(a)),
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "square": lambda a: a * a,
    "softmax": lambda a: jax.nn.softmax(a, -1),
    "less_mean": lambda a: a - a.mean(1, keepdims=True),
    "less_largest": lambda a: a - a.max(0),
    "by_norm": lambda a: a / (1 + jnp.abs(a).sum()),
    "normalized": lambda a: (a - a.mean(-1, keepdims=True)) / (a.std(-1, keepdims=True) + 1e-5),
    "turned": lambda a: a.T.reshape(a.shape),
    "reversed": lambda a: a[::-1],
    "rolled": lambda a: jnp.roll(a, 1, 0),
    "sorted": lambda a: jnp.sort(a, axis=0),
    "accumulated": lambda a: a.cumsum(1),
    "rounded": lambda a: a.astype(jnp.bfloat16).astype(jnp.float32),
    "integers": lambda a: (a.astype(jnp.int32) * 3).astype(a.dtype),
    "placed": lambda a: a.at[3].add(1.0),
    "taken": lambda a: a[jnp.argsort(a[:, 0])],
    "largest": lambda a: a + jnp.argmax(a, 1)[:, None],
    "product": lambda a: a @ (a.T @ a),
    "scanned": recurrence,
    "function": twice_tanh,
    "complex": lambda a: jnp.abs(a + 1j * a),
    "random": lambda a: a + jax.random.normal(jax.random.key(3), a.shape),
}
BINARY = {
    "add": jnp.add,
    "multiply": jnp.multiply,
    "where": lambda a, b: jnp.where(a > b, a, b),
    "joined": lambda a, b: jnp.concatenate([a, b])[ROWS // 2 : ROWS // 2 + ROWS],
    "attended": lambda a, b: jax.nn.softmax(a @ b.T) @ b,
    "weighted": lambda a, b: a * b.sum(0),
}
STEP = st.tuples(st.sampled_from(sorted(UNARY | BINARY)), st.integers(0, 5), st.integers(0, 5))


def build(steps, values):
    """The values of a program whose steps choose an operation and which of the last values enter it."""
    for name, first, second in steps:
        one, other = (values[-1 - number % len(values)] for number in (first, second))
        values.append(UNARY[name](one) if name in UNARY else BINARY[name](one, other))
    return values


def compiled(steps, kept: int):
    lazynb.clear_cache()
    with lazynb.lazy():
        wanted = build(steps, list(map(jnp.asarray, INPUTS)))[-kept:]
        return lazynb.compile(wanted)


@pytest.mark.full
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=1, max_size=8), st.integers(1, 3), st.integers(0, 99))
def test_each_statement_about_boundaries_of_random_programs_is_correct(steps, kept, chosen):
    compilation = compiled(steps, kept)
    if not compilation.traces:
        return
    [trace] = compilation.traces
    inferred = list(compilation.boundaries)
    check_ends(trace.text, inferred)
    check_arrays(trace.text, inferred)
    check_words(compilation, trace)
    assert all(one.label in LABELS for one in compilation.boundaries)
    between = [one for one in compilation.boundaries if one.consumer and one.verify]
    if between:
        check_experiment(tried(compilation, trace, between[chosen % len(between)]))


def check_ends(text: str, boundaries) -> None:
    """There is one for each pair of kernels of which one reads the other, and for each other kernel's result."""
    pairs, results, _ = plain_hlo.edges(text)
    assert sorted((one.producer, one.consumer) for one in boundaries if one.consumer) == sorted(pairs)
    kernels = {name for name, _, _ in plain_hlo.kernels(text)}
    ends = results & kernels - {producer for producer, _ in pairs}
    assert sorted(one.producer for one in boundaries if not one.consumer) == sorted(ends)


def check_arrays(text: str, boundaries) -> None:
    """Shape and bytes are those of the arrays that the consumer takes from the producer."""
    tables = {name: plain_hlo.table_of(lines) for name, lines in plain_hlo.blocks(text).items()}
    where = {name: block for name, _, block in plain_hlo.kernels(text)}
    for one in boundaries:
        if one.consumer:
            table = tables[where[one.consumer]]
            taken = plain_hlo.operands(table, one.consumer)
            arrays = {leaf for operand in taken for leaf in plain_hlo.leaves(table, operand)}
            read = [leaf for leaf in arrays if plain_hlo.maker(table, leaf) == one.producer]
            assert one.bytes == sum(plain_hlo.size(table[leaf][0]) for leaf in read)
            assert all(table[leaf][0] in one.shape for leaf in read)


# ---- the compiler's words ----------------------------------------------------------------------------------

REFUSED = re.compile(r"Not fusing \|([^|]+)\| into \|([^|]+)\| as (.*)", re.DOTALL)


def refusals(folder: Path) -> set[tuple[str, str, str]]:
    """What XLA's log says, in its own names and words."""
    lines: list[str] = []
    for page in folder.glob("*_fusion.html"):
        text = page.read_text(errors="replace")
        lines += [
            json.loads(found, strict=False) for found in re.findall(r'"Not fusing (?:[^"\\]|\\.)*"', text)
        ]
    for archive in folder.glob("*_fusion.pyz"):
        content = zipfile.ZipFile(io.BytesIO(archive.read_bytes())).read("fusions.db")
        with sqlite3.connect(":memory:") as database:
            database.deserialize(content)
            lines += [label for (label,) in database.execute("SELECT label FROM frames")]
    return {found.groups() for line in lines if (found := REFUSED.match(line))}


def check_words(compilation, trace) -> None:
    """What is given as the compiler's words stands in its log, about instructions of these two kernels."""
    logged: set[tuple[str, str, str]] = set()
    read = fusion_log.read_decisions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            fusion_log,
            "read_decisions",
            lambda dump: logged.update(refusals(dump.directory)) or read(dump),
        )
        said = compilation.ask()
    lines = plain_hlo.blocks(trace.text)
    for one in said:
        assert one.said or one.label != COMPILER
        if one.said:
            producer, consumer = stems(lines, one.producer), stems(lines, one.consumer)
            assert any(
                stem(a) in producer and stem(b) in consumer and words.startswith(one.said)
                for a, b, words in logged
            ), (one, producer, consumer)


def stems(lines, kernel: str) -> set[str]:
    """The names in a kernel, and its own, without the numbers that XLA gives to copies."""
    [own] = [
        line
        for block in lines.values()
        for line in block
        if line.strip().removeprefix("ROOT ").startswith(f"%{kernel} = ")
    ]
    inside = [line for block in plain_hlo.called(own) for line in lines[block]]
    return {stem(plain_hlo.LINE.match(line)[1]) for line in [own, *inside]}


def stem(name: str) -> str:
    return re.sub(r"(\.clone|\.\d+|#\d+|\.remat)+$", "", name)


# ---- experiments -------------------------------------------------------------------------------------------


def check_experiment(one) -> None:
    if one.after is None:
        return
    assert (one.after.label == VERIFIED) == (one.outcome in ("gone", "next"))
    assert (one.after.label == UNKNOWN) == (one.after.code == "refuted")
    wanted = [True] * (len(one.recompiled) - 1) + [one.after.label != VERIFIED]
    for text, stays in zip(one.recompiled, wanted, strict=True):
        found = plain_crossing.still_crosses(one.text, one.before.producer, one.before.consumer, text)
        assert found in (stays, None), (one.ends, one.after)
