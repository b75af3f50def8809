"""Replay: calls that were recorded before are recorded again without JAX's Python code.

- ``call_replay``: look-up, replay and recording of a call
- ``replay_edge``: the steps that a recorded call appends
- ``python_replay``: functions and operators with replay, in Python
- ``native_replay``: the same in C (``_fast.c``), where it was built
- ``array_functions``: the functions of ``jax.numpy`` and the array methods that get replay
- ``jit_call_cache``: calls of the user's jitted functions
- ``linearize_cache``: linearisation under ``jax.grad``
- ``transpose_cache``: transposition in backward passes
- ``eval_shape_cache``: ``jax.eval_shape`` of pure functions
"""
