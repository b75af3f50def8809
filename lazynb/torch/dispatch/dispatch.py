"""Carries out PyTorch's operations on device ``jax``: below autograd, one ``aten`` operation at a time.

For each operation, once: is it a view (a tensor that shares memory), does it write to an argument, or does it
compute? What computes is looked up among our own lowerings (:mod:`.registry`), then torchax's, then PyTorch's
decompositions. What none of them has is done by PyTorch on the CPU, a trace break that says so.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from lazynb.errors import TraceBreakError
from lazynb.record.tensor import LazyTensor
from lazynb.torch.dispatch import (
    around,
    calls,
    demands,
    halves,
    layout as layouts,
    marks,
    room,
    shortcut,
    storage,
)
from lazynb.torch.dispatch.halves import jax_dtype
from lazynb.torch.dispatch.keys import by_name, key_and_row, key_of
from lazynb.torch.dispatch.layout import Layout, Results, Unknown
from lazynb.torch.dispatch.recalled import recalled
from lazynb.torch.tensor import DEVICE, Tensor, in_64_bit, to_cpu, torch_to_array, torchax, wrap

aten = torch.ops.aten
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_handlers: dict[Any, Handler] = {}
_plain_handlers: dict[int, Handler] = {}  # by the ids of operations, without what comes before them
# The operations whose calls may take the short way, by their ids (a hash would be a call): whether their
# numbers make no difference, whether they demand something of values, and whether they may be for the host.
recallable: dict[int, tuple[bool, bool, bool]] = {}

# The operations that write what a twin returns, by their ids: see :func:`_write_again`.
_with_twins: set[int] = set()

# What an operation is asked first of all, by its id: it gives the results, or None where it is not for that.
# Filled by :mod:`lazynb.torch.dispatch.on_host`.
at_once: dict[int, Callable[[Any, Any], Any]] = {}
# What comes before the handler of an operation, by overload. Filled by
# :mod:`lazynb.torch.dispatch.made_on_host`.
befores: dict[Any, Callable[[Any, Handler], Handler]] = {}
# What puts other arguments in place of those of an operation before PyTorch is asked for its results, by
# overload.
rewrites: dict[Any, Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]] = {}
# Operations on whole tensors: func -> handler. Filled by :mod:`lazynb.torch.moving` and others.
special: dict[Any, Handler] = {}
# Operations as functions of arrays, by overload or by packet. Filled by
# :mod:`lazynb.torch.dispatch.registry`.
own: dict[Any, Callable[..., Any]] = {}
# The same, for those that overwrite their first argument: they get its layout in place of it.
fills: dict[Any, Callable[..., Any]] = {}

# What makes a tensor on device ``jax`` of one on the CPU, by its layout if that is sparse. Filled by
# :mod:`lazynb.torch.dispatch.on_sparse`.
sparse_up: dict[torch.layout, Callable[[torch.Tensor], Tensor]] = {}
# Operations as functions of tensors, in place of PyTorch's decompositions.
parts: dict[Any, Callable[..., Any]] = {}

# Operations whose tensors are brought to one dtype first, by PyTorch's rule.
promoting: set[Any] = set()

# What a lowering that does not cover the call raises. PyTorch has accepted the call before.
_UNCOVERED = (
    NotImplementedError,
    TypeError,
    ValueError,
    AssertionError,
    AttributeError,
    LookupError,
    torchax.tensor.OperatorNotFound,
)


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carries out ``func``, an overload of PyTorch's, on tensors of device ``jax``."""
    if (first := at_once.get(id(func))) is not None:
        results = first(args, kwargs)
        if results is not None:
            return results
    short = recallable.get(id(func))
    if short is not None:
        numbers, is_checked, has_before = short
        try:
            key, row = key_and_row(func, args, kwargs, numbers)
            known = layouts.results_of.get(key)
        except TypeError:  # something that cannot be a key
            known = None
        if known is not None:
            if known.steps:
                return shortcut.views(args[0], known)
            if known.copies:
                copy = shortcut.copied(args[0], known)
                if copy is not None:
                    return copy
            if known.recalled and row is not None:
                has_before = has_before and known.whole
                if not is_checked:
                    results = shortcut.again(known, row, numbers, has_before, sys._getframe(2))
                    if results is not None:
                        return results
                elif not has_before or not shortcut.is_for_host(func, row):
                    return _checked_again(func, args, kwargs, known, numbers)
    elif id(func) in _with_twins:
        results = _write_again(func, args, kwargs)
        if results is not None:
            return results
    handler = _handlers.get(func)
    if handler is None:
        handler = handler_of(func)
        if handler is _write and functional(func) is not None:
            _with_twins.add(id(func))
        if handler in (_compute, _view):
            recallable[id(func)] = func in _numbered, func in demands.checkers, id(func) in at_once
        before = befores.get(func)
        handler = _handlers[func] = handler if before is None else before(func, handler)
    context, count = around.note(), around.changes_so_far()
    with in_64_bit():
        results = handler(func, args, kwargs)
        if context is not None:
            around.noted(context)
    around.is_back(count)
    return results


