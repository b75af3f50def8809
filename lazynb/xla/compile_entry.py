"""``lazynb.compile``, and the record of the last compilation."""

from __future__ import annotations

from typing import Any

from lazynb.errors import LazynbError, TraceBreakError
from lazynb.recording.snapshot.variable_names import user_namespace
from lazynb.running.time_log import analysis
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import compile_tensors
from lazynb.xla.external.external_programs import compile_stage, is_jax_stage
from lazynb.xla.function_compilation import compile_function, is_function
from lazynb.xla.targets.target_chip import parse_target
from lazynb.xla.xla_flags import compile_with_flags, requested_flags


@analysis
def compile(
    *what: Any,
    target: str | None = None,
    mesh: Any = None,
    shard: Any = None,
    as_jit: bool = False,
    flags: Any = None,
    without: Any = None,
    **kwargs: Any,
) -> Compilation:
    """Compiles the operations that tensors or pytrees need, or a function for its arguments. Runs nothing.

    Without arguments, compiles all pending operations of this thread.

    Arguments:
      what: tensors; or a function and its arguments, which may be arrays or, where only the type is known,
        ``jax.ShapeDtypeStruct``; or a stage of ``jax.jit``. A function, jitted or not, is recorded operation
        by operation and must not need a value. The result of ``lower`` or ``trace`` is compiled as it is; a
        ``compile`` result is shown as far as its HLO goes.
      target: a chip to compile for, which need not be present, and how many: ``v5e``, ``v5e:4x4``,
        ``h100:8``; ``lazynb targets`` lists them. ``cpu`` and None are this machine.
      mesh: axes and sizes of a mesh of all the target's devices: ``"data=4,model=4"``, or a dictionary. By
        default it is the mesh of the arrays if that has as many devices, else one device.
      shard: sharding of inputs on the mesh, by the user's name or the function's parameter: ``"x=data,."``, a
        dictionary, :func:`shard_like` for a whole tree, or a list of these. Other inputs keep the sharding of
        the user's arrays if the mesh has the same axes, and are otherwise replicated.
      as_jit: compile what ``jax.jit`` of the function compiles, or of a function that returns the tensors:
        only these are results, arrays and numbers from outside are arguments, numbers in the code are
        constants. The program is for inspection and never run. A stage of ``jax.jit`` has this form already.
      flags: XLA options for the compilation, ``{"xla_cpu_enable_fast_math": True}`` or
        ``["xla_cpu_enable_fast_math=true"]``. The program is for inspection and never run.
      without: names of libraries, such as ``"YNNPACK"``, which XLA replaces by its own code. The program is
        for inspection and never run.
      kwargs: keyword arguments of the function.

    Returns:
      A :class:`Compilation`: ``clusters``, ``fates``, ``boundaries``, ``hlo``, ``cache_event``. A later run
        uses its programs.

    Raises:
      Exception: JAX's error if the program cannot be lowered or compiled; the pending graph is unchanged.
      TraceBreakError: the function needs a value.
      ValueError: the target does not exist, the mesh does not fit, or no input has a name in ``shard``.
      LazynbError: the target's compiler is not installed, refused the program, or crashed; the code is not
        one ``jax.jit`` function; XLA refuses a flag, or flags are given with a target.
    """
    __tracebackhide__ = True
    chosen = parse_target(target)
    try:
        asked = requested_flags(flags, without, is_here=chosen is None)
        if what and is_jax_stage(what[0]):
            return set_last_compilation(
                compile_with_flags(_compile_stage_alone(what, target, mesh, shard, kwargs), asked)
            )
        if chosen is not None:
            chosen = chosen.on_mesh(mesh, shard)
        is_called = bool(what) and is_function(what[0])
        if kwargs and not is_called:
            raise TypeError(f"compile() got an unexpected keyword argument {next(iter(kwargs))!r}")
        if is_called:
            made = compile_function(what[0], what[1:], kwargs, user_namespace(), chosen, as_jit)
        else:
            made = compile_tensors(what, user_namespace(), target=chosen, as_jit=as_jit)
        return set_last_compilation(compile_with_flags(made, asked))
    except TraceBreakError:  # keeps the traceback, which shows the user's line
        raise
    except LazynbError as error:  # about the target or a flag: the message is sufficient
        raise error.with_traceback(None) from None


def _compile_stage_alone(
    what: tuple[Any, ...], target: Any, mesh: Any, shard: Any, kwargs: Any
) -> Compilation:
    """Compiles a stage of ``jax.jit``, which takes no arguments."""
    __tracebackhide__ = True
    beside = [*what[1:], *kwargs.values(), *filter(None, (target, mesh, shard))]
    if beside:
        raise TypeError(
            f"{type(what[0]).__name__} is a program for its own arguments and chip: {beside[0]!r} goes with "
            "a function"
        )
    return compile_stage(what[0])


_last: list[Compilation] = []


def set_last_compilation(compilation: Compilation) -> Compilation:
    """Records the newest compilation and returns it."""
    _last[:] = [compilation]
    return compilation


def last_compilation() -> Compilation | None:
    """The newest compilation that the user requested, or None."""
    return _last[0] if _last else None
