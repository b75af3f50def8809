"""JAX's configuration: the part that identifies an operation, and the settings under which lazynb works."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src import (
    api as _api,
    compute_on as _compute_on,
    config as _config,
    core as _core,
    layout as _layout,
    mesh as _mesh,
    sharding_impls as _sharding_impls,
    xla_metadata as _xla_metadata,
)

# 0.12 moved the meshes in force from ``config`` to ``mesh``.
_device_context = getattr(_config, "device_context", None) or _mesh.device_context
_abstract_mesh = (
    getattr(_config, "abstract_mesh_context_manager", None) or _mesh.abstract_mesh_context_manager
)


# The axis environment says which vmap axes are in scope while an operation is bound. What reaches the lowest
# trace no longer mentions them, so they do not identify a recorded operation.
_AXIS_ENV = type(_core.axis_env_state.value)


def raw_context() -> tuple[Any, ...]:
    """What JAX's configuration contributes to a trace: a new tuple at each call.

    JAX's own has the abstract mesh alone, but a program also runs on the devices of the mesh. Nothing is
    recorded while operations run where they stand (:func:`folds_constants`), so that setting is left out.
    """
    if folds_constants():
        with _config.eager_constant_folding(False):
            return (_device_context.value, *_config.trace_context())
    return (_device_context.value, *_config.trace_context())


def context() -> tuple[Any, ...]:
    """The :func:`raw_context` without the vmap axes in scope."""
    full = raw_context()
    return full[:-1] if type(full[-1]) is _AXIS_ENV else tuple(v for v in full if type(v) is not _AXIS_ENV)


def canonical_context(full: tuple[Any, ...]) -> tuple[Any, ...]:
    """A :func:`context` with None for the empty mesh: JAX 0.10 sets it under ``grad`` and means none."""
    return tuple(None if type(one) in (_mesh.AbstractMesh, _mesh.Mesh) and one.empty else one for one in full)


def is_same_context(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two :func:`raw_context` mean the same. One that is opened under ``grad`` has the empty mesh."""
    return one == other or canonical_context(one) == canonical_context(other)


def placement_context() -> tuple[Any, ...]:
    """The settings that decide where and how a whole program is compiled. A change starts a new graph."""
    return (
        _config.enable_x64.value,
        _config.default_device.value,
        _device_context.value,
        _mesh.get_abstract_mesh(),
    )  # JAX sets the empty mesh now and then; it equals no mesh


def must_run_eagerly() -> bool:
    """Whether each operation is to run where it stands: the code asks for it (``ensure_compile_time_eval``),
    or a debugging mode looks at its result (checks of NaN and of reused keys) or at what it moves to the
    device (transfer guards), or forbids operations."""
    return bool(
        folds_constants()
        or _config.debug_nans.value
        or _config.debug_infs.value
        or _config.debug_key_reuse.value
        or _config.no_execution.value
        or guards_transfers()
    )


def folds_constants() -> bool:
    """Whether the code asks for operations to run where they stand (``ensure_compile_time_eval``)."""
    return bool(_config.eager_constant_folding.value)


def guards_transfers() -> bool:
    """Whether JAX looks at what is moved to a device, or from one to another."""
    to_device = _config.transfer_guard_host_to_device.value or "allow"
    between = _config.transfer_guard_device_to_device.value or "allow"
    return to_device != "allow" or between != "allow"


def can_run_executables() -> bool:
    """Whether an executable can be called under the configuration in force, 64-bit mode apart.

    With NaN checks JAX looks at the results of each executable. Eager JAX would have run unchecked what was
    recorded before the user switched them on. And an error after the run would lose the results, and the
    memory that was given away for them.
    """
    return not (
        _config.disable_jit.value
        or _config.debug_nans.value
        or _config.debug_infs.value
        or guards_transfers()
    )


def x64_is(x64: bool) -> bool:
    """Whether 64-bit mode is ``x64``."""
    return _config.enable_x64.value is x64


def x64_mode(x64: bool) -> Settings:
    """64-bit mode ``x64``, and nothing else; in a :func:`mode_kept`, as a signal can reach it."""
    return Settings({_config.enable_x64: x64}, hooks=True, states=_MODE)


def x64_preserved() -> Settings:
    """As :func:`settings_kept`, of 64-bit mode alone."""
    return Settings({}, states=_MODE)


def running_settings(x64: bool) -> Settings:
    """Settings under which an executable made in 64-bit mode ``x64`` can be called."""
    values = {
        _config.enable_x64: x64,
        _config.disable_jit: False,
        _config.transfer_guard_host_to_device: "allow",
        _config.transfer_guard_device_to_device: "allow",
        _config.debug_nans: False,
        _config.debug_infs: False,
        _api._post_hook_state: None,  # the last: a hook of those above sets it
    }
    return Settings(values, hooks=True)