def _checked_again(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: Results, numbers: bool
) -> Any:
    """The results of a call of which the layouts are known, and which demands something of values."""
    with in_64_bit():
        args, kwargs = demands.checked(func, args, kwargs)
    row = key_and_row(func, args, kwargs, numbers)[1]
    results = None
    if row is not None:
        results = shortcut.again(known, row, numbers, False, sys._getframe(2))
    if results is None:  # what was checked is carried out here, as it is checked once
        with in_64_bit():
            results = _carried_out(func, args, kwargs, known)
    return results


def handler_of(func: Any) -> Handler:
    """What carries out ``func``, inside of 64-bit mode, where nothing comes before it."""
    handler = _plain_handlers.get(id(func))
    if handler is None:
        handler = _plain_handlers[id(func)] = _handler(func)
    return handler


def _handler(func: Any) -> Handler:
    handler = special.get(func) or special.get(func.overloadpacket)
    if handler is not None:
        return handler
    if _is_for_any_device(func):
        return _as_written
    name = func._schema.name.partition("::")[2]
    if name.startswith("_foreach_"):
        return _for_each
    writes = [argument for argument in func._schema.arguments if _is_written(argument)]
    if writes:
        return _writing_handler(func, writes)
    if func.namespace != "aten":
        return _decomposed
    if any(result.alias_info is not None for result in func._schema.returns):
        # ``to``, ``reshape``: a view or not, PyTorch's parts tell
        return _by_parts if func._can_decompose() else _view
    return _compute


def _is_for_any_device(func: Any) -> bool:
    """Whether ``func`` is somebody's own (``torch.library.custom_op``), for tensors of any device."""
    if func.namespace in ("aten", "prims"):
        return False
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _ANY_DEVICE))


def _as_written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func._op_dk(_ANY_DEVICE, *args, **kwargs)


_ANY_DEVICE: Any = torch._C.DispatchKey.CompositeExplicitAutograd


def _is_written(argument: Any) -> bool:
    return bool(argument.alias_info and argument.alias_info.is_write)


def _writing_handler(func: Any, writes: list[Any]) -> Handler:
    """The handler of an operation that writes to its arguments ``writes``."""
    first = writes[0].name
    if func.namespace != "aten":
        return _write_some
    if first == "out" or any(argument.is_out for argument in writes):
        return _into_out
    if len(writes) == 1 and first == func._schema.arguments[0].name:
        return _write
    return _write_some


