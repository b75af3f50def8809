"""Each thread records for itself; a lazy tensor handed to another thread gives its value there."""

from __future__ import annotations

import threading

import jax.numpy as jnp
import numpy as np

import lazynb


def in_thread(work):
    found = []

    def run():
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert found, "the thread hangs"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def test_other_threads_stay_eager_while_one_is_lazy(clean):
    with lazynb.lazy():
        assert not isinstance(in_thread(lambda: jnp.ones(3) + 1), lazynb.LazyTensor)


def test_a_tensor_gives_its_value_in_an_eager_thread(clean):
    with lazynb.lazy():
        y = jnp.arange(3) * 2
        np.testing.assert_array_equal(in_thread(lambda: np.asarray(y + 1)), [1, 3, 5])
        assert not y.is_pending


def test_a_tensor_gives_its_value_in_a_lazy_thread(clean):
    with lazynb.lazy():
        y = jnp.arange(3) * 2

        def work():
            with lazynb.lazy():
                return np.asarray(y + 1)

        np.testing.assert_array_equal(in_thread(work), [1, 3, 5])
        assert "thread" in {b.kind for b in lazynb.breaks()}


def test_threads_record_at_the_same_time(clean):
    def work(start):
        def run():
            with lazynb.lazy():
                total = 0.0
                x = jnp.float32(start)
                for _ in range(50):
                    x = x * 1.5 - 1
                    total = float(x)
                return total

        return run

    expected = [in_thread(work(s)) for s in range(4)]
    results, barrier = [None] * 4, threading.Barrier(4)

    def run(index):
        barrier.wait()
        results[index] = work(index)()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert results == expected


def test_two_threads_use_each_others_tensors(clean):
    tensors, barrier, results = [None, None], threading.Barrier(2), [None, None]

    def run(index):
        with lazynb.lazy():
            for round_ in range(20):
                tensors[index] = jnp.arange(4) + index + round_
                barrier.wait()
                results[index] = np.asarray(tensors[0] * 10 + tensors[1])
                barrier.wait()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(t.is_alive() for t in threads)
    np.testing.assert_array_equal(results[0], results[1])
