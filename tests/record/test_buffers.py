"""The buffer protocol: memory for who asks for it, on each Python; what NumPy forgets is raised."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lazynb
from lazynb.recording.lazy_tensor import LazyTensor

MADE = np.array([0, 2, 4], np.float32)
TYPES = [jnp.float32, jnp.float16, jnp.int8, jnp.uint32, bool, jnp.complex64]


def pending():
    return jnp.arange(3.0) * 2


def look(view):
    return view.format, view.shape, view.strides, view.readonly, view.nbytes, view.tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_a_view_is_that_of_eager_jax(dtype, clean):
    eager = memoryview(pending().astype(dtype))
    with lazynb.lazy():
        view = memoryview(pending().astype(dtype))
    assert look(view) == look(eager)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.int4, jnp.float8_e4m3fn])
def test_a_type_without_a_format_has_eager_jaxs_error(dtype, clean):
    with pytest.raises(BufferError) as eager:
        memoryview(pending().astype(dtype))
    with lazynb.lazy(), pytest.raises(BufferError) as lazily:
        memoryview(pending().astype(dtype))
    assert str(eager.value) == str(lazily.value)


def test_a_deleted_array_has_eager_jaxs_error(clean):
    gone = pending()
    gone.delete()
    with pytest.raises(BufferError) as eager:
        memoryview(gone)
    with lazynb.lazy():
        tensor = pending()
        tensor.delete()
        with pytest.raises(BufferError) as lazily:
            memoryview(tensor)
        with pytest.raises(RuntimeError, match="deleted"):
            np.asarray(tensor)
    assert str(eager.value) == str(lazily.value)


def test_a_key_array_has_no_buffer_and_stays_pending(clean):
    with lazynb.lazy():
        keys = jax.random.split(jax.random.key(0), 2)
        with pytest.raises(TypeError, match="bytes-like"):
            memoryview(keys)
        assert keys.is_pending


def test_memory_is_read_only_and_outlives_the_tensor(clean):
    with lazynb.lazy():
        tensor = pending()
        view = memoryview(tensor)
        with pytest.raises((BufferError, TypeError)):
            (ctypes.c_char * 12).from_buffer(tensor)  # asks for memory to write to
    del tensor
    gc.collect()
    assert view.tobytes() == MADE.tobytes()


def test_each_value_has_its_own_memory(clean):
    with lazynb.lazy():
        for number in range(50):
            digest = hashlib.sha256(jnp.full(4, number) * 1).digest()
            assert digest == hashlib.sha256(np.full(4, number, np.int32)).digest()


DELETIONS = [slice(0, 2), slice(1 << 20, 0), slice(140_000_000_000_000, 284), slice((1 << 47) - 4096, 1), 0]


@pytest.mark.parametrize("index", DELETIONS, ids=str)
def test_deleting_an_item_raises_the_error_of_eager_jax(index, clean):
    """The errors are those of eager JAX, and no number is taken for an address."""

    def delete(array):
        del array[index]

    def through_a_map(array):
        return list(map(operator.delitem, [array], [index]))

    with lazynb.lazy():
        tensor, array = pending(), np.asarray(MADE)
        for way in (delete, through_a_map, lambda one: operator.delitem(one, index)):
            with lazynb.eager(), pytest.raises(AttributeError) as eager:
                way(jnp.asarray(array))
            with pytest.raises(AttributeError) as lazily:
                way(tensor)
            assert str(eager.value) == str(lazily.value) == "__delitem__"
        assert tensor.is_pending


def test_a_tensor_has_no_delitem_method(clean):
    with lazynb.lazy():
        tensor = pending()
        assert not hasattr(tensor, "__delitem__") and not hasattr(LazyTensor, "__delitem__")
        with pytest.raises(AttributeError):
            tensor.__delitem__(slice(0, 1))
        assert tensor.is_pending


READS = {
    "memoryview": memoryview,
    "bytes": bytes,
    "asarray": np.asarray,
    "array": np.array,
    "frombuffer": lambda one: np.frombuffer(one, np.float32),
    "array of a list": lambda one: np.array([one, one], ndmin=1),  # with ndmin= it is NumPy's
    "float32": np.float32,
}


@pytest.mark.parametrize("name", READS)
def test_an_interrupt_is_raised_and_nothing_is_lost(name, clean, monkeypatch):
    plain, left = LazyTensor._force, [1]

    def interrupted(tensor, *arguments):
        if left:
            left.pop()
            raise KeyboardInterrupt("now")
        return plain(tensor, *arguments)

    with lazynb.lazy():
        tensor = pending()
        monkeypatch.setattr(LazyTensor, "_force", interrupted)
        with pytest.raises(KeyboardInterrupt, match="now"):
            READS[name](tensor)
        assert tensor.is_pending and not left
        found = READS[name](tensor)
        assert bytes(found)[:12] == MADE.tobytes()


def test_an_interrupt_that_was_raised_is_not_raised_again(clean, monkeypatch):
    plain, left = LazyTensor._force, [1]

    def interrupted(tensor, *arguments):
        if left:
            left.pop()
            raise KeyboardInterrupt
        return plain(tensor, *arguments)

    with lazynb.lazy():
        tensor = pending()
        monkeypatch.setattr(LazyTensor, "_force", interrupted)
        for read in (memoryview, np.asarray, lambda one: one.__array__()):
            try:
                result = read(tensor)
            except KeyboardInterrupt:
                assert read is memoryview
        assert result.tobytes() == MADE.tobytes()
