"""Reasons of trace breaks: a table with one entry for each way in which Python can force a value.

The method that forces a value sets the kind (LazyTensor's ``__float__`` gives ``"float"``), which its callers
may refine (:mod:`lazynb.recording.break_cause`). Torchy (Lopes 2023) records a flush reason in the same way.
Codes are stable: a code is never reused for another kind.
"""

from __future__ import annotations

import dataclasses
import difflib
import html
import textwrap
from typing import Any

from lazynb.recording.break_examples import EXAMPLES


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """One kind of trace break. Its text and its notebook display explain it.

    Attributes:
      code: stable identifier, such as ``LNB101``.
      kind: short name, such as ``bool``.
      text: what Python needed.
      hint: how to avoid the break.
      explicit: whether the user requested the break, so that strict mode allows it.
      waits: whether Python needs the value at once, so that the wait for it is lost time.
      shares_memory: whether other code gets the concrete array itself. A number or text is a copy, and XLA
        protects the views of NumPy and others.
      barrier: whether it runs all pending operations, so that its line has the same effect in every place.
      conversion: whether Python converts to a number, text or NumPy array, where the callers may refine the
        kind.
      in_loop: whether the hint is for a break that repeats.
    """

    code: str
    kind: str
    text: str
    hint: str
    explicit: bool = False
    waits: bool = False
    shares_memory: bool = False
    barrier: bool = False
    conversion: bool = False
    in_loop: bool = False

    def hint_for(self, count: int) -> str:
        """Returns the hint for a line where the break came ``count`` times."""
        return _HINT_SINGLE if self.in_loop and count == 1 else self.hint

    @property
    def example(self) -> str:
        """A small program with this break and no other, to run lazily after ``break_examples.PRELUDE``."""
        return EXAMPLES[self.kind][0]

    @property
    def cure(self) -> str:
        """The example without the break; for an explicit kind, with fewer of them."""
        return EXAMPLES[self.kind][1]

    @property
    def _titles(self) -> tuple[str, str]:
        better = "The same, in a better place" if self.explicit else "The same without it"
        return "A program that has it", better

    @property
    def programs(self) -> list[tuple[str, str]]:
        """The two programs, each after its title."""
        return list(zip(self._titles, (self.example, self.cure), strict=True))

    def __str__(self) -> str:
        programs = [f"\n{title}:\n\n{textwrap.indent(program, '    ')}" for title, program in self.programs]
        return f"{self.code} {self.kind}: {self.text}.\nInstead: {self.hint}.\n" + "".join(programs).rstrip()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        programs = "".join(
            f'<div style="min-width:18em"><div>{html.escape(title)}</div>'
            f'<pre style="text-align:left;margin:4px 0 0">{html.escape(program)}</pre></div>'
            for title, program in self.programs
        )
        return (
            f"<div><b>{self.code} {html.escape(self.kind)}</b>: {html.escape(self.text)}.<br>"
            f"Instead: {html.escape(self.hint)}.</div>"
            f'<div style="display:flex;flex-wrap:wrap;gap:8px 32px;margin-top:8px">{programs}</div>'
        )


