"""Labels of reasons: what each fact of a sentence rests on, and that no sentence says more than its evidence."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xla import plain_hlo

import lazynb
from lazynb.xla.evidence import COMPILER, INFERRED, UNKNOWN, VERIFIED
from lazynb.xla.fusion import cpu_fusion_pass
from lazynb.xla.fusion.boundary_reasons import REASONS

# ---- what each sentence needs ------------------------------------------------------------------------------
# A fact and what it rests on: the compiler's words, a rule of XLA, the HLO, or the experiment. A sentence has
# the label of its weakest fact.

WORDS, RULE, HLO, EXPERIMENT, NOTHING = "words", "rule", "hlo", "experiment", "nothing"
FACTS = {
    "result": {"it is a result": HLO},
    "kept-alive": {
        "the value is a result, for a variable": HLO,
        "so it is written": RULE,
        "without it: fused": EXPERIMENT,
    },
    "reader-kept-alive": {"two kernels read it, one for a variable": HLO, "so it is written": RULE},
    "returned": {"the value is a result of the function": HLO, "so it is written": RULE},
    "reader-returned": {"two kernels read it, one for a result": HLO, "so it is written": RULE},
    "several-users": {"reads more than it writes": RULE, "some reader cannot compute it": RULE},
    "shifted-exponential": {"a maximum and an exponential read it": HLO, "that is why": RULE},
    "expensive-several-users": {"it is expensive": WORDS, "it would be computed more than once": WORDS},
    "expensive-reused": {"it is expensive": RULE, "the reader may read elements more than once": RULE},
    "reduction-reused": {"it is a reduction": HLO, "the reader may read elements more than once": RULE},
    "library-consumer": {"the library is there": HLO, "it takes operands from memory": RULE},
    "library-shared": {"the library is there": HLO, "it would compute the operand": RULE},
    "library-producer": {"the library is there": HLO, "it writes to memory": RULE},
    "producer-not-fusible": {"XLA does not compute it in another's loop": WORDS},
    "consumer-not-fusible": {"XLA fuses nothing into it": RULE},
    "loop-carry": {"one end is a loop, branch or call": HLO},
    "concatenate": {"it has many parts or long rows": RULE},
    "recomputed": {"it is needed at several places": RULE, "its code cannot be shared": RULE},
    "size-limit": {"code would be repeated too often": WORDS},
    "many-reductions": {"too many reductions": WORDS},
    "in-place": {"the reader writes in place": HLO, "the writer has to finish first": RULE},
    "copy": {"an instruction is a copy": HLO},
    "all-or-none": {"XLA noted why": WORDS},
    "slower-fused": {"as long or longer as one kernel": WORDS},
    "asynchronous": {"start and end are two instructions": HLO},
    "other": {"XLA's words": WORDS},
    "no-rules": {"nothing is claimed": NOTHING},
    "silent": {"nothing is claimed": NOTHING},
    "read-elsewhere": {"others read it": HLO, "with a copy: fused": EXPERIMENT, "that is why": RULE},
    "pair": {"two kernels even alone": EXPERIMENT},
    "shared": {"alone one kernel, with others two": EXPERIMENT},
    "around": {"alone one kernel": EXPERIMENT},
    "transfer": {"an instruction copies to another memory": HLO},
    "layout": {"the two ends have other layouts": HLO},
    "prescribed-layout": {"with free layouts: fused": EXPERIMENT},
    "precision": {"with the default: fused": EXPERIMENT},
    "unknown": {"nothing is claimed": NOTHING},
    "refuted": {"the boundary stayed": EXPERIMENT},
}
XLAS_WORDS = [
    words
    for name, words in vars(cpu_fusion_pass).items()
    if name.isupper() and isinstance(words, str) and words
] + ["fused 3 µs, apart 2 µs", "the consumer is a custom call"]


@pytest.mark.parametrize("code", REASONS)
def test_the_label_is_that_of_the_weakest_fact(code):
    reason, needs = REASONS[code], set(FACTS[code].values())
    assert bool(reason.words) == (needs == {WORDS})
    assert bool(reason.rule) == (
        bool(needs & {RULE, HLO})
        or code in ("producer-not-fusible", "expensive-several-users", "size-limit", "many-reductions")
    )
    assert reason.label(None) == (INFERRED if reason.rule else UNKNOWN)
    for words in XLAS_WORDS:
        assert (reason.label(words) == COMPILER) == (
            needs == {WORDS} and bool(re.search(reason.words, words))
        )
    if reason.verify and reason.verify != "each-cause" and not reason.is_fact:
        # What the experiment removes is what the sentence names; else a weaker sentence is shown.
        assert reason.shown in ("", "read-elsewhere")
        assert bool(reason.shown) == (
            reason.verify == "only-this-user" and code not in ("read-elsewhere", "library-shared")
        )


def test_every_reason_has_its_facts():
    assert FACTS.keys() == REASONS.keys()


# ---- programs ----------------------------------------------------------------------------------------------

ROWS = np.random.default_rng(3).normal(size=(48, 64)).astype(np.float32)


def between(make):
    """The boundaries between two kernels of a program, with the compilation; its variables stay alive."""
    with lazynb.lazy():
        kept = make(jnp.asarray(ROWS))
        compilation = lazynb.compile()
    del kept
    compilation.ask()
    return compilation, [one for one in compilation.boundaries if one.consumer]


REUSED = {
    "windows that do not overlap": ("reduce-window", lambda x: jnp.exp(x.reshape(-1)).sum()),
    "a pool": (
        "reduce-window",
        lambda x: jax.lax.reduce_window(jnp.tanh(x), -9.0, jax.lax.max, (2, 2), (2, 2), "VALID"),
    ),
    "a gather": ("gather", lambda x: jnp.tanh(x)[jnp.array([3, 1, 3])]),
    "a row for each row": ("broadcast", lambda x: x - jnp.tanh(x[0])),
    "a divisor": ("broadcast", lambda x: x / jnp.exp(x[:, :1])),
    "a cumulative sum": ("reduce-window", lambda x: jnp.cumsum(jnp.exp(x), 1)),
}


@pytest.mark.parametrize("name", REUSED)
def test_reuse_is_said_of_the_operation_that_xla_takes_for_one(name):
    """XLA's log says "Fusion is not profitable." and no more: that elements are read again is its table's claim."""
    opcode, make = REUSED[name]
    _, found = between(make)
    for one in found:
        if one.code in ("expensive-reused", "reduction-reused"):
            assert f"for XLA `{opcode}` is" in one.text and "may read" in one.text, one
            assert one.label == INFERRED and one.rule and one.said in ("", "Fusion is not profitable.")
        assert "reads each of its elements" not in one.text and "many times" not in one.text


def product(x):
    a = jnp.tanh(x) * 2
    return a, a + 1


def both(x):
    t = jnp.tanh(x)
    return t, t * 2


def third(x):
    e = jnp.exp(x)
    d = e * 2
    return d, d + 1, jnp.sqrt(d)


def reduced(x):
    t = jnp.sin(x)
    m = t.max(1)
    return m, t - m[:, None]


def shifted(x):
    a = jnp.log(jnp.abs(x) + 1)
    b = a[:, 1:]
    del a
    return b, b + 1


def halves(x):
    t = jnp.cos(x)
    left, right = t[:, :32], t[:, 32:]
    return left, left + right


@pytest.mark.parametrize("make", [product, both, third, reduced, shifted, halves])
def test_what_is_written_for_a_variable_is_its_value(make):
    compilation, found = between(make)
    [trace] = compilation.traces
    table = plain_hlo.table_of(plain_hlo.blocks(trace.text)["ENTRY"])
    root = next(line for line in plain_hlo.blocks(trace.text)["ENTRY"] if line.strip().startswith("ROOT"))
    [name] = re.findall(r"%(\S+) = ", root)
    results = plain_hlo.leaves(table, name)
    for one in found:
        if "is written to memory for it" in one.text:
            assert one.producer in {plain_hlo.maker(table, leaf) for leaf in results}, one
        if one.code == "kept-alive" and one.producer not in {
            plain_hlo.maker(table, leaf) for leaf in results
        }:
            assert "the kernel that computes it reads" in one.text
            assert compilation.verify(one).label == VERIFIED


UNEXPLAINED = {
    "argmax": lambda x: jnp.argmax(x, 1) * 2,
    "argmin": lambda x: jnp.argmin(x, 0) + 1,
    "place of the largest": lambda x: jnp.sqrt(jnp.argmax(x * 3, 1).astype(jnp.float32)),
    "places in a sorted array": lambda x: jnp.argsort(x, 1) * 2,
    "two sorted arrays": lambda x: jax.lax.sort((x, x * 2), num_keys=1)[1] + 1,
    "largest elements": lambda x: jax.lax.top_k(x, 3)[1] * 2,
    "one of two reductions": lambda x: (
        jax.lax.reduce((x, x * 2), (0.0, 0.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,))[0] * 2
    ),
}


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_a_boundary_without_a_rule_is_not_known(name):
    """A part of a tuple is read: XLA's fusion pass does not consider it, and says nothing."""
    _, found = between(UNEXPLAINED[name])
    for one in found:
        assert (one.code == "unknown") == (one.label == UNKNOWN) == (not one.rule and not one.said), one
        assert one.label != UNKNOWN or "no rule" in one.text
    assert name not in ("argmax", "argmin") or any(one.label == UNKNOWN for one in found)