def _by_parts(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = func.decompose(*args, **kwargs)
    return _view(func, args, kwargs) if result is NotImplemented else result


# ---- arguments ---------------------------------------------------------------------------------------------


def dummy_of(x: Any, fresh: bool) -> Any:
    """``x`` on PyTorch's device ``meta``."""
    kind = x.__class__
    if isinstance(x, Tensor):
        return x._layout.dummy(fresh)
    if isinstance(x, torch.Tensor):
        return layouts.layout_of(x).dummy(fresh)
    if kind is torch.device:
        return _META if x.type in ("privateuseone", "jax") else x
    if isinstance(x, (list, tuple)):
        dummies = [dummy_of(item, fresh) for item in x]
        return tuple(dummies) if kind is tuple else dummies
    if isinstance(x, dict):
        return {name: None if name == "generator" else dummy_of(item, fresh) for name, item in x.items()}
    return x


_META = torch.device("meta")


def plain_of(x: Any, small: bool = False) -> Any:
    """``x`` on the CPU, with values that are ones and zeros; if ``small``, of one element that is a one."""
    if isinstance(x, torch.Tensor):
        return layouts.layout_of(x).small() if small else layouts.layout_of(x).plain()
    if isinstance(x, torch.device):
        return torch.device("cpu")
    if isinstance(x, (list, tuple)):
        return type(x)([plain_of(item, small) for item in x]) if type(x) in (list, tuple) else x
    if isinstance(x, dict):
        return {name: None if name == "generator" else plain_of(item, small) for name, item in x.items()}
    return x


def array_of(x: Any) -> Any:
    """``x`` with arrays in place of tensors, of numbers in any case."""
    if isinstance(x, torch.Tensor):
        array = x._elem if isinstance(x, Tensor) else torch_to_array(x)
        return halves.numbers_of(array) if x.dtype is halves.DTYPE else array
    if isinstance(x, (list, tuple)):
        return [array_of(item) for item in x]
    if isinstance(x, dict):
        return {name: array_of(item) for name, item in x.items()}
    return x


def _check_devices(func: Any, args: Any) -> None:
    """A tensor of another device may only be a number, as in PyTorch (or an index)."""
    for x in args:
        if isinstance(x, (list, tuple)):
            if func not in _INDEXING:
                _check_devices(func, x)
        elif (
            isinstance(x, torch.Tensor) and not isinstance(x, Tensor) and x.dim() and x.device.type != "meta"
        ):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, jax:0 and "
                f"{x.device}!"
            )


_INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
    aten._unsafe_index_put.default,
}


def expected(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], writes: bool = False) -> Results:
    """What PyTorch says the results are. See :func:`lazynb.torch.dispatch.layout.results`."""
    return layouts.results(func, args, kwargs, _asker, writes, func not in _numbered)


class _Those:
    """The operations of which something is true, which is asked once."""

    def __init__(self, ask: Callable[[Any], bool]) -> None:
        self._ask = ask
        self._known: dict[Any, bool] = {}

    def __contains__(self, func: Any) -> bool:
        found = self._known.get(func)
        if found is None:
            found = self._known[func] = self._ask(func)
        return found


_pointwise = _Those(lambda func: torch.Tag.pointwise in func.tags)
_numbered = _Those(calls.takes_numbers)  # no float changes the layout of the results


def _fills(func: Any) -> bool:
    return func in fills or func.overloadpacket in fills


def _is_ours(func: Any) -> bool:
    return func in own or func.overloadpacket in own


_asker = layouts.Asker(
    key_and_row,
    dummy_of,
    plain_of,
    lambda func: func in _pointwise,
    _fills,
    _check_devices,
    demands.refuse,
    calls.Names(key_of).name,
    _is_ours,
)


# ---- computing ---------------------------------------------------------------------------------------------


def _compute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if func in rewrites:
        args = rewrites[func](func, args)
    try:
        known = expected(func, args, kwargs)
    except Unknown:
        known = None
    if halves.are_in(args) or halves.are_in(tuple(kwargs.values())) or (known and halves.are_in(known.tree)):
        return on_cpu(func, args, kwargs)
    if known is not None and known.bounds is None:
        known.bounds = demands.bounds_given(func, args, kwargs)
    if func in demands.checkers:
        if known is not None and known.range is None:
            known.range = demands.range_of(func, args, kwargs)
        args, kwargs = demands.checked(func, args, kwargs)
    return _carried_out(func, args, kwargs, known)


def _carried_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: Results | None) -> Any:
    if known is None:
        return FAILED.through(func, args, kwargs)
    values = evaluate(func, args, kwargs, known)
    if values is FAILED:
        return _typed_as(FAILED.through(func, args, kwargs), known.tree)
    return shortcut.bounded(shortcut.wrapped(values, known.tree), known)


def let_copy(func: Any, key: Any, tree: Layout) -> None:
    """Has the calls that ``key`` identifies go the short way: they copy their first argument.

    Arguments:
      tree: layout of the copy.
    """
    found = layouts.results_of.get(key)
    if found is None:
        found = layouts.results_of[key] = Results(func, tree, None)
    found.copies = True
    recallable.setdefault(id(func), (False, False, True))


def let_recall(func: Any, key: Any, tree: Any, name: object, has_before: bool = False) -> Results:
    """Has the calls that ``key`` identifies go the short way, as those of a handler of its own do not yet.

    Arguments:
      tree, name: see :class:`Results`.
      has_before: whether such a call may be for the host.
    """
    found = layouts.results_of.get(key)
    if found is None or not found.recalled:
        found = layouts.results_of[key] = Results(func, tree, name)
        found.recalled = True
        recallable[id(func)] = False, False, has_before
    return found


