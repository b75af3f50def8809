"""JAX's configuration: the settings that identify an operation, and the settings for lowering and running."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax._src import (
    api as _api,
    config as _config,
    core as _core,
    mesh as _mesh,
)

# 0.12 moved the current meshes from ``config`` to ``mesh``.
_device_context = getattr(_config, "device_context", None) or _mesh.device_context
_abstract_mesh = (
    getattr(_config, "abstract_mesh_context_manager", None) or _mesh.abstract_mesh_context_manager
)


# The axis environment holds the vmap axes in scope while an operation is bound. Operations on the lowest
# trace no longer mention them, so they do not identify a recorded operation.
_AXIS_ENV = type(_core.axis_env_state.value)


def raw_context() -> tuple[Any, ...]:
    """The part of JAX's configuration that belongs to a trace: a new tuple at each call. JAX's own trace
    context holds only the abstract mesh, but a program also runs on the devices of the mesh. Nothing is
    recorded while operations run eagerly (:func:`folds_constants`), so that setting is left out."""
    if folds_constants():
        with _config.eager_constant_folding(False):
            return (_device_context.value, *_config.trace_context())
    return (_device_context.value, *_config.trace_context())


def context() -> tuple[Any, ...]:
    """The :func:`raw_context` without the vmap axes in scope."""
    full = raw_context()
    return full[:-1] if type(full[-1]) is _AXIS_ENV else tuple(v for v in full if type(v) is not _AXIS_ENV)


def canonical_context(full: tuple[Any, ...]) -> tuple[Any, ...]:
    """A :func:`context` with None for the empty mesh, which JAX 0.10 sets under ``grad`` for no mesh."""
    return tuple(None if type(one) in (_mesh.AbstractMesh, _mesh.Mesh) and one.empty else one for one in full)


def is_same_context(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two :func:`raw_context` mean the same. One that is read under ``grad`` has the empty mesh."""
    return one == other or canonical_context(one) == canonical_context(other)


def placement_context() -> tuple[Any, ...]:
    """The settings that decide where and how a whole program is compiled. A change starts a new graph."""
    return (
        _config.enable_x64.value,
        _config.default_device.value,
        _device_context.value,
        _mesh.get_abstract_mesh(),
    )  # JAX sometimes sets the empty mesh, which equals no mesh


def must_run_eagerly() -> bool:
    """Whether each operation must run eagerly: the code requests it (``ensure_compile_time_eval``), or a
    debugging mode checks its result (NaNs, reused keys) or its transfers (transfer guards), or forbids
    operations."""
    return bool(
        folds_constants()
        or _config.debug_nans.value
        or _config.debug_infs.value
        or _config.debug_key_reuse.value
        or _config.no_execution.value
        or guards_transfers()
    )


def folds_constants() -> bool:
    """Whether the code requests eager operations (``ensure_compile_time_eval``)."""
    return bool(_config.eager_constant_folding.value)


def guards_transfers() -> bool:
    """Whether a transfer guard applies to transfers to a device, or between devices."""
    to_device = _config.transfer_guard_host_to_device.value or "allow"
    between = _config.transfer_guard_device_to_device.value or "allow"
    return to_device != "allow" or between != "allow"


def can_run_executables() -> bool:
    """Whether an executable can be called under the current configuration, 64-bit mode apart.

    With NaN checks JAX checks the results of each executable. Eager JAX would have run operations unchecked
    that were recorded before the checks were enabled. And an error after the run would lose the results and
    the donated buffers.
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
    """64-bit mode ``x64``, and nothing else; use it within :func:`x64_preserved` if a signal can arrive."""
    return Settings({_config.enable_x64: x64}, hooks=True, states=_MODE)


def x64_preserved() -> Settings:
    """As :func:`settings_preserved`, for 64-bit mode alone."""
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
        _api._post_hook_state: None,  # last: a hook of the settings above sets it
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
    """The settings under which a program is lowered and compiled, at any later time. They are the settings
    that identify a recorded operation, and the checks on its values. For others (logs, leak checks) the
    user's current settings apply."""
    traced = set(_config.trace_context_names())
    found = {state: state.value for state in _states() if state in _RECORDED or state.name in traced}
    # JAX reads ``empty`` of a mesh that was set in a thread, and None has no such attribute.
    found.update({state: empty for state, empty in _NO_MESH.items() if found[state] is None})
    found[_config.eager_constant_folding] = False  # as in :func:`raw_context`
    return found


