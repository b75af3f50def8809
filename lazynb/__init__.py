"""lazynb: a lazy notebook on JAX/XLA.

``%load_ext lazynb`` in a notebook, or ``with lazynb.lazy():`` in a program, records JAX's operations instead
of running them. The pending operations compile and run as one program when Python needs a value.
"""

from __future__ import annotations

from typing import Any as _Any

from lazynb.compare.costs.budget import BudgetExceeded as BudgetExceeded, budget as budget
from lazynb.compare.costs.call_explanation import Explanation as Explanation, explain as explain
from lazynb.compare.misses.cache_info import (
    CacheInfo as CacheInfo,
    cache_info as cache_info,
    clear_cache as clear_cache,
)
from lazynb.compare.misses.compilation_causes import Event as Event, events as events
from lazynb.compare.numerics.numerics_result import Numerics as Numerics, numerics_of as _numerics_of
from lazynb.config import config as config
from lazynb.errors import (
    HostMissingError as HostMissingError,
    HostsDifferError as HostsDifferError,
    LazynbError as LazynbError,
    TraceBreakError as TraceBreakError,
)
from lazynb.frontends.import_hook import install as _watch_libraries
from lazynb.recording import function_substitutes as _ambient  # noqa: F401
from lazynb.recording.lazy_mode import eager as eager, lazy as lazy
from lazynb.recording.lazy_tensor import LazyTensor as LazyTensor
from lazynb.recording.runtime_interface import RuntimeHooks as _Hooks
from lazynb.recording.snapshot.variable_names import user_namespace as _user_namespace
from lazynb.report.comparison_report import Diff as Diff, side_of as _side_of
from lazynb.report.explanation_report import install as _install_explanation
from lazynb.report.graph.lazy_graph import Graph as Graph, graph_of as _graph_of, mime_bundle_of as _show
from lazynb.report.inspection.inspection_page import (
    install as _install_inspector,
    set_last_compilation as _remember,
)
from lazynb.report.numerics_report import install as _install_numerics
from lazynb.running.break_log import Breaks as Breaks, TraceBreak as TraceBreak, breaks as breaks
from lazynb.running.flush import execution as _execution
from lazynb.running.hosts.host_presence import presence as _presence
from lazynb.version import __version__ as __version__
from lazynb.xla.compilation import Compilation as Compilation
from lazynb.xla.compilation_builder import compile_tensors as _compile_tensors
from lazynb.xla.external.external_programs import compile_stage as _compile_given, is_jax_stage as _is_given
from lazynb.xla.function_compilation import compile_function as _compile_function, is_function as _is_function
from lazynb.xla.targets.target_chip import parse_target as _target_of
from lazynb.xla.targets.target_mesh import shard_like as shard_like
from lazynb.xla.xla_flags import compile_with_flags as _compiled_with, requested_flags as _flags_asked

_execution.show = _show
_install_inspector()
_install_explanation()
_install_numerics()


def _numpy_calls() -> _Any:
    from lazynb.frontends.numpy import numpy_protocols

    _Hooks.numpy = lambda: numpy_protocols
    return numpy_protocols


def _entered() -> None:
    _presence.begin()
    _watch_libraries()


_Hooks.numpy, _Hooks.on_block_enter = _numpy_calls, _entered


def sync(*tensors: _Any) -> None:
    """Barrier: runs the operations that ``tensors`` (or pytrees of them) need.

    Without arguments, runs all pending operations of this thread. Returns at once, as JAX does: the device
    computes asynchronously.

    Raises:
      Exception: JAX's error if the program cannot be compiled or run; the pending graph is as before.
    """
    _execution.sync(*tensors)