def snapshot_x64(snapshot: dict[Any, Any]) -> bool:
    """Whether 64-bit mode was on when :func:`snapshot_config` was called."""
    return snapshot[_config.enable_x64]


def _states() -> list[Any]:
    states = [
        state
        for state in vars(_config).values()
        if isinstance(state, _config.State) and hasattr(state, "swap_local")
    ]
    return [*states, _device_context, _abstract_mesh]


def snapshot_config() -> dict[Any, Any]:
    """The settings under which a program is lowered and compiled, whenever that is done.

    They are those that identify a recorded operation, and the checks that look at it. For the others (logs,
    checks for leaks) the user's settings of the moment count.
    """
    traced = set(_config.trace_context_names())
    found = {state: state.value for state in _states() if state in _RECORDED or state.name in traced}
    # JAX asks the mesh that it finds in a thread whether it is empty, where one was set at all. None is none.
    found.update({state: empty for state, empty in _NO_MESH.items() if found[state] is None})
    found[_config.eager_constant_folding] = False  # as in :func:`raw_context`
    return found


def settings_now(snapshot: dict[Any, Any]) -> dict[Any, Any]:
    """The settings of ``snapshot``, and all others as they are in this thread, for work in another thread."""
    return {**{state: state.value for state in _states()}, **snapshot}


_NO_MESH = {_device_context: _mesh.empty_concrete_mesh, _abstract_mesh: _mesh.empty_abstract_mesh}

_RECORDED = {
    _device_context,
    _abstract_mesh,
    _config.debug_nans,
    _config.debug_infs,
    _config.transfer_guard,
    _config.transfer_guard_host_to_device,
    _config.transfer_guard_device_to_host,
    _config.transfer_guard_device_to_device,
}


def traced_settings(snapshot: dict[Any, Any]) -> dict[str, Any]:
    """The settings of a :func:`snapshot_config` that identify a recorded operation, by name."""
    traced = set(_config.trace_context_names())
    return {state.name: value for state, value in snapshot.items() if state.name in traced}


def untraced_settings() -> dict[str, Any]:
    """The settings in force that identify no operation, by name. Some decide which operations JAX's functions
    record: ``jax_default_prng_impl``, ``jax_softmax_custom_jvp``."""
    traced = set(_config.trace_context_names())
    return {
        state.name: state.value
        for state in _states()
        if getattr(state, "name", "") and state.name not in traced
    }


class Settings:
    """Settings in force in a ``with`` block, in this thread. After it, all are as they were before.

    A signal may come just as a context manager of JAX's or of lazynb's is left: that one restores nothing,
    and settings that only a compilation needs would stay in force for the user. The block around it puts
    them back, so one that a signal can reach is in :func:`settings_kept`. No generator: the traceback of an
    interrupt would hold it, and what it restores when that is forgotten is out of date.

    Arguments:
      hooks: whether to tell JAX's C++ too, as its own context managers do.
      states: those that are put back; all if None.
    """

    __slots__ = ("_before", "_hooks", "_states", "_values")

    def __init__(self, values: dict[Any, Any], *, hooks: bool = False, states: Any = None):
        self._values, self._hooks, self._states = values, hooks, states

    def __enter__(self) -> None:
        self._before = [(state, state.get_local()) for state in self._states or _ALL]
        try:
            for state, value in self._values.items():
                state.set_local(_UNSET if value is None and state in _MESHES else value)
                if self._hooks:
                    _notify_cpp(state, value)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for state, value in self._before:
            if state.get_local() is not value:
                state.set_local(value)
                _notify_cpp(state, None if value is _UNSET else value)


def _notify_cpp(state: Any, value: Any) -> None:
    hook = getattr(state, "_update_thread_local_hook", None)
    if hook is not None:
        hook(value)


_MESHES = (_device_context, _abstract_mesh)
"""No mesh is None in 0.10. But set to None the thread has one, of which ``use_abstract_mesh`` asks whether it
is empty: JAX fails where it traces a ``shard_map``."""

_MODE = (_config.enable_x64,)
_ALL = (*_states(), _api._post_hook_state)  # the last: a hook of the others sets it
_UNSET = _config.config_ext.unset


def explicit_64_bits() -> Any:
    """In a ``with`` block JAX makes arrays of a 64-bit type that is asked for by name, in 32-bit mode too."""
    return _config.explicit_x64_dtypes(_config.ExplicitX64Mode.ALLOW)