def settings_now(snapshot: dict[Any, Any]) -> dict[Any, Any]:
    """The settings of ``snapshot``, and all other settings of this thread, for work in another thread."""
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
    """The current settings that identify no operation, by name. Some decide which operations JAX's functions
    record: ``jax_default_prng_impl``, ``jax_softmax_custom_jvp``."""
    traced = set(_config.trace_context_names())
    return {
        state.name: state.value
        for state in _states()
        if getattr(state, "name", "") and state.name not in traced
    }


class Settings:
    """A context manager for settings of this thread; at its end the previous settings are restored.

    A signal may arrive just as a context manager of JAX or lazynb exits. That one restores nothing, and
    settings for a compilation would stay in force for the user. So where a signal can arrive, an outer
    :func:`settings_preserved` restores them. This is not a generator, because the traceback of an interrupt
    would keep the generator, which would restore outdated settings when it is freed.

    Arguments:
      hooks: whether to notify JAX's C++ code, as its own context managers do.
      states: the settings to restore; None for all.
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
"""In 0.10, None means no mesh. But a None that was set in the thread counts as a mesh: ``use_abstract_mesh``
reads its ``empty``, and JAX fails when it traces a ``shard_map``."""

_MODE = (_config.enable_x64,)
_ALL = (*_states(), _api._post_hook_state)  # last: a hook of the others sets it
_UNSET = _config.config_ext.unset


def explicit_64_bits() -> Any:
    """A context in which JAX creates arrays of 64-bit types on explicit request, in 32-bit mode too."""
    return _config.explicit_x64_dtypes(_config.ExplicitX64Mode.ALLOW)


def settings_preserved() -> Settings:
    """A context that changes no settings, and restores the current ones at its end. JAX's own ``with
    debug_nans(False)``, when it traces a jaxpr, removes from the thread the hook that a global
    ``jax_debug_nans`` sets, and compiled code is no longer checked (0.10, 0.12)."""
    return Settings({})


def restore_config(snapshot: dict[Any, Any]) -> Settings:
    """A context with the settings of ``snapshot``."""
    return Settings(snapshot)


def lowering_settings() -> Settings:
    """Settings under which lazynb lowers: jit enabled, no source lines in locations."""
    return Settings({_config.traceback_in_locations_limit: 0, _config.disable_jit: False})


def without_mesh() -> Settings:
    """A context without a mesh (``jax.set_mesh``)."""
    return Settings(_NO_MESH)


def current_mesh_devices() -> set[tuple[Any, ...]]:
    """The devices of the mesh that the user set (``jax.set_mesh``); an empty set without one."""
    mesh = _device_context.value
    if mesh is None or mesh.empty:
        return set()
    return {mesh._flat_devices_tuple}


def current_explicit_mesh() -> Any:
    """The mesh that the user set, if its axes are Explicit, so that each type contains a sharding on it.
    Returns None for another mesh and without one."""
    mesh = _device_context.value
    return mesh if mesh is not None and not mesh.empty and mesh.are_all_axes_explicit else None


def resolve_on_current_mesh(sharding: Any) -> Any:
    """``sharding`` on the devices of the user's mesh, if it names the abstract mesh of that."""
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
    """The directory of JAX's compilation cache that the user set; None without one."""
    return _config.compilation_cache_dir.value
