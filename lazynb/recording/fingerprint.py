"""Fingerprints of recorded traces: hashes that are equal in all processes that record the same trace.

The trie's keys hold objects of this process, and Python's ``hash`` differs between processes. A fingerprint
contains only content: primitives, parameters, avals, shardings, operands and constants. It contains no id,
address, set order or source line, and no name of a function on which the program does not depend. It includes
the fingerprint of the previous state (*rolling*), so those of two traces are equal exactly up to the first
different step.

It is computed when first read and kept in the state, so it costs nothing in a single process.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import re
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import CodeType
from typing import Any, cast

import jax
import jax.extend.core
import numpy as np

from lazynb import jax_compat as jc
from lazynb.recording.input_key import HOST, Constant
from lazynb.recording.operation import Operation
from lazynb.recording.trie import LoopStart, State

SIZE = 12  # bytes; two of 10^12 traces are equal by chance with a probability of 10^-5


def fingerprint(state: State) -> bytes:
    """Returns the fingerprint of the trace that ends in ``state``."""
    unknown = []
    step: State | None = state
    while step is not None and getattr(step, "fingerprint", None) is None:
        unknown.append(step)
        step = step.parent
    for step in reversed(unknown):
        before = step.parent.fingerprint if step.parent is not None else b""
        step.fingerprint = _hashed(before, _of_step(step))
    return state.fingerprint


def prefix_fingerprints(state: State) -> list[bytes]:
    """Returns the fingerprints of the traces that end in each step up to ``state``, in order."""
    fingerprint(state)
    return [step.fingerprint for step in state.path()]


def of_request(state: State, wanted: Sequence[int], donated: Sequence[int]) -> bytes:
    """Returns the fingerprint of a program: a trace, its results, and the donated inputs."""
    return _hashed(fingerprint(state), repr((tuple(wanted), tuple(donated))).encode())


def of_call(primitive: Any, params: dict[str, Any], avals: Sequence[Any]) -> bytes:
    """Returns the fingerprint of an operation that runs at once."""
    return _hashed(_encoded(primitive), _params(primitive, params), _encoded(tuple(avals)))


def of_event(program: bytes, what: str) -> bytes:
    """Returns the fingerprint of an event of a program."""
    return _hashed(program, what.encode())


def without_addresses(text: str) -> str:
    """Returns ``text`` without addresses and other parts that differ between processes."""
    return _ADDRESS.sub("", text)


def _hashed(*parts: bytes) -> bytes:
    content = hashlib.blake2b(digest_size=SIZE)
    for part in parts:
        content.update(len(part).to_bytes(4, "little"))
        content.update(part)
    return content.digest()


def _of_step(step: State) -> bytes:
    if step.parent is None:
        return _encoded(step.length) if isinstance(step, LoopStart) else b""
    if step.operation is None:
        return _encoded((step.avals, _input_key(step)))
    return _hashed(_of_operation(step.operation), repr(step.operands).encode(), _encoded(step.avals))


def _input_key(step: State) -> Any:
    """Returns the content of an input's key beside the aval."""
    key = step.key
    held = key[1] if isinstance(key, tuple) and len(key) > 1 else None
    if held is HOST or held is None:
        return held
    return ("constant", held.value) if type(held) is Constant else held


def _of_operation(operation: Operation) -> bytes:
    known = _operations.get(operation)
    if known is None:
        params = _params(operation.primitive, operation.params)
        known = _hashed(_encoded(operation.primitive), params, _encoded(operation.context))
        _operations[operation] = known
    return known


_operations: weakref.WeakKeyDictionary[Operation, bytes] = weakref.WeakKeyDictionary()
_jaxprs: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()


def _params(primitive: Any, params: dict[str, Any]) -> bytes:
    skipped = set(jc.DIFFERENTIATION_PARAMS.get(primitive.name, ()))
    if primitive.name in jc.JIT_PRIMITIVES:
        skipped.add("name")
    return _encoded({name: value for name, value in params.items() if name not in skipped})


def _of_jaxpr(jaxpr: Any) -> bytes:
    """Encodes a jaxpr as the trie's key does: numbered variables, equations, and avals of constants."""
    known = _jaxprs.get(jaxpr)
    if known is not None:
        return known
    inner, inputs = getattr(jaxpr, "jaxpr", jaxpr), jc.jaxpr_inputs(jaxpr)
    numbers: dict[Any, int] = {variable: number for number, variable in enumerate(inputs)}

    def atom(value: Any) -> Any:
        return ("literal", value.aval, value.val) if isinstance(value, jc.Literal) else numbers[value]

    parts = [_encoded([variable.aval for variable in inputs]), _encoded(getattr(jaxpr, "consts", ()))]
    for eqn in inner.eqns:
        operands = [atom(value) for value in eqn.invars]
        for variable in eqn.outvars:
            numbers[variable] = len(numbers)
        parts += [_encoded(eqn.primitive), _params(eqn.primitive, eqn.params), _encoded(operands)]
        parts.append(_encoded([variable.aval for variable in eqn.outvars]))
    parts.append(_encoded([atom(value) for value in inner.outvars]))
    known = _jaxprs[jaxpr] = _hashed(*parts)
    return known


