"""The names of JAX that lazynb substitutes while a thread is lazy."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as _extend_core
from jax._src import (
    core as _core,
    hijax as _hijax,
    pmap as _pmap,
    sharding_impls as _sharding_impls,
    stages as _stages,
)
from jax._src.interpreters import partial_eval as _partial_eval
from jax._src.lax import lax as _lax_internal
from jax._src.numpy import indexing as _indexing, ufuncs as _ufuncs
from jax._src.random import stateful_rng as _stateful_rng
from jax._src.state import indexing as _state_indexing

from lazynb.jax_compat.function_codes import FunctionCode
from lazynb.jax_compat.substitutes import (
    MAX_DORMANT_USES,
    DormantSubstitutes,
    ModuleAttributeGuards,
    is_jax_module,
)
from lazynb.jax_compat.tracers import (
    Tracer,
    current_trace,
    eval_trace,
    has_no_axis_env,
    is_eval,
    set_current_trace,
)

CONCRETE_OR_ERROR: tuple[Any, str] = (_core, "concrete_or_error")
"""Owner and name of the function ``(force, value, what for)`` that JAX calls if it needs a value at once."""


def _core_with_clean_trace_state(is_lazy: Callable[[Any], bool]) -> types.ModuleType:
    """A view of ``jax._src.core`` in which the ambient lazy trace counts as no trace."""
    view = types.ModuleType(_core.__name__)
    view.__dict__.update(_core.__dict__)

    def trace_state_clean() -> bool:
        return _core.trace_state_clean() or is_lazy(_core.trace_ctx.trace)

    view.trace_state_clean = trace_state_clean  # type: ignore[attr-defined]
    view.trace_ctx = _TopLevelTraceContext(is_lazy)  # type: ignore[attr-defined]
    return view


class _TopLevelTraceContext:
    """JAX's trace context, with the ambient lazy trace as the top level."""

    def __init__(self, is_lazy: Callable[[Any], bool]):
        self._is_lazy = is_lazy

    def __getattr__(self, name: str) -> Any:
        return getattr(_core.trace_ctx, name)

    def is_top_level(self) -> bool:
        return _core.trace_ctx.is_top_level() or (self._is_lazy(_core.trace_ctx.trace) and has_no_axis_env())


def _opaque_trace_state_substitute(is_lazy: Callable[[Any], bool]) -> Callable[..., Any]:
    """A substitute for ``get_opaque_trace_state``, by which Flax finds the trace level of a variable."""

    def get_opaque_trace_state(convention: Any = None) -> Any:
        if is_lazy(_core.trace_ctx.trace):
            return _core.OpaqueTraceState(eval_trace._weakref)
        return _core.get_opaque_trace_state(convention)

    return get_opaque_trace_state


# Meshes; a seed for ``stateful_rng``; the check of an index for a reference (missing in 0.10); pmap, which
# names the shardings of its results only there.
_MODULES_CHECKING_TRACE_STATE = (_sharding_impls, _stateful_rng, _state_indexing, _pmap)


_NOT_IN_CLASS = object()  # marks a name that a class itself does not define