def settings_preserved() -> Settings:
    """No other settings than now; those of now are in force again after the ``with`` block.

    JAX's own ``with debug_nans(False)``, when it traces a jaxpr, leaves the thread without the hook that a
    global ``jax_debug_nans`` sets, and compiled code is not checked any more (0.10, 0.12).
    """
    return Settings({})


def restore_config(snapshot: dict[Any, Any]) -> Settings:
    """The configuration of ``snapshot``."""
    return Settings(snapshot)


def lowering_settings() -> Settings:
    """Settings under which lazynb lowers: jit enabled, no source lines in locations."""
    return Settings({_config.traceback_in_locations_limit: 0, _config.disable_jit: False})


def without_mesh() -> Settings:
    """No mesh is in force (``jax.set_mesh``)."""
    return Settings(_NO_MESH)


def current_mesh_devices() -> set[tuple[Any, ...]]:
    """The devices of the mesh that the user set (``jax.set_mesh``); an empty set without one."""
    mesh = _device_context.value
    if mesh is None or mesh.empty:
        return set()
    return {mesh._flat_devices_tuple}


def current_explicit_mesh() -> Any:
    """The mesh that the user set, if its axes are Explicit, so that each type says how its array lies on it.

    Returns None for another mesh and without one.
    """
    mesh = _device_context.value
    return mesh if mesh is not None and not mesh.empty and mesh.are_all_axes_explicit else None


def resolve_on_current_mesh(sharding: Any) -> Any:
    """``sharding``, on the devices of the mesh that the user set if it names an abstract mesh like that."""
    mesh = _device_context.value
    if mesh is None or mesh.empty or getattr(sharding, "mesh", None) != mesh.abstract_mesh:
        return sharding
    return sharding.update(mesh=mesh)


@functools.cache
def has_several_devices() -> bool:
    """Whether this process can use more than one device."""
    return len(jax.devices()) > 1


def default_device() -> Any:
    """The device on which operations on uncommitted values run."""
    device = _config.default_device.value
    if device is None:
        return jax.local_devices()[0]
    if isinstance(device, str):
        return jax.local_devices(backend=device)[0]
    return device


def user_cache_dir() -> str | None:
    """The directory of the compilation cache that JAX was given; None without one."""
    return _config.compilation_cache_dir.value


# ---- A counter of the changes of JAX's configuration ------------------------------------------------------


class ConfigChangeCounter:
    """Counts changes of JAX's configuration while some thread is lazy.

    Comparing :func:`lazynb.jax_compat.jax_config.raw_context` at each operation instead would take a quarter
    of the time that recording takes.

    Attributes:
      count: grows with each change, by any thread.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


config_changes = ConfigChangeCounter()

# These change a configuration that ``raw_context`` or ``must_run_eagerly`` reads: methods of classes, and
# functions that are context managers. ``tests/test_jax_private_names.py`` searches JAX's source for more.
_CHANGING_METHODS: list[tuple[Any, tuple[str, ...]]] = [
    (_config.StateContextManager, ("__enter__", "__exit__")),
    (_config.State, ("_set",)),
    (_config.UserContext, ("__enter__", "__exit__")),
    (_sharding_impls.set_mesh, ("__init__", "__exit__")),
    (_mesh.Mesh, ("__enter__", "__exit__")),
    (_mesh.use_abstract_mesh, ("__enter__", "__exit__")),
    (_xla_metadata.XlaMetadataContextManager, ("__enter__", "__exit__")),
]
_CHANGING_CONTEXTS: list[tuple[Any, tuple[str, ...]]] = [
    (_compute_on, ("extend_compute_type",)),
    (_sharding_impls, ("_internal_use_concrete_mesh",)),
    (_xla_metadata, ("clear_xla_metadata",)),
    (_layout, ("use_layout_mode",)),
]


def change_counting_substitutes() -> list[tuple[Any, dict[str, Any]]]:
    """For each class or module, the functions that count changes and stand in for its own, by name."""
    methods: list[tuple[Any, dict[str, Any]]] = [
        (owner, {name: _counted(getattr(owner, name)) for name in names})
        for owner, names in _CHANGING_METHODS
    ]
    contexts: list[tuple[Any, dict[str, Any]]] = [
        (owner, {name: _counted_context(getattr(owner, name)) for name in names if hasattr(owner, name)})
        for owner, names in _CHANGING_CONTEXTS
    ]
    return methods + contexts


def _counted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        finally:
            config_changes.count += 1

    return call


def _counted_context(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    @contextlib.contextmanager
    def call(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            with function(*args, **kwargs) as value:
                config_changes.count += 1
                yield value
        finally:
            config_changes.count += 1

    return call