# ---- Values ------------------------------------------------------------------------------------------------


def _encoded(value: Any) -> bytes:
    """Encodes ``value`` by its content, as bytes that are equal in all processes. An object of unknown
    content is encoded by its type. Hosts that differ only there are not told apart, but equal hosts always
    agree."""
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes):
        return f"{kind.__name__}:{value!r}".encode()
    try:
        content = _encoder(cast(Hashable, kind))(value)
    except Exception:  # a library object that raises: encoded by its type
        content = b""
    return kind.__qualname__.encode() + b":" + content


@functools.cache
def _encoder(kind: Hashable) -> Callable[[Any], bytes]:
    assert isinstance(kind, type)
    for classes, encode in _ENCODERS:
        if issubclass(kind, classes):
            return encode
    if dataclasses.is_dataclass(kind):
        return _fields
    return _by_text


def _encoded_sequence(values: Iterable[Any]) -> bytes:
    return _hashed(*map(_encoded, values))


def _fields(value: Any) -> bytes:
    return _encoded_sequence(
        (field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)
    )


def _array(value: Any) -> bytes:
    content = np.asarray(value)
    if content.dtype == object:
        return _encoded_sequence([content.shape, *content.flat])
    return _hashed(content.dtype.str.encode(), repr(content.shape).encode(), content.tobytes())


def _device_array(value: Any) -> bytes:
    """Encodes an array on a device by its aval: reading it would wait, and data of other hosts is missing."""
    return _encoded(jc.typeof(value))


def _aval(value: Any) -> bytes:
    return _encoded_sequence(
        (value.shape, value.dtype, getattr(value, "weak_type", None), getattr(value, "sharding", None))
    )


def _sharding(value: Any) -> bytes:
    placed = jc.device_numbers(jc.device_assignment(value)) if jc.is_concrete_sharding(value) else None
    if isinstance(value, jax.sharding.NamedSharding):
        return _encoded_sequence((placed, value.mesh, value.spec, str(value.memory_kind)))
    return _encoded_sequence((placed, str(value.memory_kind)))


def _mesh(value: Any) -> bytes:
    devices = [] if value.empty else [int(device.id) for device in value.devices.flat]
    return _encoded_sequence((tuple(value.shape.items()), devices, str(value.axis_types)))


def _abstract_mesh(value: Any) -> bytes:
    return _encoded_sequence((tuple(value.shape_tuple), str(value.axis_types)))


def _code(value: CodeType) -> bytes:
    return _encoded_sequence((value.co_name, value.co_code, value.co_names, value.co_consts))


def _function(value: Any) -> bytes:
    code = getattr(value, "__code__", None)
    return _encoded_sequence((getattr(value, "__module__", ""), getattr(value, "__qualname__", ""), code))


_PLAIN: Any = object.__repr__
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{6,}")


def _by_text(value: Any) -> bytes:
    """Encodes by ``repr`` without addresses, if the class defines ``__repr__``."""
    if getattr(type(value), "__repr__", None) is _PLAIN:
        return b""
    try:
        return without_addresses(repr(value)).encode()
    except Exception:
        return b""


_ENCODERS: tuple[tuple[Any, Callable[[Any], bytes]], ...] = (
    (enum.Enum, lambda value: value.name.encode()),
    ((jc.ClosedJaxpr, jc.Jaxpr), _of_jaxpr),
    (jc.ShapedArray, _aval),
    (jax.sharding.Sharding, _sharding),
    (jax.sharding.AbstractMesh, _abstract_mesh),
    (jax.sharding.Mesh, _mesh),
    (jax.sharding.PartitionSpec, lambda value: _encoded_sequence(value)),
    (jax.Device, lambda value: _encoded(jc.device_numbers([value]))),
    ((np.ndarray, np.generic), _array),
    (jax.Array, _device_array),
    (np.dtype, lambda value: value.name.encode()),
    (jax.extend.core.Primitive, lambda value: value.name.encode()),
    (type, lambda value: f"{value.__module__}.{value.__qualname__}".encode()),
    ((tuple, list), _encoded_sequence),
    ((set, frozenset), lambda value: _hashed(*sorted(map(_encoded, value)))),
    (dict, lambda value: _encoded_sequence(value.items())),
    (functools.partial, lambda value: _encoded_sequence((value.func, value.args, value.keywords))),
    (CodeType, _code),
    (type(_encoded_sequence), _function),
)
"""The encoder of each class; the first class that fits is used."""