class JaxPatches:
    """The substitutes that are installed while some thread is lazy.

    ``jax.set_mesh`` and others require a clean trace state, and executables compiled ahead of time refuse
    tracers. Both are right for a transformation and wrong for lazy code.

    Attributes:
      on: whether the substitutes are active. If not, they may still be installed, but dormant
        (:mod:`lazynb.jax_compat.substitutes`). None during a change, and after a change that an interrupt cut
        short; the next change repairs it.
      fast: whether the substitutes that only serve speed are active too.
      rest: the dormant state. The holder of the lock for changes sets its ``end``.
    """

    def __init__(self, is_lazy: Callable[[Any], bool], concrete: Callable[[Any], Any]):
        self._concrete = concrete
        self._replaced: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
        self._for_speed: list[bool] = []
        self._make_codes: Callable[[], list[FunctionCode]] = list
        self._codes: list[FunctionCode] | None = None
        self._switch_id: object = None
        self._guards: ModuleAttributeGuards | None = None
        self._never_dormant: list[tuple[dict[str, Any], str, Any, Any]] = []
        self.rest = DormantSubstitutes(self.put_back)
        self._complete = False  # whether no other code had changed a name when the substitutes were installed
        self._placed_fast = False  # whether those for speed are installed too, active or dormant
        self.on: bool | None = False
        self.fast = False
        self.substitute(_stages.Compiled, {"__call__": self._calling_concretely(_stages.Compiled.__call__)})
        for module in _MODULES_CHECKING_TRACE_STATE:
            self.substitute(module, {"core": _core_with_clean_trace_state(is_lazy)})
        self.substitute(_extend_core, {"get_opaque_trace_state": _opaque_trace_state_substitute(is_lazy)})

    def substitute(self, owner: Any, names: dict[str, Any], for_speed: bool = False) -> None:
        """Substitutes ``names`` of the module or class ``owner`` while some thread is lazy.

        Arguments:
          for_speed: whether results are the same without them.
        """
        self._for_speed.append(for_speed)
        self._replaced.append((owner, names, {name: vars(owner).get(name, _NOT_IN_CLASS) for name in names}))

    def substitute_codes(self, make: Callable[[], list[FunctionCode]]) -> None:
        """Substitutes the codes of functions, for speed. ``make`` is called at the first use."""
        self._make_codes = make

    def switch(self, on: bool, fast: bool = True) -> None:
        """Activates or deactivates the substitutes. Changes by other code stay.

        Arguments:
          fast: whether substitutes that only serve speed are active; otherwise JAX's own names are restored
            for them.
        """
        was, at_rest = self.on, self.rest.on
        self._switch_id = turn = object()
        self.on, self.rest.on = None, False
        if on and at_rest and self._placed_fast is fast:
            self._reactivate()
        elif on or not was or not self._make_dormant():
            self._install(on, fast)
        if self._switch_id is turn:
            if was and not on and self._complete:
                self.rest.left, self.rest.on = MAX_DORMANT_USES, True
            self.on, self.fast = on, on and fast
        else:  # another thread or a finalizer switched in between, so neither change is complete
            self._switch_id = self.on = None

    def put_back(self) -> None:
        """Restores JAX's own names; no substitute is dormant then. Changes by other code stay."""
        self.on = None
        self.switch(False)

    def _install(self, on: bool, fast: bool) -> None:
        if self._guards is not None:
            self._guards.lower()
        self._complete, self._placed_fast = on, on and fast
        for (owner, ours, plain), for_speed in zip(self._replaced, self._for_speed, strict=True):
            self._install_at(owner, ours, plain, on and (fast or not for_speed))
        if self._codes is None and self._placed_fast:
            self._codes = self._make_codes()
        for code in self._codes or ():
            code.install(self._placed_fast)

    def _install_at(self, owner: Any, ours: dict[str, Any], plain: dict[str, Any], on: bool) -> None:
        now = vars(owner)
        if on:
            names = {name: own for name, own in ours.items() if now.get(name, _NOT_IN_CLASS) is plain[name]}
            if len(names) < len(ours) and not all(
                [name in names or now.get(name) is ours[name] for name in ours]
            ):
                self._complete = False
        else:
            names = {name: plain[name] for name, own in ours.items() if now.get(name) is own}
        _assign(owner, names)

    def _make_dormant(self) -> bool:
        """Leaves the substitutes installed, but dormant; returns whether all of them can be."""
        if not self._complete:
            return False
        if self._guards is None:
            self._never_dormant = [
                (vars(owner), name, ours[name], plain[name])
                for owner, ours, plain in self._replaced
                if isinstance(owner, types.ModuleType) and not is_jax_module(owner)
                for name in ours
            ]
            # Last, because it marks both as complete: an interrupt may come between the two.
            self._guards = ModuleAttributeGuards(self._replaced, self.rest)
        self._complete = self._guards.activate()
        for names, name, ours, plain in self._never_dormant:
            if names.get(name) is ours:
                names[name] = plain
        return self._complete

    def _reactivate(self) -> None:
        if self._guards is not None:
            self._guards.lower()
        for names, name, ours, plain in self._never_dormant:
            if names.get(name) is plain:
                names[name] = ours

    def _calling_concretely(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """An executable's ``__call__`` for arguments that may be lazy."""
        concrete, own = self._concrete, self.rest.count_calls(call)

        def call_concrete(compiled: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not is_eval(current_trace()):
                args, kwargs = jax.tree.map(concrete, (args, kwargs))
                if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs))):
                    with set_current_trace(eval_trace):
                        return call(compiled, *args, **kwargs)
            return own(compiled, *args, **kwargs)

        return call_concrete


