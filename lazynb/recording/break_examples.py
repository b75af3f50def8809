"""Examples of trace breaks: for each kind a small program with the break, and the same program without it.

Both run unchanged in lazy mode after ``PRELUDE``, and the tests run them. ``out`` is the result. An explicit
break (a barrier) can only be moved; its second program breaks less often.
"""

from __future__ import annotations

import textwrap

PRELUDE = "import jax\nimport jax.numpy as jnp\nimport numpy as np\nimport lazynb\n"
"""The imports that the programs need."""

_PROGRAMS: dict[str, tuple[str, str]] = {
    "bool": (
        """
        x = jnp.arange(5.0)
        if x.sum() > 3:
            out = x * 2
        else:
            out = x
        """,
        """
        x = jnp.arange(5.0)
        out = jnp.where(x.sum() > 3, x * 2, x)
        """,
    ),
    "int": (
        """
        x = jnp.arange(6.0)
        half = int(x.sum() / 2)
        out = x * half
        """,
        """
        x = jnp.arange(6.0)
        half = jnp.trunc(x.sum() / 2)
        out = x * half
        """,
    ),
    "float": (
        """
        x = jnp.ones(4)
        out = []
        for step in range(3):
            x = x * 0.5
            out.append(float(x.sum()))
        """,
        """
        x = jnp.ones(4)
        out = []
        for step in range(3):
            x = x * 0.5
            out.append(x.sum())  # lazynb.sync(out) and float() when the loop is done
        """,
    ),
    "complex": (
        """
        x = jnp.arange(3.0)
        turn = complex(x.sum()) * 1j
        out = x * turn
        """,
        """
        x = jnp.arange(3.0)
        turn = x.sum() * 1j
        out = x * turn
        """,
    ),
    "index": (
        """
        rows = jnp.arange(12.0).reshape(4, 3)
        best = rows.sum(axis=1).argmax()
        out = [10.0, 20.0, 30.0, 40.0][best]
        """,
        """
        rows = jnp.arange(12.0).reshape(4, 3)
        best = rows.sum(axis=1).argmax()
        out = jnp.array([10.0, 20.0, 30.0, 40.0])[best]
        """,
    ),
    "item": (
        """
        x = jnp.ones(4)
        out = []
        for step in range(3):
            x = x * 0.5
            out.append(x.sum().item())
        """,
        """
        x = jnp.ones(4)
        out = []
        for step in range(3):
            x = x * 0.5
            out.append(x.sum())
        """,
    ),
    "tolist": (
        """
        x = jnp.arange(4.0)
        out = [value + 1 for value in (x * 2).tolist()]
        """,
        """
        x = jnp.arange(4.0)
        out = x * 2 + 1
        """,
    ),
    "print": (
        """
        out = jnp.ones(4)
        for step in range(3):
            out = out * 0.5
            print(out.sum())
        """,
        """
        out = jnp.ones(4)
        sums = []
        for step in range(3):
            out = out * 0.5
            sums.append(out.sum())
        lazynb.sync()
        print(*sums)
        """,
    ),
    "format": (
        """
        out = jnp.ones(4)
        for step in range(3):
            out = out * 0.5
            print(f"step {step}: {out.sum():.3f}")
        """,
        """
        out = jnp.ones(4)
        sums = []
        for step in range(3):
            out = out * 0.5
            sums.append(out.sum())
        lazynb.sync()
        for step, total in enumerate(sums):
            print(f"step {step}: {total:.3f}")
        """,
    ),
    "asarray": (
        """
        x = jnp.arange(4.0)
        out = jnp.sqrt(np.asarray(x * 2))
        """,
        """
        x = jnp.arange(4.0)
        out = jnp.sqrt(x * 2)
        """,
    ),
    "dlpack": (
        """
        x = jnp.arange(4.0)
        out = np.from_dlpack(x * 2).max()
        """,
        """
        x = jnp.arange(4.0)
        out = (x * 2).max()
        """,
    ),
    "pickle": (
        """
        import pickle
        out = jnp.ones(4)
        saved = []
        for step in range(3):
            out = out * 0.5
            saved.append(pickle.dumps(out))
        """,
        """
        import pickle
        out = jnp.ones(4)
        states = []
        for step in range(3):
            out = out * 0.5
            states.append(out)
        lazynb.sync()
        saved = [pickle.dumps(state) for state in states]
        """,
    ),
    "bytes": (
        """
        x = jnp.arange(4.0)
        out = len((x * 2).tobytes())
        """,
        """
        x = jnp.arange(4.0)
        out = (x * 2).nbytes
        """,
    ),
    "attribute": (
        """
        x = jnp.arange(4.0)
        out = [shard.device.id for shard in (x * 2).addressable_shards]
        """,
        """
        x = jnp.arange(4.0)
        out = [device.id for device in (x * 2).sharding.device_set]
        """,
    ),
    "buffer": (
        """
        x = jnp.arange(4.0)
        out = (x * 2).on_device_size_in_bytes()
        """,
        """
        x = jnp.arange(4.0)
        out = (x * 2).nbytes
        """,
    ),
    "contains": (
        """
        x = jnp.arange(4.0)
        out = x * 2 if 3.0 in x else x
        """,
        """
        x = jnp.arange(4.0)
        out = jnp.where((x == 3.0).any(), x * 2, x)
        """,
    ),
    "save": (
        """
        import io
        out = jnp.ones(4)
        for step in range(3):
            out = out * 0.5
            np.save(io.BytesIO(), out)
        """,
        """
        import io
        out = jnp.ones(4)
        states = []
        for step in range(3):
            out = out * 0.5
            states.append(out)
        lazynb.sync()
        np.savez(io.BytesIO(), *states)
        """,
    ),
    "plot": (
        """
        from matplotlib.figure import Figure
        axes = Figure().subplots()
        out = jnp.arange(4.0)
        for step in range(3):
            out = out * 0.5
            axes.plot(out)
        """,
        """
        from matplotlib.figure import Figure
        axes = Figure().subplots()
        out = jnp.arange(4.0)
        curves = []
        for step in range(3):
            out = out * 0.5
            curves.append(out)
        lazynb.sync()
        for curve in curves:
            axes.plot(curve)
        """,
    ),
    "static": (
        """
        x = jnp.arange(6.0)
        count = (x > 2).sum()
        out = x[:count].sum()
        """,
        """
        x = jnp.arange(6.0)
        count = (x > 2).sum()
        out = jnp.where(jnp.arange(x.size) < count, x, 0).sum()
        """,
    ),
    "sync": (
        """
        out = jnp.ones(4)
        for step in range(3):
            out = out * 0.5
            lazynb.sync()
            out = out + 1
            lazynb.sync()
        """,
        """
        out = jnp.ones(4)
        for step in range(3):
            out = out * 0.5
            out = out + 1
            lazynb.sync()
        """,
    ),
    "block": (
        """
        out = jnp.ones(4)
        for step in range(3):
            out = out * 0.5
            out.block_until_ready()
        """,
        """
        out = jnp.ones(4)
        for step in range(3):
            out = out * 0.5
        out.block_until_ready()
        """,
    ),
    "compile": (
        """
        %%compile
        x = jnp.arange(4.0)
        out = x * 2
        """,
        """
        %%compile --no-run
        x = jnp.arange(4.0)
        out = x * 2
        """,
    ),
    "limit": (
        """
        lazynb.config.max_program = 10
        lazynb.config.max_pending = 30  # thousands as a rule
        out = jnp.ones(4)
        for step in range(50):
            out = out + 1
        """,
        """
        lazynb.config.max_program = 10
        lazynb.config.max_pending = 30
        out = jnp.ones(4)
        for step in range(50):
            out = out + 1
            if step % 10 == 9:
                lazynb.sync()
        """,
    ),
    "effect": (
        """
        out = jnp.ones(4)
        for step in range(3):
            out = out * 0.5
            jax.debug.print("{}", out.sum())
        """,
        """
        out = jnp.ones(4)
        sums = []
        for step in range(3):
            out = out * 0.5
            sums.append(out.sum())
        lazynb.sync()
        print(*sums)
        """,
    ),
    "callback": (
        """
        out = jnp.arange(4.0)
        result = jax.ShapeDtypeStruct((4,), jnp.float32)
        for step in range(3):
            out = jax.pure_callback(lambda v: v + np.float32(step), result, out * 2)
        """,
        """
        out = jnp.arange(4.0)
        result = jax.ShapeDtypeStruct((4,), jnp.float32)
        for step in range(3):
            out = jax.pure_callback(lambda v, step: v + np.float32(step), result, out * 2, step)
        """,
    ),
    "unrecordable": (
        """
        x = jnp.arange(4.0)
        y = x * 2
        with jax.debug_nans(True):
            out = y + 1
        """,
        """
        x = jnp.arange(4.0)
        y = x * 2
        out = y + 1
        bad = jnp.isnan(out).any()
        """,
    ),
    "eager": (
        """
        x = jnp.arange(4.0)
        y = x * 2
        with lazynb.eager():
            out = y + 1
        """,
        """
        x = jnp.arange(4.0)
        y = x * 2
        out = y + 1
        """,
    ),
    "thread": (
        """
        import threading
        x = jnp.arange(4.0) * 2
        results = []
        def work():
            with lazynb.lazy():
                results.append(x + 1)
                lazynb.sync()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        out = results[0]
        """,
        """
        import threading
        x = jnp.arange(4.0) * 2
        lazynb.sync(x)
        results = []
        def work():
            with lazynb.lazy():
                results.append(x + 1)
                lazynb.sync()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        out = results[0]
        """,
    ),
    "device_put": (
        """
        x = np.arange(4, dtype=np.float32)
        out = jax.device_put(jnp.sqrt(x), jax.devices()[-1])
        """,
        """
        x = np.arange(4, dtype=np.float32)
        out = jnp.sqrt(jax.device_put(x, jax.devices()[-1]))
        """,
    ),
    "devices": (
        """
        a = jax.device_put(1.0, jax.devices()[0]) * 2
        b = jax.device_put(1.0, jax.devices()[-1]) * 2
        try:
            total = a + b
        except ValueError as error:
            print(error)
        """,
        """
        a = jax.device_put(1.0, jax.devices()[0]) * 2
        b = jax.device_put(1.0, jax.devices()[0]) * 2
        total = a + b
        """,
    ),
    "compiled": (
        """
        x = np.arange(4, dtype=np.float32)
        double = jax.jit(lambda v: v * 2).lower(x).compile()
        out = double(jnp.sqrt(x))
        """,
        """
        x = np.arange(4, dtype=np.float32)
        double = jax.jit(lambda v: v * 2)
        out = double(jnp.sqrt(x))
        """,
    ),
    "sharding": (
        """
        mesh = jax.make_mesh((len(jax.devices()),), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
        x = jax.device_put(np.arange(8, dtype=np.float32), spread) * 2
        out = jax.jit(lambda v: v + 1, in_shardings=spread)(x)
        """,
        """
        mesh = jax.make_mesh((len(jax.devices()),), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
        x = jax.device_put(np.arange(8, dtype=np.float32), spread) * 2
        x = jax.device_put(x, spread)
        out = jax.jit(lambda v: v + 1, in_shardings=spread)(x)
        """,
    ),
    "numpy_function": (
        """
        x = jnp.arange(4.0) * 2
        out = np.sin(x, where=x >= 0)  # elsewhere the result is whatever was in memory
        """,
        """
        x = jnp.arange(4.0) * 2
        out = jnp.where(x >= 0, jnp.sin(x), 0)
        """,
    ),
    "numpy_dtype": (
        """
        counts = jnp.arange(4) * 2
        out = np.add(counts, 1, dtype=object)  # Python's integers
        """,
        """
        counts = jnp.arange(4) * 2
        out = np.add(counts, 1, dtype=np.int64)
        """,
    ),
    "numpy_values": (
        """
        x = jnp.array([3.0, 1.0, 3.0])
        out = np.unique(x * 2)
        """,
        """
        x = jnp.array([3.0, 1.0, 3.0])
        out = jnp.unique(x * 2, size=2)
        """,
    ),
    "numpy_out": (
        """
        x = jnp.arange(4.0)
        out = np.empty(4, np.float32)
        np.multiply(x, 2, out=out)
        """,
        """
        x = jnp.arange(4.0)
        out = np.multiply(x, 2)
        """,
    ),
    "numpy_library": (
        """
        import scipy.linalg

        x = jnp.arange(4.0) * 2
        out = scipy.linalg.toeplitz(np.sqrt(x))
        """,
        """
        import jax.scipy.linalg

        x = jnp.arange(4.0) * 2
        out = jax.scipy.linalg.toeplitz(jnp.sqrt(x))
        """,
    ),
    "delete": (
        """
        x = jnp.arange(4.0)
        out = x * 2
        x.delete()
        """,
        """
        x = jnp.arange(4.0)
        out = x * 2
        lazynb.sync()
        x.delete()
        """,
    ),
    "hosts_differ": (
        """
        # on several hosts, after jax.distributed.initialize()
        from jax.sharding import NamedSharding, PartitionSpec as P

        mesh = jax.make_mesh((jax.device_count(),), ("data",))
        x = jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("data")))
        loss = (x * 2).sum()
        if jax.process_index() == 0:
            print(float(loss))
        out = float((x * 3).sum())
        """,
        """
        # on several hosts, after jax.distributed.initialize()
        from jax.sharding import NamedSharding, PartitionSpec as P

        mesh = jax.make_mesh((jax.device_count(),), ("data",))
        x = jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("data")))
        loss = (x * 2).sum()
        lazynb.sync()
        if jax.process_index() == 0:
            print(float(loss))
        out = float((x * 3).sum())
        """,
    ),
}

EXAMPLES: dict[str, tuple[str, str]] = {
    kind: (textwrap.dedent(example).strip() + "\n", textwrap.dedent(cure).strip() + "\n")
    for kind, (example, cure) in _PROGRAMS.items()
}
"""The program with the break and the one without, by kind."""
