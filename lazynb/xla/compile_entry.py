"""``lazynb.compile``, and which compilation was the last."""

from __future__ import annotations

from typing import Any

from lazynb.errors import LazynbError, TraceBreakError
from lazynb.recording.snapshot.variable_names import user_namespace
from lazynb.xla.compilation import Compilation
from lazynb.xla.compilation_builder import compile_tensors
from lazynb.xla.external.external_programs import compile_stage, is_jax_stage
from lazynb.xla.function_compilation import compile_function, is_function
from lazynb.xla.targets.target_chip import parse_target
from lazynb.xla.xla_flags import compile_with_flags, requested_flags


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
    """Compiles the operations that tensors (or pytrees of them) need, or a function for its arguments. Runs
    nothing.

    Without arguments, compiles all pending operations of this thread.

    Arguments:
      what: tensors; or a function and its arguments, which may be arrays or, where only the type is known,
        ``jax.ShapeDtypeStruct``. The function, jitted or not, is recorded operation by operation; it may need
        no value. Or a stage of ``jax.jit``: what ``lower`` or ``trace`` gave is compiled as it is; of what
        ``compile`` gave, what is left in it is shown.
      target: a chip to compile for that need not be there, and how many: ``v5e``, ``v5e:4x4``, ``h100:8``;
        ``lazynb targets`` lists them. ``cpu``, and None, are this machine.
      mesh: axes and sizes of a mesh of all the target's devices: ``"data=4,model=4"``, or a dictionary.
        Without it the mesh that the arrays lie on, if it has as many devices; else the program runs on one of
        them.
      shard: how inputs lie on the mesh, by the user's name or that of the function's parameter:
        ``"x=data,."``, a dictionary, for a whole tree :func:`shard_like`, or a list of these. Others lie as
        the user's arrays do on axes of the same names, else whole on each device.
      as_jit: compile what ``jax.jit`` of the function compiles, or of one that returns the tensors: these
        alone are results, arrays and numbers from outside are arguments, numbers in the code are constants.
        Nothing runs that program; it is there to be looked at. A stage of ``jax.jit`` is that already.
      flags: options of XLA's to compile it with, ``{"xla_cpu_enable_fast_math": True}`` or
        ``["xla_cpu_enable_fast_math=true"]``. Nothing runs that program either.
      without: the same with code of XLA's own in place of a library's, such as ``"YNNPACK"``.
      kwargs: the function's.

    Returns:
      A :class:`Compilation`: ``clusters``, ``fates``, ``boundaries``, ``hlo``, ``cache_event``. A later run
      uses its programs.

    Raises:
      Exception: JAX's error if the program cannot be lowered or compiled; the pending graph is as before.
      TraceBreakError: the function needs a value.
      ValueError: there is no such target, the mesh does not fit, or no input is called as ``shard`` says.
      LazynbError: the target's compiler is not installed, refused the program, or ended; there is no such
        function of ``jax.jit``; XLA refuses a flag, or one is for a target.
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
    except TraceBreakError:  # which of the user's lines
        raise
    except LazynbError as error:  # of the target, of a flag: its message says it all
        raise error.with_traceback(None) from None


def _compile_stage_alone(
    what: tuple[Any, ...], target: Any, mesh: Any, shard: Any, kwargs: Any
) -> Compilation:
    """The compilation of a stage of ``jax.jit``, which takes no arguments."""
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
    """Notes that this is the newest one; returns it."""
    _last[:] = [compilation]
    return compilation


def last_compilation() -> Compilation | None:
    """The newest compilation that was asked for, or None."""
    return _last[0] if _last else None