def _typed_as(result: Any, wanted: Any) -> Any:
    """``result`` in the dtypes of ``wanted``: a decomposition promotes what PyTorch's operation may not."""
    if isinstance(result, torch.Tensor) and isinstance(wanted, Layout):
        return result if result.dtype == wanted.dtype else result.to(wanted.dtype)
    if isinstance(result, (tuple, list)) and isinstance(wanted, list):
        typed = [_typed_as(*pair) for pair in zip(result, wanted, strict=True)]
        return tuple(typed) if isinstance(result, tuple) else typed
    return result


class _Failed:
    """No lowering covers the call."""

    @staticmethod
    def through(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """PyTorch's decomposition, else the CPU."""
        decomposition = parts.get(func) or _decompositions().get(func)
        if decomposition is not None:
            try:
                result = decomposition(*args, **kwargs)
                if result is not NotImplemented:
                    return result
            except _UNCOVERED:
                pass
        if func not in _composite:
            result = func.decompose(*args, **kwargs) if func._can_decompose() else NotImplemented
            if result is not NotImplemented:
                return result
            _composite.add(func)
        return on_cpu(func, args, kwargs)


FAILED = _Failed()
_composite: set[Any] = set()


@functools.cache
def _decompositions() -> dict[Any, Any]:
    return torch._decomp.decomposition_table


def evaluate(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: Results) -> Any:
    """The results of ``func`` as arrays of the dtypes and shapes in ``known``, or :data:`FAILED`."""
    lowering = _lowering(func)
    if lowering is None:
        return FAILED

    def lowered(args: Any, kwargs: Any) -> Any:
        try:
            return fitted(lowering(*args, **kwargs), known.tree)
        except TraceBreakError:
            raise
        except _UNCOVERED:
            return FAILED

    name, numbers = known.name, func in _numbered
    row = key_and_row(func, args, kwargs, numbers)[1]
    if name is None or row is None:
        return lowered(promoted(func, args, array_of(args), known.tree), array_of(kwargs))

    def call(*values: Any) -> Any:
        given = iter(values)
        own = calls.filled(args, given, numbers)
        named = dict(zip(kwargs, calls.filled(kwargs.values(), given, numbers)))
        return lowered(promoted(func, args, own, known.tree), named)

    values = recalled(name, call, tuple(array_of(row)), numbers)
    known.recalled = values is not FAILED
    return values


def promoted(func: Any, args: tuple[Any, ...], values: list[Any], results: Any) -> list[Any]:
    """The ``values`` of ``args`` in the dtype to which PyTorch brings them: whole ones in that of the
    ``results`` where these are floats, else of some operations the first two. Numbers stay numbers."""
    if isinstance(results, Layout) and results.dtype.is_floating_point and _are_whole(func, args):
        floats = jax_dtype(results.dtype)
        pairs = zip(args, values, strict=True)
        return [value.astype(floats) if isinstance(x, torch.Tensor) else value for x, value in pairs]
    if func not in promoting:
        return values
    first, second, *_ = args
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return values
    if first.dtype == second.dtype:
        return values
    wanted = jax_dtype(torch.result_type(dummy_of(first, False), dummy_of(second, False)))
    return [values[0].astype(wanted), values[1].astype(wanted), *values[2:]]


def _are_whole(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether ``func`` works on elements, all of them whole numbers or truth values."""
    dtypes = [x.dtype for x in args if isinstance(x, torch.Tensor)]
    return func in _pointwise and not any(one.is_floating_point or one.is_complex for one in dtypes)


class _Unfit(ValueError):
    """A lowering gave another shape than PyTorch says."""


def fitted(values: Any, wanted: Any) -> Any:
    """``values`` in the dtypes and shapes of ``wanted``, without those that are no tensors there."""
    if isinstance(wanted, Layout):
        if isinstance(values, (list, tuple)) and len(values) == 1:
            values = values[0]
        return _fitted_array(values, wanted)
    if isinstance(wanted, list):
        if not isinstance(values, (list, tuple)) or len(values) != len(wanted):
            raise _Unfit
        pairs = zip(values, wanted, strict=True)
        return [fitted(value, layout) for value, layout in pairs if isinstance(layout, (Layout, list))]
    return wanted


def _fitted_array(array: Any, wanted: Layout) -> Any:
    dtype = jax_dtype(wanted.dtype)
    if not hasattr(array, "aval"):
        array = torchax.tensor.jnp.asarray(array, dtype)
    if wanted.dtype is halves.DTYPE:
        array = halves.bits_of(array)
    if array.dtype != dtype or array.aval.weak_type:
        if dtype.kind not in "fcV" and array.dtype.kind == "c":
            raise _Unfit
        array = torchax.tensor.jax.lax.convert_element_type(array, dtype)
    if array.shape != wanted.shape:
        raise _Unfit(f"{array.shape} in place of {wanted.shape}")
    return array


_lowerings: dict[Any, Callable[..., Any] | None] = {}


def _lowering(func: Any) -> Callable[..., Any] | None:
    if func in _lowerings:
        return _lowerings[func]
    found = own.get(func) or own.get(func.overloadpacket)
    if found is None:
        table = torchax.default_env()._ops
        entry = table.get(func) or table.get(func.overloadpacket)
        if (
            entry is not None
            and entry.is_jax_function
            and not entry.needs_env
            and func.overloadpacket not in avoided
        ):
            found = entry.func
    _lowerings[func] = found
    return found


# Packets whose lowering in torchax is wrong. Filled by :mod:`lazynb.torch.dispatch.registry`, with the
# reasons.
avoided: set[Any] = set()


def _decomposed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operation that is not ``aten``'s: by its lowering or decomposition, else on the CPU."""
    if func in own:
        return _compute(func, args, kwargs)
    return FAILED.through(func, args, kwargs)


def on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operation carried out by PyTorch on the CPU: a trace break where a value is pending."""

    def down(x: Any) -> Any:
        if isinstance(x, torch.device):
            return torch.device("cpu")
        if isinstance(x, (list, tuple)):
            return [down(item) for item in x]
        if isinstance(x, dict):
            return {name: down(item) for name, item in x.items()}
        return cpu_copy(x, func)

    with marks.heeded():
        return _up(func(*down(args), **down(kwargs)))


def _pack(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``pack_padded_sequence``, whose lengths, and sizes of batches, are on the CPU on every device."""
    data, sizes = func(*[cpu_copy(x, func) for x in args], **kwargs)
    return on_device(data), sizes


def on_device(x: torch.Tensor) -> Tensor:
    """A tensor on device ``jax`` with the values of one on the CPU."""
    if x.layout in sparse_up:
        return sparse_up[x.layout](x)
    layout = layouts.contiguous(tuple(x.shape), x.dtype)
    if x.layout is torch.strided and not x.is_contiguous():
        layout = layouts.layout_of(torch.empty_like(x, device=_META))
    return wrap(torch_to_array(x), layout)


# ---- views -------------------------------------------------------------------------------------------------


def _view(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    if not isinstance(source, Tensor):  # a list of tensors
        return _compute(func, args, kwargs)
    known = expected(func, args, kwargs)
    if known.steps is None:
        known.steps = _steps(func, source._layout, known.tree, args[1:], kwargs)
    return shortcut.views(source, known) if known.steps else _compute(func, args, kwargs)


def _steps(func: Any, source: Layout, tree: Any, args: Any, kwargs: dict[str, Any]) -> list[storage.ViewStep]:
    """The step of each of a view's results; none if it is no view."""
    wanted = tree if isinstance(tree, list) else [tree]
    if not all(isinstance(layout, Layout) for layout in wanted):
        return []
    try:
        return storage.steps(func, source, wanted, args, kwargs)
    except storage.NotView:
        return []


def _as_strided(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    source, size, stride, *rest = args
    offset = rest[0] if rest else kwargs.get("storage_offset")
    if offset is None:
        offset = source._layout.offset
    wanted = layouts.layout(tuple(size), tuple(stride), offset, source.dtype)
    room.check_room(source._storage.layout, wanted)
    steps = _steps_from_memory(source._storage, wanted)
    if steps is None:
        return _compute(func, args, kwargs)
    with shortcut.looking_into(source):
        return Tensor(source._storage, wanted, steps)


def _steps_from_memory(memory: storage.Storage, wanted: Layout) -> tuple[storage.ViewStep, ...] | None:
    """The steps from a storage's array to a view of layout ``wanted``; None if they are not known."""
    if tuple(memory.read().shape) != memory.layout.shape:
        return None
    return storage.strided(memory.layout, wanted)


special[aten.as_strided.default] = _as_strided
special[aten._pack_padded_sequence.default] = _pack
special[aten._linalg_check_errors.default] = demands.linalg_errors
# A conjugate and a negative share their memory, too. PyTorch marks them in C++, which a tensor of ours cannot
# show: ``is_conj()`` and ``is_neg()`` are false.
for _overload in (
    aten._conj.default,
    aten._neg_view.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
    aten.view.dtype,
    aten._unsafe_view.default,  # PyTorch's schema does not say so, but its own code writes through it
):
    special[_overload] = _view


# ---- writing -----------------------------------------------------------------------------------------------


@functools.cache
def functional(func: Any) -> Any:
    """The operation that returns what ``func`` writes, or None if there is none.

    It is ``add.Tensor`` for ``add_.Tensor`` and for ``add.out``.
    """
    name = func._schema.name.partition("::")[2]
    if name.startswith("__i"):
        name = "__" + name.removeprefix("__i")
    elif name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    packet = getattr(aten, name, None)
    if packet is None:
        return None
    wanted = [_typed(argument) for argument in func._schema.arguments if not _is_out(argument)]
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        if _takes(candidate._schema.arguments, wanted):
            return candidate
    return None


def _takes(arguments: list[Any], wanted: list[tuple[str, str]]) -> bool:
    """Whether an operation with these arguments can be called with ``wanted`` alone, and writes to none."""
    if any(map(_is_written, arguments)):
        return False
    if [_typed(argument) for argument in arguments[: len(wanted)]] != wanted:
        return False
    return all(argument.has_default_value() for argument in arguments[len(wanted) :])


def _typed(argument: Any) -> tuple[str, str]:
    return argument.name, str(argument.type)


def _is_out(argument: Any) -> bool:
    return argument.is_out or argument.name == "out"


def _write_some(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Arguments other than the first are written to: PyTorch does it on copies on the CPU."""
    bound = by_name(func, args, kwargs)
    copies: dict[str, Any] = {}
    for name, x in bound.items():
        if isinstance(x, (list, tuple)):
            copies[name] = [cpu_copy(item, func) for item in x]
        else:
            copies[name] = cpu_copy(x, func)
    with marks.heeded():
        result = func(**copies)
    written = {argument.name for argument in func._schema.arguments if _is_written(argument)}
    for name in written & set(bound):
        if isinstance(bound[name], (list, tuple)):
            for target, copy in zip(bound[name], copies[name], strict=True):
                _store_copy(target, copy)
        else:
            _store_copy(bound[name], copies[name])
    return _up(result)


def _store_copy(target: Any, copy: Any) -> None:
    if isinstance(target, Tensor):
        store(target, torch_to_array(copy))


def cpu_copy(x: Any, func: Any) -> Any:
    """A tensor's copy on the CPU: a trace break if the tensor is pending.

    What is no tensor of device ``jax`` is left as it is.
    """
    return to_cpu(x, "unrecordable", _short(func)) if isinstance(x, Tensor) else x


def _short(func: Any) -> str:
    return str(func).removesuffix(".default")


def _up(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return on_device(x)
    if isinstance(x, (list, tuple)):
        return tuple([_up(item) for item in x])
    return x


def _twin(func: Any) -> Any:
    twin = functional(func)
    if twin is None:
        raise NotImplementedError(f"lazynb.torch: {func} changes the shape of a tensor in place")
    return twin


def _write(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    target = args[0]
    if not isinstance(target, Tensor):
        return _write_elsewhere(func, args, kwargs)
    _check_devices(func, args)
    if func in rewrites:
        args = rewrites[func](func, args)
    if torch.Tag.inplace_view in func.tags:  # ``t_``, ``squeeze_``: the same memory, looked at in another way
        replace(target, _view(_twin(func), args, kwargs))
        return target
    if _shares_elements(target._layout):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )
    plain = dict(kwargs)
    fill = fills.get(func) or fills.get(func.overloadpacket)
    if fill is not None:
        expected(func, args, plain, writes=True)
        new = _filled(fill, target._layout, array_of(args[1:]), plain)
    else:
        try:
            expected(func, args, kwargs, writes=True)  # raises what PyTorch raises
        except Unknown:
            pass
        new = _returned(func, target, args, plain)
    fitted = _fitted(target, new)
    if fitted is new and fill is None:
        _note_writing(func, args, kwargs)
    target._elem = fitted
    return target


def _filled(fill: Any, layout: Layout, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The array that ``fill`` gives for a tensor of ``layout``."""
    if layout.dtype is not halves.DTYPE:
        return fill(layout, *args, **kwargs)
    numbers = layouts.layout(layout.shape, layout.stride, layout.offset, torch.complex64)
    return halves.bits_of(fill(numbers, *args, **kwargs))


# What identifies the calls of twins that return just what is to be written.
writing: set[Any] = set()
# For operations that write what their twins return, by their ids: the id of the twin, whether its numbers
# make no difference, whether it demands something of values, and whether the call may be for the host.
writers: dict[int, tuple[int, bool, bool, bool]] = {}


def _note_writing(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    twin = functional(func)
    if twin is None or len(twin._schema.returns) != 1 or halves.are_in(args):
        return
    if len(writing) > layouts.MOST:
        writing.clear()
    with contextlib.suppress(TypeError):  # something that cannot be a key
        writing.add(key_and_row(twin, args, kwargs, twin in _numbered)[0])
    flags = recallable.get(id(twin))
    if flags is not None:
        numbers, is_checked, has_before = flags
        writers[id(func)] = id(twin), numbers, is_checked, has_before or id(func) in at_once


def _write_again(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Writes as the same call did before; None if there was none."""
    twin = functional(func)
    try:
        key, row = key_and_row(twin, args, kwargs, twin in _numbered)
        is_known = key in writing
    except TypeError:
        return None
    if not is_known or row is None or (id(func) in at_once and shortcut.is_for_host(func, row)):
        return None
    args[0]._elem = dispatch(twin, args, kwargs)._elem
    return args[0]


def _shares_elements(layout: Layout) -> bool:
    """Whether several elements lie at one place in memory, as those of ``expand`` do."""
    if 0 not in layout.stride:
        return False
    return any(n > 1 and not step for n, step in zip(layout.shape, layout.stride, strict=True))


def _returned(func: Any, target: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    twin = functional(func)
    if twin is not None:
        result = dispatch(twin, args, kwargs)
        return _array_for(target, result[0] if isinstance(result, tuple) else result)
    entry = torchax.default_env()._ops.get(func)
    if entry is not None and entry.is_jax_function and not halves.are_in(args):
        return entry.func(*array_of(args), **array_of(kwargs))
    changed, *others = [cpu_copy(x, func) for x in args]
    with marks.heeded():
        func(changed, *others, **kwargs)
    return torch_to_array(changed)


def _array_for(target: Tensor, new: Tensor) -> Any:
    """The array in ``new``, which is to be written to ``target``."""
    return halves.converted(new._elem, new.dtype, target.dtype)


def _fitted(target: Tensor, new: Any) -> Any:
    """``new`` in the dtype and shape of ``target``: itself where it has them."""
    dtype, shape = jax_dtype(target._layout.dtype), target._layout.shape
    if new.dtype != dtype or new.aval.weak_type:
        new = torchax.tensor.jax.lax.convert_element_type(new, dtype)
    if new.shape != shape:
        new = torchax.tensor.jnp.broadcast_to(new, shape)
    return new


def store(target: Tensor, new: Any) -> None:
    """Writes ``new`` to ``target``, in its dtype and shape."""
    target._elem = _fitted(target, new)


def _write_elsewhere(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Something on the CPU is written to, from device ``jax``."""
    if func is aten.copy_.default:
        with torch.no_grad():
            args[0].copy_(to_cpu(args[1], "asarray", "Tensor.copy_"))
        return args[0]
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    is_allowed = all(isinstance(x, Tensor) or x.dim() == 0 for x in tensors[1:])
    if is_allowed or isinstance(args[0], (list, tuple)):
        down = [to_cpu(x, "asarray", str(func)) if isinstance(x, Tensor) else x for x in args]
        with marks.heeded():
            func(*down, **kwargs)
        return args[0]
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {args[0].device} "
        "and jax:0!"
    )


def _into_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Results written to tensors of the caller's."""
    targets_at = [argument.name for argument in func._schema.arguments if _is_out(argument)]
    bound = by_name(func, args, kwargs)
    targets = [bound[name] for name in targets_at]
    is_list = isinstance(targets[0], (list, tuple))  # ``unbind_copy``: one argument, and nothing is returned
    if is_list:
        targets = list(targets[0])
    count = len(args) - sum(name not in kwargs for name in targets_at)
    plain_args = args[:count]
    plain_kwargs = {name: value for name, value in kwargs.items() if name not in targets_at}
    with contextlib.suppress(Unknown):
        expected(func, args, kwargs, writes=True)  # raises what PyTorch raises
    twin = functional(func)
    if twin is not None:
        result = dispatch(twin, plain_args, _completed(twin, plain_args, plain_kwargs, targets[0]))
    else:
        for name, target in zip(targets_at, targets, strict=True):
            plain_kwargs[name] = torch.empty(0, dtype=target.dtype)
        result = on_cpu(func, plain_args, plain_kwargs)
    several = result if isinstance(result, (tuple, list)) else (result,)
    results = [x if isinstance(x, Tensor) else on_device(x) for x in several]
    for target, new in zip(targets, results, strict=True):
        if target._layout.shape != new._layout.shape:
            resized(target, new._layout.shape)
        store(target, _array_for(target, new))
    if is_list:
        return None
    return targets[0] if len(targets) == 1 else tuple(targets)


def _completed(twin: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any) -> dict[str, Any]:
    """``kwargs`` with what ``twin`` asks for and an operation with ``out`` does not."""
    kwargs = dict(kwargs)
    arguments = twin._schema.arguments
    if "device" not in kwargs and any(argument.name == "device" for argument in arguments):
        kwargs |= {"device": DEVICE, "dtype": target.dtype}
    for argument in arguments[len(args) :]:
        # PyTorch leaves out what is None, even where it has to be given
        if argument.name not in kwargs and not argument.has_default_value():
            kwargs[argument.name] = None
    return kwargs


def resized(target: Tensor, shape: tuple[int, ...]) -> bool:
    """Gives a tensor another shape, in place. Returns whether it still is where it was, in the same memory.

    It is if the memory suffices. Otherwise what was in it is of no use.
    """
    dense = layouts.contiguous(tuple(shape), target.dtype)
    wanted = layouts.layout(dense.shape, dense.stride, target._layout.offset, target.dtype)
    whole = target._storage.layout
    fits = 0 in wanted.shape or (0 not in whole.shape and wanted.end <= whole.end)
    steps = None
    if fits and whole.dtype == target.dtype:
        steps = _steps_from_memory(target._storage, wanted)
    if steps is not None:
        replace(target, Tensor(target._storage, wanted, steps))
        return True
    replace(target, wrap(None, dense))
    return False


def replace(target: Tensor, new: Tensor) -> None:
    """Makes ``target`` look into the memory of ``new``, with its shape."""
    with torch.no_grad():
        _set_data(target, new)  # shape and strides as C++ knows them
    target._storage, target._layout, target._steps, target._seen = new._storage, new._layout, new._steps, -1


_set_data = torch.Tensor.data.__set__  # type: ignore[attr-defined]


# ---- lists of tensors --------------------------------------------------------------------------------------


def _for_each(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``_foreach_add_`` and its kind: one after the other."""
    name = func._schema.name.partition("::")[2].removeprefix("_foreach_")
    if name.rstrip("_") in _LIMITS and not isinstance(args[1], (list, tuple)):
        name = name.replace(name.rstrip("_"), _LIMITS[name.rstrip("_")])
    packet = getattr(aten, name)
    count = next(len(x) for x in args if isinstance(x, (list, tuple)))
    results = []
    for at in range(count):
        picked = [_picked(x, at, count) for x in args]
        named = {key: _picked(x, at, count) for key, x in kwargs.items()}
        if name in ("addcdiv", "addcdiv_", "addcmul", "addcmul_") and len(picked) > 3:
            named["value"] = picked.pop()
        results.append(packet(*picked, **named))
    return None if name.endswith("_") else results


_LIMITS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # with a number


def _picked(x: Any, at: int, count: int) -> Any:
    """The item ``at`` of a list with one for each of ``count`` tensors; another argument as it is."""
    if isinstance(x, (list, tuple)) and len(x) == count:
        return x[at]
    return x


def is_pending(x: Any) -> bool:
    """Whether a tensor's value has still to be computed."""
    return isinstance(x, Tensor) and isinstance(x._elem, LazyTensor) and x._elem.is_pending