_HINT_KEEP_ARRAY = "stay in JAX: keep the value as an array until the end"
_HINT_AFTER_LOOP = "collect the tensors, and do it when the loop is done"
_HINT_SINGLE = (
    "leave it if no operation follows, because the pending operations have to run once; otherwise move it "
    "after the last operation"
)
_TABLE = (
    Reason(
        "LNB101",
        "bool",
        "a Python branch needed the truth of a value",
        "use jnp.where or jax.lax.cond, or test less often",
        waits=True,
        conversion=True,
    ),
    Reason("LNB102", "int", "int() needed a value", _HINT_KEEP_ARRAY, waits=True, conversion=True),
    Reason(
        "LNB103",
        "float",
        "float() needed a value",
        "collect the tensors and convert them after the loop",
        waits=True,
        conversion=True,
        in_loop=True,
    ),
    Reason("LNB104", "complex", "complex() needed a value", _HINT_KEEP_ARRAY, waits=True, conversion=True),
    Reason(
        "LNB105",
        "index",
        "a Python index, slice or range needed a value",
        "take the number from .shape, from len() or from the code, or index a JAX array with the tensor "
        "itself",
        waits=True,
        conversion=True,
    ),
    Reason(
        "LNB106",
        "item",
        ".item() needed a value",
        "collect the tensors and convert them after the loop",
        waits=True,
        conversion=True,
        in_loop=True,
    ),
    Reason("LNB107", "tolist", ".tolist() needed the values", _HINT_KEEP_ARRAY, waits=True, conversion=True),
    Reason(
        "LNB108",
        "print",
        "print() or str() needed the values",
        "collect the tensors, and print them after the loop; repr() needs no value",
        waits=True,
        conversion=True,
        in_loop=True,
    ),
    Reason(
        "LNB109",
        "format",
        "a format string needed the values",
        "collect the tensors, and format them after the loop",
        waits=True,
        conversion=True,
        in_loop=True,
    ),
    Reason(
        "LNB110",
        "asarray",
        "NumPy, or the buffer protocol, needed the values",
        "use jax.numpy, or convert once at the end",
        waits=True,
        conversion=True,
    ),
    Reason(
        "LNB111",
        "dlpack",
        "another library took the memory of the value (DLPack)",
        "hand values over once at the end",
        shares_memory=True,
    ),
    Reason(
        "LNB112",
        "pickle",
        "pickle or copy needed the values",
        "save after the loop",
        waits=True,
        in_loop=True,
    ),
    Reason("LNB113", "bytes", ".tobytes() needed the values", _HINT_KEEP_ARRAY, waits=True),
    Reason(
        "LNB114",
        "attribute",
        "an attribute that only a computed value has was read",
        "read .shape, .dtype and .sharding instead, or the attribute of an input",
        shares_memory=True,
    ),
    Reason(
        "LNB115", "buffer", "the device memory of a value was requested", _HINT_KEEP_ARRAY, shares_memory=True
    ),
    Reason(
        "LNB116",
        "contains",
        "`in` needed to know whether an array holds a value",
        "use (array == value).any() with jnp.where, or jnp.isin",
        waits=True,
    ),
    Reason("LNB117", "save", "the values were written to a file", _HINT_AFTER_LOOP, waits=True, in_loop=True),
    Reason(
        "LNB118", "plot", "a plotting library needed the values", _HINT_AFTER_LOOP, waits=True, in_loop=True
    ),
    Reason(
        "LNB119",
        "static",
        "JAX needed a value to build the program: a shape, an axis, a count or another static argument",
        "take the number from .shape, from len() or from the code",
        waits=True,
    ),
    Reason(
        "LNB201",
        "sync",
        "a barrier: lazynb.sync()",
        "none needed where a step ends; a step needs no second one",
        explicit=True,
        barrier=True,
    ),
    Reason(
        "LNB202",
        "block",
        "block_until_ready() waits for the value",
        "wait once at the end",
        explicit=True,
        waits=True,
        barrier=True,
    ),
    Reason(
        "LNB203",
        "compile",
        "%%compile ran what was pending",
        "none needed: you asked for it",
        explicit=True,
        barrier=True,
    ),
    Reason(
        "LNB204",
        "limit",
        "more operations were pending than lazynb.config.max_pending",
        "place lazynb.sync() where a step ends",
        barrier=True,
    ),
    Reason(
        "LNB301",
        "effect",
        "an operation with a side effect runs in order with what was pending",
        "take the effect out of the loop, or collect the tensors and show them when the loop is done",
        shares_memory=True,
        in_loop=True,
    ),
    Reason(
        "LNB315",
        "callback",
        "a Python callback reads mutable state, so it is called at once, in program order",
        "pass what it reads as an operand",
        shares_memory=True,
    ),
    Reason(
        "LNB302",
        "unrecordable",
        "an operation that cannot be recorded",
        "run it once, before the loop",
        shares_memory=True,
    ),
    Reason(
        "LNB303",
        "eager",
        "a pending value was handed to code that runs eagerly",
        "keep that code lazy, or leave lazy mode when the loop is done",
        shares_memory=True,
    ),
    Reason(
        "LNB304",
        "thread",
        "a pending value was used in another thread",
        "call lazynb.sync() before handing it over",
        shares_memory=True,
    ),
    Reason(
        "LNB305",
        "device_put",
        "a pending value was moved to a device or sharding",
        "move the inputs before computing with them",
        shares_memory=True,
    ),
    Reason(
        "LNB306",
        "devices",
        "one operation combined values of different devices",
        "move the inputs to one device first",
        shares_memory=True,
    ),
    Reason(
        "LNB307",
        "compiled",
        "an executable compiled ahead of time was called with a pending value",
        "call the jax.jit-ed function itself",
        shares_memory=True,
    ),
    Reason(
        "LNB309",
        "sharding",
        "a jitted function with in_shardings took a pending value, and only a run shows its sharding",
        "give the value its sharding with jax.device_put before the call",
    ),
    Reason(
        "LNB310",
        "numpy_function",
        "a NumPy function has no lazy form with the same result",
        "use jax.numpy, or call it once, before or after the loop",
        waits=True,
    ),
    Reason(
        "LNB311",
        "numpy_dtype",
        "NumPy's result, or what it computes in, has a type that JAX's arrays cannot have",
        "give a dtype of numbers: objects, texts, dates and structures are NumPy's alone",
        waits=True,
    ),
    Reason(
        "LNB312",
        "numpy_values",
        "NumPy's result depends on the values: its shape, its type, or an error",
        "use the jax.numpy function, which has a fixed shape (size=, where) and gives nan for an error",
        waits=True,
    ),
    Reason(
        "LNB313",
        "numpy_out",
        "NumPy wrote into an array of its own",
        "take the result instead of out=, and collect the tensors",
        waits=True,
    ),
    Reason(
        "LNB316",
        "numpy_library",
        "a library calls NumPy, and continues with NumPy's arrays",
        "use jax.numpy, or call the library once, before or after the loop",
        waits=True,
    ),
    Reason(
        "LNB308",
        "delete",
        "the memory of a pending value was freed",
        "delete inputs after lazynb.sync()",
    ),
    Reason(
        "LNB314",
        "hosts_differ",
        "hosts were about to run different programs together, and none of them ran",
        "let every host run the same lines; call lazynb.sync() on all before a line that reads a value on "
        "one host alone",
    ),
)

ASKED_FOR = "compile"
"""The only kind that is no trace break: ``%%compile`` or an explanation runs the pending operations."""

REASONS: dict[str, Reason] = {reason.kind: reason for reason in _TABLE}


def find(name: str) -> Reason:
    """Returns the entry with the code or kind ``name``, in upper or lower case.

    Raises:
      ValueError: there is none; the message names similar ones, or all.
    """
    wanted = name.strip().lower()
    for reason in _TABLE:
        if wanted in (reason.code.lower(), reason.kind):
            return reason
    kinds = [reason.kind for reason in _TABLE]
    codes = [reason.code for reason in _TABLE]
    near = difflib.get_close_matches(name.strip(), [*codes, *kinds], 3, 0.7) or kinds
    raise ValueError(f"no trace break has the code or kind {name.strip()!r}; there are {', '.join(near)}")
