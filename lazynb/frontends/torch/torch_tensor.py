"""The tensor on device ``jax``: a PyTorch tensor whose values are a JAX array, possibly pending.

It subclasses ``torchax.tensor.Tensor``, so torchax functions accept it. Unlike torchax, and as unmodified
code requires, views share memory, and autograd and dtypes are PyTorch's (``int64`` stays ``int64``).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import torch

from lazynb import jax_compat as jc
from lazynb.frontends.torch import tensor_values
from lazynb.frontends.torch.cpu_tensors import array_to_torch
from lazynb.frontends.torch.dispatch import complex32, known_integers, replay_context, view_steps
from lazynb.frontends.torch.dispatch.complex32 import ViewStep
from lazynb.frontends.torch.dispatch.replay_context import in_64_bit, record_or_replay
from lazynb.frontends.torch.dispatch.tensor_layout import Layout
from lazynb.frontends.torch.dispatch.tensor_storage import Storage, StorageHandle
from lazynb.frontends.torch.torch_requirements import import_torchax
from lazynb.recording.external_arrays import held_outside
from lazynb.recording.input_protection import protect_everywhere
from lazynb.recording.lazy_tensor import LazyTensor
from lazynb.recording.tool_access import tool_access
from lazynb.user_code.call_stack import calling_frame

torchax = import_torchax()
_Base: Any = torchax.tensor.Tensor
DEVICE = torch.device("privateuseone:0")
_CONJUGATES = view_steps.CONJUGATE, complex32.CONJUGATE
_NEGATIVES = view_steps.NEGATIVE, complex32.NEGATIVE
_ON_CPU = (1, 0)  # DLPack device type of the CPU, and device number


_make = torch.Tensor._make_wrapper_subclass  # positional arguments take a third of the time


def dispatch_in_python(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    return _dispatch(func, args, kwargs or {})


class Tensor(_Base):
    """A PyTorch tensor on device ``jax``.

    ``shape``, ``dtype``, ``device``, ``grad`` and the other attributes are PyTorch's. Operations are recorded
    while lazy mode is on. ``repr`` never runs anything. ``.item()``, ``float(t)``, ``.tolist()``,
    ``.numpy()``, ``.cpu()``, ``print(t)`` and ``if t:`` give PyTorch's results; they are trace breaks if the
    value is pending.
    """

    _storage: Storage
    _steps: tuple[ViewStep, ...]
    _layout: Layout
    # The cached values of a view, and the storage version that they belong to.
    _value: Any = None
    _value_version = -1

    @staticmethod
    def __new__(cls, storage: Storage, layout: Layout, steps: tuple[ViewStep, ...] = ()) -> Tensor:
        tensor = _make(
            cls, layout.shape, layout.stride, layout.offset or None, None, layout.dtype, torch.strided, DEVICE
        )
        tensor._storage, tensor._layout, tensor._steps = storage, layout, steps
        return tensor

    def __init__(self, *_: Any) -> None:
        pass

    __torch_function__ = torch._C._disabled_torch_function_impl
    __torch_dispatch__ = staticmethod(
        dispatch_in_python
    )  # may be replaced by :mod:`lazynb.frontends.torch.native_dispatch`

    # torchax overrides these; PyTorch's versions are restored.
    shape = torch.Tensor.shape
    ndim = torch.Tensor.ndim
    dtype = torch.Tensor.dtype
    device = torch.Tensor.device
    dim = torch.Tensor.dim
    detach = torch.Tensor.detach
    flatten = torch.Tensor.flatten
    type_as = torch.Tensor.type_as
    __setitem__ = torch.Tensor.__setitem__

    @property
    def data(self) -> Any:
        """A tensor in the same memory, without autograd."""
        return self.detach()

    @data.setter
    def data(self, new: Any) -> None:
        if not isinstance(new, Tensor):
            raise RuntimeError(
                "incompatible tensor type: .data of a tensor on device jax takes one of the same device"
            )
        torch.Tensor.data.__set__(self, new)  # type: ignore[attr-defined]
        self._storage, self._layout, self._steps, self._value_version = (
            new._storage,
            new._layout,
            new._steps,
            -1,
        )

    # ---- The array -----------------------------------------------------------------------------------------

    @property
    def _elem(self) -> Any:
        """The array with this tensor's values, possibly pending."""
        storage = self._storage
        if not self._steps:
            return storage.value if storage.value is not None else storage.read()
        if self._value_version != storage.version:
            value = None if storage.host is None else known_integers.array_of_view(self)
            self._value, self._value_version = self._read() if value is None else value, storage.version
        return self._value

    @_elem.setter
    def _elem(self, new: Any) -> None:
        """Writes to the tensor: its storage gets a new array."""
        storage = self._storage
        if not self._steps:
            storage.write(new)
            return
        arrays = [storage.read()]
        for step in self._steps[:-1]:
            arrays.append(step.read(arrays[-1]))
        value = new
        for step, array in zip(reversed(self._steps), reversed(arrays), strict=True):
            value = step.write(array, value)
        storage.write(value)

    def _read(self) -> Any:
        """The values of a view. The steps from its storage are replayed as one call."""
        value, steps = self._storage.read(), self._steps
        known = replay_context.replay_call(steps, (value,), False, calling_frame(2))
        if known is not None:
            return known

        def read(value: Any) -> Any:
            for step in steps:
                value = step.read(value)
            return value

        with in_64_bit():
            return record_or_replay(steps, read, (value,))

    @property
    def _env(self) -> Any:
        return torchax.default_env()

    def jax(self) -> jax.Array:
        """The values as a JAX array: a ``LazyTensor`` while they are pending.

        The array shares no writable memory. JAX lacks complex32, so such values become complex64.
        """
        return (
            complex32.to_complex64(self._elem)
            if self.dtype is complex32.COMPLEX32
            else mark_held_outside(self._elem)
        )

    @property
    def jax_device(self) -> Any:
        return self._elem.device

    # ---- Methods that read the value; each has its kind of trace break -------------------------------------

    def __bool__(self) -> bool:
        if self.numel() != 1:
            return super().__bool__()
        return bool(_scalar(self, "bool"))

    def __float__(self) -> float:
        if self.numel() != 1:
            return super().__float__()
        return float(_scalar(self, "float"))

    def __int__(self) -> int:
        if self.numel() != 1:
            return super().__int__()
        return int(_scalar(self, "int"))

    def __complex__(self) -> complex:
        if self.numel() != 1:
            return super().__complex__()
        return complex(_scalar(self, "complex"))

    def __index__(self) -> int:
        is_whole = not (self.dtype.is_floating_point or self.dtype.is_complex)
        if self.numel() != 1 or not is_whole:
            return super().__index__()
        return int(_scalar(self, "index"))

    def __contains__(self, element: Any) -> bool:
        is_equal = (self == element).any()
        return bool(_scalar(is_equal, "contains"))

    def item(self) -> Any:
        if self.numel() != 1:
            return super().item()
        return _scalar(self, "item")

    def tolist(self) -> Any:
        return to_cpu(self, "tolist").tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values, as an array that shares no memory with the tensor.

        Without ``force``, PyTorch only accepts CPU tensors; like torchax, this method also accepts tensors on
        device ``jax``.
        """
        if self.requires_grad and not force and torch.is_grad_enabled():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        return to_cpu(self, "asarray").numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """Exports the values to another library: on the CPU, in new memory. A lazy array has no memory, and a
        JAX array must not be written to. Raises ``BufferError`` if the other library requests another device
        than the CPU, or no copy; or the tensor requires a gradient."""
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if options.get("dl_device") not in (None, _ON_CPU):
            raise BufferError("lazynb.torch: through DLPack a tensor on device jax is given on the CPU")
        if options.get("copy") is False:
            raise BufferError("lazynb.torch: through DLPack a tensor on device jax is given as a copy")
        return to_cpu(self, "asarray", "DLPack").__dlpack__(max_version=options.get("max_version"))

    def __dlpack_device__(self) -> Any:
        return _ON_CPU

    def untyped_storage(self) -> Any:  # PyTorch's class cannot hold an array
        """The memory as a handle for comparisons: see
        :class:`lazynb.frontends.torch.dispatch.tensor_storage.StorageHandle`."""
        return StorageHandle(self._storage)

    def data_ptr(self) -> int:
        """A number that stands for the address of the first element; it cannot be dereferenced."""
        return int(self.untyped_storage().data_ptr()) + self._layout.offset * self._layout.dtype.itemsize

    def resolve_conj(self) -> Any:
        """A copy if this is a conjugate view, else the tensor itself."""
        return self.clone() if any(step in self._steps for step in _CONJUGATES) else self

    def resolve_neg(self) -> Any:
        """A copy if this is a negative view, else the tensor itself."""
        return self.clone() if any(step in self._steps for step in _NEGATIVES) else self

    def share_memory_(self) -> Any:
        raise NotImplementedError(
            "lazynb.torch: memory on device jax belongs to one process; share a copy: t.cpu().share_memory_()"
        )

    def is_shared(self) -> bool:
        return False

    def cpu(self, memory_format: Any = torch.preserve_format) -> torch.Tensor:
        return self.to("cpu", memory_format=memory_format)

    def __reduce_ex__(self, protocol: Any) -> Any:
        if isinstance(self, torch.nn.Parameter):
            return torch._utils._rebuild_parameter, (self.data, self.requires_grad, {})
        with torch.no_grad():
            plain = to_cpu(self, "pickle")
        state = (plain, self.dtype, str(self.device), self.requires_grad)
        return torch._utils._rebuild_device_tensor_from_cpu_tensor, state

    def __copy__(self) -> Any:
        new: Any = self.detach()
        if isinstance(self, torch.nn.Parameter):
            new = torch.nn.Parameter(new, self.requires_grad)
        else:
            new.requires_grad_(self.requires_grad)
        for name, value in self.__dict__.items():
            new.__dict__.setdefault(name, value)
        return new

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at "
                "the moment.  If you were attempting to deepcopy a module, this may be because of a "
                "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
            )
        if isinstance(self, torch.nn.Parameter):  # as in PyTorch: new memory, no gradient
            with torch.no_grad():
                memo[id(self)] = torch.nn.Parameter(self.detach().clone(), self.requires_grad)
            return memo[id(self)]
        new: Any = Tensor.__new__(type(self), _copied(self._storage, memo), self._layout, self._steps)
        memo[id(self)] = new.requires_grad_(self.requires_grad)
        if self.grad is not None:
            new.grad = self.grad.__deepcopy__(memo)
        return new

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return tensor_values.repr_without_run(self, to_cpu)

    def __str__(self) -> str:
        if tool_access.active:
            return tensor_values.repr_without_run(self, to_cpu)
        return tensor_values.value_text(self, to_cpu(self, "print"))

    def __format__(self, spec: str) -> str:
        if tool_access.active:
            return tensor_values.repr_without_run(self, to_cpu)
        if self.dim() == 0:
            return format(_scalar(self, "format"), spec)
        return format(tensor_values.value_text(self, to_cpu(self, "format")), spec)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        value = self._elem
        if isinstance(value, LazyTensor) and value.is_pending:
            bundle = value._repr_mimebundle_()
            return {**bundle, "text/plain": repr(self)}
        return {"text/plain": repr(self)}

    def __coerce_same_metadata_as_tangent__(self, *_: Any) -> Any:
        """Called by ``torch.compile`` for a gradient of a tensor subclass."""
        return self

    def torch(self) -> Any:  # last method: its name hides the module ``torch`` below
        """The values as a CPU tensor; a trace break while they are pending."""
        return to_cpu(self, "asarray", "Tensor.torch")


def _copied(storage: Storage, memo: Any) -> Storage:
    """A copy of ``storage``, the same for all tensors that share it in one ``copy.deepcopy``."""
    copy = memo.get(id(storage))
    if copy is None:
        copy = memo[id(storage)] = storage.copied()
        memo.setdefault(id(memo), []).append(storage)  # keeps ``storage`` alive, as its id is a key
    return copy


def mark_held_outside(value: Any) -> Any:
    """Marks an array that other code may hold, and may delete or donate while a program needs it.

    Other arrays of storages are not tracked, so recording a model needs no guard for each parameter.
    """
    if value.__class__ is jc.ArrayImpl and id(value) not in held_outside.ids:
        held_outside.add(value)
        protect_everywhere(value)
    return value


def wrap(value: Any, layout: Layout) -> Tensor:
    """A new tensor with the array ``value``."""
    return Tensor.__new__(Tensor, Storage(value, layout), layout)


def force_value(value: Any, kind: str, detail: str = "") -> Any:
    """The concrete array; a trace break of ``kind`` if it is pending."""
    return value._force(kind, detail) if isinstance(value, LazyTensor) else value


def to_cpu(tensor: Tensor, kind: str, detail: str = "") -> torch.Tensor:
    """The values as a CPU tensor with its own memory."""
    plain = known_integers.force_values(tensor, kind, detail)
    if plain is not None:
        return plain.clone(memory_format=torch.contiguous_format)
    array = force_value(tensor._elem, kind, detail)
    return array_to_torch(array, tensor.dtype).detach()


def _scalar(tensor: Tensor, kind: str) -> Any:
    plain = known_integers.force_values(tensor, kind)
    if plain is not None:
        return plain.item()
    value = tensor._elem
    if isinstance(value, LazyTensor):
        value = value._force(kind)
    if tensor.dtype is complex32.COMPLEX32:
        return array_to_torch(value, tensor.dtype).item()
    return np.asarray(value).reshape(()).item()


def _dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    raise RuntimeError("lazynb.torch.enable() was not called")


def set_dispatch(function: Any) -> None:
    """Sets the function that executes PyTorch operations."""
    global _dispatch
    _dispatch = function