def graph(*tensors: _Any) -> Graph:
    """The graph of the operations that ``tensors`` (or pytrees of them) need. Never runs anything.

    Without arguments, the graph of all pending operations.

    Returns:
      A :class:`Graph`: ``nodes``, ``inputs``, ``outputs``, ``len()``, ``to_jaxpr()``, ``to_stablehlo()``,
      ``to_dot()``, ``to_svg()``, ``to_json()``; in a notebook it is drawn.
    """
    return _graph_of(tensors, _user_namespace())


def compile(
    *what: _Any,
    target: str | None = None,
    mesh: _Any = None,
    shard: _Any = None,
    as_jit: bool = False,
    flags: _Any = None,
    without: _Any = None,
    **kwargs: _Any,
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
    chosen = _target_of(target)
    try:
        asked = _flags_asked(flags, without, is_here=chosen is None)
        if what and _is_given(what[0]):
            return _remember(_compiled_with(_given(what, target, mesh, shard, kwargs), asked))
        if chosen is not None:
            chosen = chosen.on_mesh(mesh, shard)
        is_called = bool(what) and _is_function(what[0])
        if kwargs and not is_called:
            raise TypeError(f"compile() got an unexpected keyword argument {next(iter(kwargs))!r}")
        if is_called:
            made = _compile_function(what[0], what[1:], kwargs, _user_namespace(), chosen, as_jit)
        else:
            made = _compile_tensors(what, _user_namespace(), target=chosen, as_jit=as_jit)
        return _remember(_compiled_with(made, asked))
    except TraceBreakError:  # which of the user's lines
        raise
    except LazynbError as error:  # of the target, of a flag: its message says it all
        raise error.with_traceback(None) from None


def _given(what: tuple[_Any, ...], target: _Any, mesh: _Any, shard: _Any, kwargs: _Any) -> Compilation:
    """The compilation of a stage of ``jax.jit``, which takes no arguments."""
    __tracebackhide__ = True
    beside = [*what[1:], *kwargs.values(), *filter(None, (target, mesh, shard))]
    if beside:
        raise TypeError(
            f"{type(what[0]).__name__} is a program for its own arguments and chip: {beside[0]!r} goes with "
            "a function"
        )
    return _compile_given(what[0])


def diff(a: _Any, b: _Any) -> Diff:
    """What differs between two compilations, line by line: kernels, bytes, operations, memory, passes, times.

    Runs nothing; what is not compiled yet is compiled.

    Arguments:
      a, b: before and now. Each is a :class:`Compilation`; a tuple of a function and its arguments,
        ``(f, x, y)``, of which types are enough; a :class:`LazyTensor` or :class:`Graph` that is pending;
        what ``jax.jit(f)`` gives with ``.lower(...)`` or ``.compile()``; or the path of a file: what
        ``lazynb run --save`` or ``lazynb inspect --json`` wrote, perhaps with another JAX or for another
        chip, HLO (``.hlo``, ``.txt``) or StableHLO (``.mlir``).

    Returns:
      A :class:`Diff`: ``changes`` (the one that matters most first; empty if the programs are the same),
      ``headline`` (three sentences at most), ``passes`` (of XLA, that acted differently), ``to_dicts()``,
      ``to_json()``, ``save_html()``. Sizes are in bytes, times in seconds. Times are compared if both were
      profiled.

    Raises:
      TypeError: one of them is nothing that can be compared.
      ValueError: one of them has no program, or the file holds no inspection.
      OSError: a file cannot be read.
      TraceBreakError: a function needs a value.
      LazynbError: a file holds no program, or one for another machine; the message says which.
    """
    __tracebackhide__ = True
    namespace = _user_namespace()
    return Diff(_side_of(a, "before", namespace), _side_of(b, "now", namespace))


def numerics(f: _Any, /, *args: _Any, target: str | None = None, **kwargs: _Any) -> Numerics:
    """Where the compiled values of ``f(*args, **kwargs)`` part from those of eager JAX, by how many ULPs, and
    why.

    The function, jitted or not, is called once and recorded operation by operation. Each operation is then
    run as eager JAX runs it, as a part of the program that ``jax.jit(f)`` compiles, and in float64.

    Arguments:
      f: may need no value; arrays that it closes over are constants of the program, as under ``jax.jit``.
      args, kwargs: arrays and numbers, in any pytrees, and whatever else it takes.
      target: only this machine (``cpu``, or None) has values to compare.

    Returns:
      A :class:`Numerics`: ``operations``, ``first`` (the first that parts by more than rounding, or None),
      ``cause``, ``nonfinite``, ``to_dicts()``.

    Raises:
      TypeError: ``f`` cannot be called, or an argument has no value.
      TraceBreakError: the function needs a value in the middle.
      LazynbError: a chip that is not here is asked for; the code is too large; called inside a JAX
        transformation.
      Exception: what the function raises.
    """
    __tracebackhide__ = True
    if _target_of(target) is not None:
        raise LazynbError(
            f"numerics compares values, and values of {target} cannot be had on a machine without one: "
            f"lazynb.compile(f, ..., target={target!r}) shows its program. Leave `target` out for the values "
            "here."
        )
    try:
        return _numerics_of(f, args, kwargs)
    except TraceBreakError:
        raise
    except LazynbError as error:  # its message says it all
        raise error.with_traceback(None) from None


def inspect(
    obj: _Any = None,
    *args: _Any,
    target: str | None = None,
    mesh: _Any = None,
    shard: _Any = None,
    flags: _Any = None,
    without: _Any = None,
    **kwargs: _Any,
) -> _Any:
    """The inspector: the kernels, the lines in each, the reasons for their boundaries, and their cost.

    Runs nothing.

    Arguments:
      obj: a :class:`Compilation`; a :class:`LazyTensor` or a :class:`Graph`, which is compiled first; a
        function, with its arguments, which is compiled as :func:`compile` does it; what ``jax.jit(f)`` gives
        with ``.trace(...)``, ``.lower(...)`` or ``.lower(...).compile()``, or ``jax.export``; the path of a
        file that ``lazynb run --save`` or ``lazynb inspect --json`` wrote, or of a program as text: HLO
        (``.hlo``, ``.txt``) or StableHLO (``.mlir``); by default the last compilation.
      target, mesh, shard, flags, without: as those of :func:`compile`, for a function.

    Returns: an object to display: in a notebook a widget (it needs ``anywidget``), elsewhere its static form.
    For a graph that is no longer pending, the graph.

    Raises:
      TypeError: ``obj`` is none of these.
      ValueError: nothing was compiled yet, or the file holds no inspection.
      OSError: the file cannot be read.
      LazynbError: the program is for another machine, or its text is no program; the message says which.
    """
    __tracebackhide__ = True
    from lazynb.notebook.inspection_display import show_inspection as inspect_

    if not isinstance(obj, type) and _is_function(obj):
        made = compile(
            obj, *args, target=target, mesh=mesh, shard=shard, flags=flags, without=without, **kwargs
        )
        return inspect_(made, ran=False)
    given = [*args, *kwargs, *filter(None, (target, mesh, shard, flags, without))]
    if given:
        raise TypeError(f"lazynb.inspect takes {given[0]!r} only with a function, as its argument or for it")
    try:
        return inspect_(obj)
    except LazynbError as error:  # its message says it all
        raise error.with_traceback(None) from None


def __getattr__(name: str) -> _Any:
    if name in ("numpy", "torch"):  # imported with their first use, because the second needs PyTorch
        import importlib

        return importlib.import_module(f"lazynb.{name}")
    raise AttributeError(f"module 'lazynb' has no attribute {name!r}")


def load_ipython_extension(shell: _Any) -> None:
    """``%load_ext lazynb``: makes the following cells run lazily."""
    from lazynb.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: _Any) -> None:
    """``%unload_ext lazynb``: undoes :func:`load_ipython_extension`."""
    from lazynb.notebook.extension import unload

    unload(shell)
