"""Functions of JAX with another code while a thread is lazy.

A substitute under a name serves only code that looks up the name. Other code holds JAX's function itself:
``from jax.nn import softmax`` or ``sin = jnp.sin`` from before lazy mode, and the imports of libraries. The
function object stays, and its ``__code__`` is replaced, so every holder calls the substitute. For a jitted
function it is the code of the Python function that its C++ code calls if an argument is a lazy tensor.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable
from typing import Any

from lazynb.jax_compat.substitutes import JITTED, DormantSubstitutes
from lazynb.jax_compat.tracers import trace_state
from lazynb.jax_compat.type_registration import hidden_file


def python_function(function: Any) -> types.FunctionType | None:
    """Returns the Python function that a call of ``function`` enters: itself, or that of a jitted function,
    which returns the results and data for C++. None for other callables."""
    if isinstance(function, types.FunctionType):
        return function
    entered = function.__getstate__().get("cache_miss") if isinstance(function, JITTED) else None
    return entered if isinstance(entered, types.FunctionType) else None


# A code has no globals and cells of its own, so its parts are a constant, which takes the place of ``PARTS``.
# It has as many free variables as the function, in a statement that is left out: without the instruction that
# copies them ``frame.f_locals`` ends the process (Python 3.11).
_TEMPLATE = """
def enclosing({cells}):
    def call(*args, **kwargs):
        __tracebackhide__ = True
        if False:
            {names}
        state, lazy, rest, replayed, plain = "PARTS"
        trace = state.value
        if trace.__class__ is lazy:
            if not trace.records_edge:
                return {replayed}
        elif trace is None and not {is_jitted}:
            return {replayed}
        elif rest.on:
            rest.count()
        return plain(*args, **kwargs)
    return call.__code__
"""


@functools.cache
def _template(is_jitted: bool, cells: int) -> types.CodeType:
    """Returns the code with ``cells`` free variables. A jitted function also returns data for C++."""
    names = ", ".join([f"cell{number}" for number in range(cells)])
    replayed = "replayed(*args, **kwargs)" + (", None" if is_jitted else "")
    namespace: dict[str, Any] = {}
    tree = ast.parse(
        _TEMPLATE.format(cells=names, names=names or "pass", replayed=replayed, is_jitted=is_jitted)
    )
    for node in ast.walk(tree):  # one line, which is the function's first line in a traceback
        if isinstance(node, ast.expr | ast.stmt | ast.arg):
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    exec(compile(tree, "<template>", "exec"), namespace)
    code: types.CodeType = namespace["enclosing"](*[None] * cells)
    return code


class FunctionCode:
    """The code of a function of JAX, and its substitute.

    Arguments:
      function: a plain or jitted function.
      entered: its :func:`python_function`.
      replaying: returns the replayed form of a function that does what ``function`` does.
      lazy: the class of the traces on which calls are replayed, unless their ``records_edge`` is true.
      rest: whether substitutes are dormant.
    """

    __slots__ = ("_copy", "_entered", "_ours", "_own", "_wraps")

    def __init__(
        self,
        function: Any,
        entered: types.FunctionType,
        replaying: Callable[[Callable[..., Any]], Callable[..., Any]],
        lazy: type,
        rest: DormantSubstitutes,
    ):
        self._entered, self._own = entered, entered.__code__
        self._copy = copy = _copy_of(entered)
        plain: Callable[..., Any] = copy
        if function is not entered:
            plain = lambda *args, **kwargs: copy(*args, **kwargs)[0]  # noqa: E731
        parts = (trace_state, lazy, rest, replaying(plain), copy)
        template = _template(function is not entered, len(self._own.co_freevars))
        self._ours = _code_with(template, parts, self._own)
        # ``inspect.signature`` follows this attribute; else it would read the parameters of the template.
        self._wraps = "__wrapped__" not in vars(entered)

    def install(self, on: bool) -> None:
        """Gives the function its substitute, or its own code. A code that others have set stays."""
        entered = self._entered
        before, after = (self._own, self._ours) if on else (self._ours, self._own)
        if entered.__code__ is not before:
            return
        if self._wraps and on:
            entered.__wrapped__ = self._copy  # type: ignore[attr-defined]
        entered.__code__ = after
        if self._wraps and not on:
            vars(entered).pop("__wrapped__", None)


def _copy_of(function: types.FunctionType) -> types.FunctionType:
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
    copy.__module__, copy.__doc__ = function.__module__, function.__doc__
    return copy


def _code_with(template: types.CodeType, parts: tuple[Any, ...], own: types.CodeType) -> types.CodeType:
    """Returns the code of ``template`` with ``parts``, for a function with the code ``own``."""
    return template.replace(
        co_consts=tuple([parts if one == "PARTS" else one for one in template.co_consts]),
        co_freevars=own.co_freevars,
        co_filename=hidden_file(own.co_filename),
        co_name=own.co_name,
        co_qualname=own.co_qualname,
        co_firstlineno=own.co_firstlineno,
    )