def _assign(owner: Any, names: dict[str, Any]) -> None:
    if isinstance(owner, types.ModuleType):
        vars(owner).update(names)
    else:
        for name, value in names.items():
            if value is _NOT_IN_CLASS:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


TRACER_REFUSING_FUNCTIONS: list[tuple[Any, str]] = [(_lax_internal, "_trace_composite_to_jaxpr")]
"""Owners and names of the functions that trace a function and raise if it closes over a tracer."""
if not hasattr(_stages.Traced, "with_consts_as_arg"):  # 0.12 turns them into arguments
    TRACER_REFUSING_FUNCTIONS.append((_hijax.custom_vjp3, "__call__"))

COMPOSITE_FUNCTIONS: list[tuple[Any, str]] = [(_lax_internal, "composite")]
"""Owners and names of functions whose results take arrays, but no tracers, as keyword arguments."""

NEW_CONST: tuple[Any, str] = (_partial_eval.DynamicJaxprTrace, "new_const")
"""Class and name of the method that turns a value closed over by a traced function into a constant of the
jaxpr. It takes ``(trace, value, ...)``."""


def constants_by_id(trace: Any) -> Any:
    """The tracers of the constants of such a trace, by the ids of their values."""
    return trace.frame.constid_to_tracer


def is_linear(trace: Any) -> bool:
    """Whether such a trace builds the linear part of a differentiated function. Its constants, which are
    residuals, become no operands."""
    return bool(trace.frame.auto_dce)


IS_SHARDED: tuple[Any, str] = (_indexing.NDIndexer, "is_sharded")
"""Class and name of the function that returns whether an array is on several devices, for indexing."""

PARSE_INDICES: tuple[Any, str] = (_indexing, "_parse_indices")
"""Owner and name of the function ``(parts, shape)`` that reads the types of the parts of an index."""


STATIC_SLICE: tuple[Any, str] = (_indexing, "_static_slice")
"""Owner and name of the function ``(array, indexer)`` that slices at numbers that are known. The indexer is a
named tuple with ``start_indices``, ``limit_indices`` and ``strides``."""


def power_exponent_substitutes(is_known: Callable[[Any], bool]) -> tuple[Any, dict[str, Any]]:
    """Owner and substitutes by which ``jnp.power`` traces an exponent if ``is_known`` returns False."""
    view = types.ModuleType(_core.__name__)
    view.__dict__.update(_core.__dict__)
    view.is_concrete = lambda x: _core.is_concrete(x) and is_known(x)  # type: ignore[attr-defined]
    return _ufuncs, {"core": view}


_REPLICATED_IS_SLICED = "is_fully_replicated" in _indexing.NDIndexer.is_sharded.__code__.co_names


def indexing_gathers(aval: Any) -> bool:
    """The result of that function for an array of type ``aval``; JAX 0.12 slices an array of equal parts."""
    mesh = aval.sharding.mesh
    if mesh.empty or mesh.are_all_axes_auto or mesh.size == 1:
        return False
    return not _REPLICATED_IS_SLICED or any(part is not None for part in aval.sharding.spec)


full_module: Any = _lax_internal
"""The module whose ``full`` and ``full_like`` create arrays on a device."""
