"""One test for each private name of JAX that lazynb uses: what a new release has to keep."""

from __future__ import annotations

import ast
import collections
import functools
import importlib.util
import inspect
import os
import pathlib
import re
import sys
import types
import weakref

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src import api, array as _array, core as _core, distributed, dtypes as _dtypes, mesh as _mesh, pjit
from jax._src.interpreters import ad, mlir
from jax.experimental import compute_on, io_callback, sparse
from jax.experimental.layout import Format, Layout
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import Primitive
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import lazynb
from lazynb import jax_compat as jc
from lazynb.compare.program_graph import operation_name
from lazynb.jax_compat import config_change_counter, jax_config, jax_names, jax_patches, xla_executables
from lazynb.recording.lazy_blocks import blocks
from lazynb.recording.lazy_trace import LazyTrace
from lazynb.recording.replay.array_functions import MODULES


@pytest.fixture(autouse=True)
def put_back():
    """No substitute rests in the modules that are looked at."""
    blocks.put_back()


def test_the_current_trace_can_be_read_and_set():
    assert jc.is_eval(jc.current_trace()) and jc.is_eval(jc.eval_trace) and jc.is_eval(None)
    with jc.set_current_trace(jc.eval_trace):
        assert jc.current_trace() is jc.eval_trace
    before = jc.current_trace()
    jc.set_trace(jc.eval_trace)
    assert jc.current_trace() is jc.eval_trace
    jc.set_trace(before)

    def inside(x):
        assert not jc.is_eval(jc.current_trace())
        return x

    jax.jit(inside)(1.0)


def test_abstract_eval_gives_avals_and_effects():
    aval = jc.ShapedArray((2, 3), np.dtype("float32"))
    out, effects = jc.abstract_eval(jax.lax.sin_p, [aval], {"accuracy": None})
    assert [o.shape for o in out] == [(2, 3)] and not effects
    _, effects = jc.abstract_eval(*_bound(lambda: jax.debug.print("x")))
    assert effects


def _bound(fn):
    eqn = jax.make_jaxpr(fn)().eqns[0]
    return eqn.primitive, [v.aval for v in eqn.invars], eqn.params


def test_checks_raise_what_arrays_raise():
    for check, use in (
        (jc.check_bool_conversion, bool),
        (jc.check_scalar_conversion, float),
        (jc.check_integer_conversion, lambda x: [][x]),
    ):
        x = jnp.ones(3)
        with pytest.raises(Exception) as expected:
            use(x)
        with pytest.raises(type(expected.value)) as raised:
            check(x)
        assert str(raised.value) == str(expected.value)


def test_context_is_the_same_in_vmap_and_differs_by_configuration():
    outside, inside = jc.context(), []
    jax.vmap(lambda x: inside.append(jc.context()) or x, axis_name="i")(jnp.ones(2))
    assert inside == [outside]
    with jax.default_matmul_precision("highest"):
        assert jc.context() != outside
    assert jc.context() == outside


def test_the_configuration_under_grad_is_the_one_outside():
    """JAX 0.10 sets the empty mesh where none was; a plain call and one under ``grad`` would be recorded
    apart."""
    inside = []
    jax.grad(lambda x: inside.append(jc.canonical_context(jc.context())) or x)(1.0)
    assert inside == [jc.canonical_context(jc.context())]
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((1,), ("i",))):
        assert jc.canonical_context(jc.context()) != inside[0]


def test_placement_context_follows_x64_mode_and_default_device():
    outside = jc.placement_context()
    with jax.enable_x64(True):
        assert jc.placement_context() != outside
    with jax.default_device(jax.devices()[1]):
        assert jc.placement_context() != outside and jc.default_device() == jax.devices()[1]
    assert jc.placement_context() == outside and jc.default_device() == jax.devices()[0]


def test_a_configuration_snapshot_can_be_restored():
    with jax.enable_x64(True):
        snapshot = jc.snapshot_config()
    assert jc.snapshot_x64(snapshot) and not jc.snapshot_x64(jc.snapshot_config())
    with jc.restore_config(snapshot):
        assert jnp.ones(2, "float64").dtype == np.float64
        assert jc.can_run_executables() and jc.x64_is(True)
    assert jc.can_run_executables() and jc.x64_is(False)
    with jax.disable_jit():
        assert not jc.can_run_executables()
        with jc.running_settings(True):
            assert jc.can_run_executables() and jc.x64_is(True)
    with pytest.raises(KeyboardInterrupt), jc.x64_preserved(), jc.x64_mode(True):
        assert jnp.ones(2, "float64").dtype == np.float64
        raise KeyboardInterrupt
    assert jc.x64_is(False) and jnp.ones(2, "float32").dtype == np.float32


@pytest.mark.parametrize("flag", ["jax_debug_nans", "jax_debug_infs", "jax_debug_key_reuse"])
def test_debugging_modes_require_eager_execution(flag):
    assert not jc.must_run_eagerly()
    with getattr(jax._src.config, flag.removeprefix("jax_"))(True):
        assert jc.must_run_eagerly()


@pytest.mark.parametrize("level", ["log", "disallow", "log_explicit", "disallow_explicit"])
def test_transfer_guards_require_eager_execution(level):
    with jax.transfer_guard(level):
        assert jc.must_run_eagerly() and not jc.can_run_executables()
        with jc.running_settings(False):
            assert jc.can_run_executables()
    with jax.transfer_guard("allow"):
        assert not jc.must_run_eagerly()
    with jax.transfer_guard_device_to_host("disallow"):
        assert not jc.must_run_eagerly()


def test_primitives_with_their_own_implementation_are_recognised():
    assert jc.has_python_impl(sparse.bcoo_sum_duplicates_p) and jc.has_python_impl(Primitive("mine"))
    jitted = jax.make_jaxpr(jax.jit(lambda x: x))(1.0).eqns[0].primitive
    assert not jc.has_python_impl(jax.lax.add_p) and not jc.has_python_impl(jitted)


def test_64_bit_scalars_are_narrowed_by_calls_in_32_bit_mode():
    assert jc.narrows_without_x64(np.dtype("int64")) and not jc.narrows_without_x64(np.dtype("int32"))
    assert np.asarray(jax.jit(lambda x: x)(np.int64(1 << 40))).dtype == np.int32
    with jc.restore_config({jax_config._config.enable_x64: True}):
        assert not jc.narrows_without_x64(np.dtype("int64"))


def test_the_name_stack_shows_named_scopes():
    with jax.named_scope("outer"), jax.named_scope("inner"):
        assert str(jc.source_context.context.name_stack) == "outer/inner"
    assert str(jc.source_context.context.name_stack) == ""


def test_a_program_can_be_built_and_keeps_its_scopes():
    aval = jc.typeof(jnp.ones(3))
    x, y = jc.new_var(aval), jc.new_var(aval)
    eqn = jc.new_eqn([x], [y], jax.lax.sin_p, {"accuracy": None}, jc.no_effects, jc.eqn_context(), "n7")
    jaxpr = jc.closed_jaxpr([x], [y], [eqn])
    assert jc.is_jaxpr(jaxpr) and jc.jaxpr_inputs(jaxpr) == [x]
    run = jc.as_function(jaxpr)
    with jc.lowering_settings(), jc.set_current_trace(jc.eval_trace):
        lowered = jax.jit(lambda a: run(a)).lower(jnp.ones(3))
    text = lowered.as_text(debug_info=True)
    assert "/n7/" in text and __file__ not in text and "lazynb/jax_compat" not in text
    np.testing.assert_allclose(lowered.compile()(jnp.ones(3))[0], np.sin(np.ones(3)), rtol=1e-6)


def test_constants_of_a_jitted_function_can_be_separated():
    constant = jnp.arange(3.0)
    eqn = jax.make_jaxpr(jax.jit(lambda x: x + constant))(1.0).eqns[0]
    assert eqn.primitive.name in jc.JIT_PRIMITIVES
    with jc.set_current_trace(jc.eval_trace):
        lifted, consts = jc.separate_consts(eqn.params["jaxpr"])
    assert len(jc.jaxpr_inputs(lifted)) == len(consts) + len(eqn.params["in_shardings"]) or not consts
    assert isinstance(jc.UNSPECIFIED, type(eqn.params["in_shardings"][0]))


def test_commitment_device_and_readiness_of_arrays_can_be_read_and_changed():
    x = jnp.arange(3)
    assert not jc.is_committed(x) and jc.is_committed(jax.device_put(x, jax.devices()[0]))
    assert jc.device_assignment(x.sharding) == (jax.devices()[0],)
    loose = jc.uncommitted(jax.device_put(x, jax.devices()[1]))
    assert not loose.committed and loose.devices() == {jax.devices()[1]}
    np.testing.assert_array_equal(loose, [0, 1, 2])
    assert isinstance(jc.to_device_array(np.ones(2, np.float32)), jc.ArrayImpl)
    assert jc.is_host_array(np.ones(2)) and jc.is_host_array(np.float32(1)) and not jc.is_host_array(x)
    assert isinstance(jc.uncommitted_sharding(jax.devices()[1]), SingleDeviceSharding)
    abstract = jax.sharding.NamedSharding(
        jax.sharding.AbstractMesh((1,), ("i",)), jax.sharding.PartitionSpec()
    )
    assert jc.is_concrete_sharding(x.sharding) and not jc.is_concrete_sharding(abstract)
    bound = jc.committed(x, jax.devices()[0])
    assert bound.committed and bound.sharding == x.sharding and not x.committed
    np.testing.assert_array_equal(bound, [0, 1, 2])
    eqns = [
        jax.make_jaxpr(lambda x: jax.device_put(x, jax.devices()[0], donate=donate))(x).eqns[0]
        for donate in (False, True)
    ]
    assert [jc.donates_operand(eqn.params) for eqn in eqns] == [False, True]
    jax.block_until_ready(x)
    assert jc.is_ready(x) and jc.is_ready(jax.block_until_ready(jax.random.key(0)))
    spec = jc.abstract(jax.device_put(x, jax.devices()[1]))
    assert (spec.shape, spec.dtype, spec.sharding.device_set) == ((3,), np.int32, {jax.devices()[1]})


def test_python_scalars_reach_a_trace_as_typed_scalars():
    seen = []

    class Spy(jc.Trace):
        def process_primitive(self, primitive, args, params, /):
            seen.extend(args)
            raise StopIteration

    for number in (1, 2.5, 3j):
        with jc.set_current_trace(Spy()), pytest.raises(StopIteration):
            jax.lax.add_p.bind(number, number)
        assert isinstance(seen[-1], jc.TYPED_SCALARS) and jc.weak_scalar(seen[-1]) == number
        assert type(jc.weak_scalar(seen[-1])) is type(number)


def test_element_keeps_weak_types():
    assert [one.weak_type for one in jc.split_elements(jnp.arange(3.0), True)] == [True] * 3
    assert [one.weak_type for one in jc.split_elements(jnp.arange(3.0), False)] == [False] * 3
    assert [float(one) for one in jc.split_elements(jnp.arange(3.0), True)] == [0.0, 1.0, 2.0]


def test_missing_array_attributes_raise_the_error_of_jax():
    aval, key = jc.typeof(jnp.ones(2)), jc.typeof(jax.random.key(0))
    assert jc.concrete_array_has(aval, "is_ready") and not jc.concrete_array_has(aval, "nonsense")
    assert jc.concrete_array_has(key, "_base_array")
    for value, of in ((jnp.ones(2), aval), (jax.random.key(0), key)):
        with pytest.raises(AttributeError) as expected:
            value.nonsense  # noqa: B018
        assert str(jc.array_attribute_error(of, "nonsense")) == str(expected.value)


def test_persistent_cache_is_used_only_where_it_is_asked_for(tmp_path):
    cache = jc.file_cache(str(tmp_path))
    lowered = jax.jit(lambda x: x * 3 + 1).lower(jnp.ones(5))
    with jc.compiling_settings(cache):
        lowered.compile()
    assert list(tmp_path.iterdir())
    assert jc.user_cache_dir() is None
    entries = len(list(tmp_path.iterdir()))
    jax.jit(lambda x: x * 4 + 1).lower(jnp.ones(5)).compile()
    with jc.compiling_settings(None):
        jax.jit(lambda x: x * 5 + 1).lower(jnp.ones(5)).compile()
    assert len(list(tmp_path.iterdir())) == entries


def test_an_executable_can_be_called_directly_and_with_captured_results():
    compiled = jax.jit(lambda x: [x + 1]).lower(jnp.ones(2)).compile()
    compiled(jnp.ones(2))
    np.testing.assert_array_equal(jc.capturing_call(compiled)(jnp.ones(2))[0], [2, 2])
    np.testing.assert_array_equal(jc.synchronous_call(compiled, None)(jnp.ones(2))[0], [2, 2])


# Where JAX changes a configuration without a ``State`` doing it, and why each is counted or need not be.
KNOWN_CHANGES = {
    "config.py": "StateContextManager, State._set and UserContext are counted",
    "sharding_impls.py": "set_mesh and _internal_use_concrete_mesh are counted",
    "mesh.py": "Mesh and use_abstract_mesh are counted",
    "xla_metadata.py": "counted",
    "compute_on.py": "counted",
    "layout.py": "counted",
    "dispatch.py": "around one eager operation: nothing is recorded meanwhile",
    "core.py": "which trace is ambient, vmap's axes, and an equation's context while it is evaluated",
    "api.py": "the hook of the NaN checks, which follow a counted State",
    "interpreters/mlir.py": "while lowering",
    "pallas": "while a Pallas kernel is traced, and how one is interpreted: read when a kernel is recorded, through JAX",
}


def test_whatever_changes_jax_s_configuration_is_counted():
    """Recording trusts ``jc.changes``: where it misses a change, a call is recalled that now means another
    thing."""
    root = pathlib.Path(jax.__file__).parent / "_src"
    found = {}
    for path in root.rglob("*.py"):
        lines = [
            line
            for line in path.read_text().splitlines()
            if re.search(r"\.(swap_local|set_local|set_global)\(", line)
        ]
        if lines:
            name = path.relative_to(root).as_posix()
            found["pallas" if name.startswith("pallas/") else name] = lines
    assert set(found) <= set(KNOWN_CHANGES), (
        "look at these, and count them in jax_compat/config_change_counter.py or say why not"
    )
    assert "config.py" in found and "sharding_impls.py" in found


@pytest.mark.parametrize(
    "change",
    [
        lambda: jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64(),
        lambda: jax.default_matmul_precision("highest"),
        lambda: jax.numpy_rank_promotion("raise"),
        lambda: jax.debug_nans(True),
        lambda: jax.default_device(jax.devices()[0]),
        lambda: jax.set_mesh(jax.make_mesh((1,), ("x",))),
        lambda: jax.make_mesh((1,), ("x",)),
        lambda: jax.sharding.use_abstract_mesh(jax.make_mesh((1,), ("x",)).abstract_mesh),
        lambda: jax.transfer_guard("log"),
        lambda: set_xla_metadata(a="1"),
        lambda: config_change_counter._compute_on.extend_compute_type("device_host"),
        lambda: jax.disable_jit(),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_change_of_configuration_is_counted_when_it_begins_and_ends(change):
    with lazynb.lazy():
        before = jc.config_changes.count
        with change():
            inside = jc.config_changes.count
        assert before < inside < jc.config_changes.count
    assert jax.config.jax_enable_x64 is False


def test_an_update_of_the_configuration_is_counted():
    with lazynb.lazy():
        before = jc.config_changes.count
        jax.config.update("jax_numpy_rank_promotion", "allow")
        assert jc.config_changes.count > before


def test_jax_calls_the_known_functions_to_linearise_and_transpose():
    called = []
    for module, name in (jc.LINEARIZE_RULE, jc.BACKWARD_PASS):
        assert callable(getattr(module, name))
    plain = {}

    def note(module, name):
        plain[name] = getattr(module, name)

        def noting(*args, **kwargs):
            called.append(name)
            return plain[name](*args, **kwargs)

        return noting

    with pytest.MonkeyPatch.context() as patch:
        for module, name in (jc.LINEARIZE_RULE, jc.BACKWARD_PASS):
            patch.setattr(module, name, note(module, name))
        jax.grad(lambda x: jax.lax.rsqrt(jax.lax.expm1(x)))(2.0)
    assert {name for _, name in (jc.LINEARIZE_RULE, jc.BACKWARD_PASS)} <= set(called)


def test_grad_uses_a_linearize_trace_over_the_eval_trace():
    seen = []

    def inside(x):
        trace = jc.current_trace()
        seen.append(
            (
                type(x),
                type(trace),
                x._trace is trace,
                jc.is_eval(trace.parent_trace),
                x.primal,
                x.tangent.aval,
            )
        )
        return x * 2

    jax.grad(inside)(3.0)
    [(tracer, trace, same, over_eval, primal, tangent)] = seen
    assert tracer is jc.LinearizeTracer and trace is jc.LinearizeTrace and same and over_eval
    assert primal == 3.0 and tangent.dtype == jnp.float32


def test_gradient_accumulators_add_and_freeze():
    aval = jc.typeof(jnp.ones(3))
    accum = jc.ValAccum(aval)
    assert type(accum.val) is jc.Zero and isinstance(accum, jc.GradAccum)
    accum.accum(jnp.ones(3))
    assert accum.freeze().shape == (3,)
    assert type(jc.new_accumulator(accum).freeze()) is jc.Zero
    assert type(jc.new_accumulator(jc.NullAccum(aval))) is jc.NullAccum


def test_forwarded_inputs_of_a_traced_function_are_found():
    aval = jc.typeof(jnp.ones(3))
    jaxpr = jc.trace_to_jaxpr(lambda x, y: [y, x + y, x, x + y], [aval, aval])
    sources, fresh = jc.forwarded_outputs(jaxpr)
    assert [given for given, _ in sources] == [True, False, True, False] and sources[0] == (True, 1)
    assert fresh(jnp.ones(3), jnp.ones(3))[0].tolist() == [2, 2, 2]
    assert jc.as_function(jaxpr)(jnp.ones(3), jnp.zeros(3))[1].tolist() == [1, 1, 1]
    assert jc.forwarded_outputs(jc.trace_to_jaxpr(lambda x: [x], [aval]))[1] is None
    with pytest.raises(ValueError):
        jc.forwarded_outputs(jc.trace_to_jaxpr(lambda x: [1.0], [aval]))


def test_the_ambient_trace_and_the_operator_names_can_be_read():
    assert jc.trace_state.value is jc.current_trace()
    assert jc.raw_context() == jc.raw_context() and jc.has_no_axis_env()
    assert {"add", "getitem", "matmul"} <= set(jc.array_operators) and {"sum", "astype"} <= set(
        jc.array_methods
    )
    assert jc.drop_weak_type(jnp.asarray(1.0)).weak_type is False
    assert jc.is_key(jc.typeof(jax.random.key(0))) and not jc.is_key(jc.typeof(jnp.ones(1)))


def test_modules_that_check_for_the_top_level_use_the_substituted_core():
    """Each module finds the question in its ``core``, which is another one while a thread is lazy."""
    asking = [
        jax_patches._sharding_impls,
        jax_patches._stateful_rng,
        jax_patches._pmap,
        *([jax_patches._state_indexing] if jax.__version__ >= "0.12" else []),
    ]
    for module in asking:
        assert re.search(r"core\.(trace_ctx\.is_top_level|trace_state_clean)\(\)", inspect.getsource(module))
        assert module.core is jax_patches._core
    patches = jc.JaxPatches(lambda trace: True, lambda leaf: leaf)
    patches.switch(True)
    try:
        for module in asking:
            assert module.core.trace_state_clean() and module.core.trace_ctx.is_top_level()
            assert module.core.trace_ctx.trace is jc.current_trace()
    finally:
        patches.put_back()
    assert jax_patches._stateful_rng.core is jax_patches._core


def test_the_opaque_trace_state_is_read_through_the_substituted_module():
    state = jax.extend.core.get_opaque_trace_state()
    assert state == jax_patches._core.OpaqueTraceState(jc.eval_trace._weakref)
    assert jax_patches._extend_core is jax.extend.core


def test_a_gradient_is_asked_for_in_functions_with_these_names():
    found = []

    def noted(x):
        found.append([])
        frame = sys._getframe()
        while frame is not None:
            code = frame.f_code
            if code.co_name in jax_names.GRADIENT_FUNCTIONS and code.co_filename.endswith(
                jax_names.GRADIENT_FILE
            ):
                found[-1].append(code.co_name)
            frame = frame.f_back
        return x * 2.0

    for ask in (jax.grad, jax.value_and_grad, jax.jacrev):
        ask(noted)(1.0)
    jax.vjp(noted, 1.0)
    jax.linearize(noted, 1.0)
    assert [each[-1] for each in found] == ["grad_f", "value_and_grad_f", "jacfun", "vjp", "linearize"]


def test_substitutes_of_inherited_names_go_away_again():
    class Base:
        def name(self):
            return "base"

    class Derived(Base):
        pass

    patches = jc.JaxPatches(lambda trace: False, lambda leaf: leaf)
    patches.substitute(Derived, {"name": lambda self: "other"})
    patches.switch(True)
    assert Derived().name() == "other" and "name" in vars(Derived)
    patches.put_back()
    assert Derived().name() == "base" and "name" not in vars(Derived)


def test_functions_that_refuse_constant_tracers_meet_them_in_constant_taken():
    """Each is called where a function is traced that may close over no tracer, and meets the constants by
    ``constant_taken``."""
    for owner, name in jc.TRACER_REFUSING_FUNCTIONS:
        assert callable(getattr(owner, name))
    owner, name = jc.NEW_CONST
    taken, plain, w = [], getattr(owner, name), jnp.arange(3.0)
    setattr(
        owner,
        name,
        lambda trace, value, *args, **kwargs: taken.append(value) or plain(trace, value, *args, **kwargs),
    )
    try:
        jax.lax.composite(lambda x: x * w, name="my.product")(1.0)
    finally:
        setattr(owner, name, plain)
    assert any(value is w for value in taken)


def test_arrays_can_be_assembled_from_lazy_tensors():
    """What JAX's own constructor of arrays, and what checks a callback's results, are told of a class."""
    assert _array.dtypes is not _dtypes
    with lazynb.lazy():
        part = jnp.arange(4.0) * 2
    place = part.sharding
    assert type(jc.ArrayImpl(part.aval, place, [part], committed=True)) is jc.ArrayImpl
    made = jax.make_array_from_callback((4,), place, lambda index: part[index])
    assert type(made) is jc.ArrayImpl and made.tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError, match="concrete"):
        jax.jit(lambda x: jax.make_array_from_single_device_arrays((4,), place, [x]))(part)


def test_shards_of_an_array_and_their_addresses_can_be_read():
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
    x = (jax.device_put(np.arange(8.0), jax.NamedSharding(mesh, jax.P("x"))) + 0).block_until_ready()
    assert x.addressable_shards is x.addressable_shards  # JAX keeps the list
    jc.clear_shard_cache(x)
    assert x.addressable_shards[1].data is jc.device_parts(x)[1]
    places = [jc.address(part) for part in jc.device_parts(x)]
    assert places == [part.unsafe_buffer_pointer() for part in x._arrays]
    assert any(array is x for array in jc.live_arrays_on_backend(x))
    jc.device_parts(x)[1].delete()
    assert not x.is_deleted() and jc.has_deleted_part(x)
    assert [jc.address(part) for part in jc.device_parts(x)] == [places[0], None]
    one = jnp.ones(3)
    assert jc.device_parts(one)[0] is one and not jc.has_deleted_part(one)


def test_the_mesh_in_force_is_of_the_context():
    """JAX's own context has the abstract mesh alone."""
    found = []
    for device in jax.devices()[:2]:
        with jax.sharding.set_mesh(jax.sharding.Mesh(np.array([device]), "x")):
            found.append((jc.canonical_context(jc.context()), jc.raw_context()))
    assert found[0][0] != found[1][0] and found[0][1] != found[1][1]


def test_lazytensor_is_a_subclass_of_jax_array():
    class Tensor(lazynb.LazyTensor):
        pass

    assert issubclass(lazynb.LazyTensor, jax.Array) and issubclass(Tensor, jax.Array)
    assert issubclass(jc.ArrayImpl, jax.Array) and not issubclass(jc.Tracer, jax.Array)
    assert not issubclass(lazynb.LazyTensor, jc.ArrayImpl) and not issubclass(int, jax.Array)
    asked = functools.singledispatch(lambda value: "other")
    asked.register(jax.Array, lambda value: "array")
    with lazynb.lazy():
        assert asked(jnp.ones(2) + 1) == "array"


def test_a_restored_configuration_accepts_the_empty_mesh():
    """A program's settings hold no None for a mesh: JAX asks the mesh that a thread has whether it is empty."""
    with jc.restore_config(jc.snapshot_config()), jax.sharding.use_abstract_mesh(_mesh.empty_abstract_mesh):
        pass


def test_zeros_and_zeros_like_call_the_filling_function():
    """What ``jnp.zeros`` and ``jnp.zeros_like`` call, whether they are given a device or not."""
    found = []
    plain = jc.full_module.full
    jc.full_module.full = lambda shape, value, dtype=None, *, sharding=None: (
        found.append(sharding) or plain(shape, value, dtype, sharding=sharding)
    )
    try:
        jnp.zeros(2, device=jax.devices()[1])
        jnp.zeros_like(np.ones(2))
    finally:
        jc.full_module.full = plain
    assert [sharding is None for sharding in found] == [False, True]


def test_the_reason_for_a_concretisation_is_passed_before_the_conversion():
    """JAX says what it needs a value for before it converts it."""
    owner, name = jc.CONCRETE_OR_ERROR
    plain = getattr(owner, name)
    contexts = []

    def noting(force, val, context=""):
        contexts.append(context)
        return plain(force, val, context)

    setattr(owner, name, noting)
    try:
        jnp.linspace(0, 1, jnp.array(3))
    finally:
        setattr(owner, name, plain)
    assert "'num' argument of jnp.linspace" in contexts


def test_a_stand_in_array_is_cached_per_device():
    device = jax.devices()[1]
    assert jc.probe_scalar(device).devices() == {device} and jc.probe_scalar(device) is jc.probe_scalar(
        device
    )


def test_the_file_of_an_entry_of_a_file_cache(tmp_path):
    cache = jc.file_cache(str(tmp_path))
    cache.put("one", b"1")
    assert jc.entry_file(cache, "one").read_bytes() == b"1" and not jc.has_size_limit(cache)
    jc.entry_file(cache, "two").write_bytes(b"2")
    assert cache.get("two") == b"2"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4"])
def test_a_view_holds_the_memory_of_an_array(dtype):
    x = jax.block_until_ready(jnp.ones(1000).astype(dtype))
    (part,) = jc.buffers(x)
    assert part is x and jc.on_host(part)
    view = jc.host_view(part)
    x.delete()
    others = [jnp.zeros(1000).astype(dtype) for _ in range(20)]
    again = jc.with_buffers(x, [jc.place_host_array(np.asarray(view), part)])
    assert again.dtype == dtype and np.all(np.asarray(again) == 1) and len(others) == 20


def test_a_view_keeps_an_array_from_being_donated():
    x = jax.block_until_ready(jnp.ones(1 << 18))
    view = jc.host_view(x)
    y = jax.block_until_ready(jax.jit(lambda a: a * 2, donate_argnums=0)(x))
    assert np.all(np.asarray(view) == 1) and np.all(np.asarray(y) == 2)


def test_key_arrays_have_buffers_and_other_values_none():
    key = jax.random.key(3)
    again = jc.with_buffers(key, jc.buffers(key))
    assert (
        again.dtype == key.dtype and jax.random.key_data(again).tolist() == jax.random.key_data(key).tolist()
    )
    assert jc.buffers(3) == [] and jc.buffers(np.ones(3)) == []


def test_existing_arrays_lists_live_arrays():
    x = jnp.ones(3)
    assert any(one is x for one in jc.existing_arrays())


def test_memory_that_cannot_be_had_is_an_error_of_jax():
    with pytest.raises(jax.errors.JaxRuntimeError) as eager:
        jnp.zeros(1 << 40)
    assert str(jc.out_of_memory(1 << 42)) == str(eager.value)


def test_jaxprs_in_finds_the_branches_of_a_cond():
    jaxpr = jax.make_jaxpr(lambda x: jax.lax.cond(x > 0, jnp.sin, jnp.cos, x))(1.0)
    branches = [one for eqn in jaxpr.eqns for one in jc.jaxprs_in(eqn.params)]
    assert {eqn.primitive.name for one in branches for eqn in one.eqns} == {"sin", "cos"}


def test_results_of_xla_are_captured_before_arrays_are_made():
    compiled = jax.jit(lambda x: [x * 2]).lower(jax.ShapeDtypeStruct((3,), jnp.float32)).compile()
    call, kept = jc.capturing_call(compiled), []
    assert jc.recover_results(compiled, kept) is None
    jc.result_capture.into = kept
    (first,) = call(jnp.ones(3))  # through Python
    jc.result_capture.into = None
    assert len(kept) == 2 and jc.recover_results(compiled, kept)[0].tolist() == first.tolist() == [2, 2, 2]
    kept.clear()
    jc.result_capture.into = kept
    xla_executables._CapturingExecutable(compiled._executable.xla_executable).execute_sharded([jnp.ones(3)])
    jc.result_capture.into = None
    assert jc.recover_results(compiled, kept)[0].tolist() == [2, 2, 2]


def test_the_hook_that_looks_for_nan_outlives_a_run():
    hook = jax_config._api._post_hook_state
    if hook.get_local() is None:  # JAX has lost it in an earlier test
        hook.set_local(jax_config._config.config_ext.unset)
    with lazynb.lazy():
        lazynb.sync(jnp.ones(3) * 5)
    jax.config.update("jax_debug_nans", True)
    try:
        for _ in range(2):
            with pytest.raises(FloatingPointError):
                jnp.log(-jnp.ones(3))
    finally:
        jax.config.update("jax_debug_nans", False)


def test_the_memory_of_an_array_is_replaced_until_it_is_deleted():
    x = jax.block_until_ready(jnp.ones(1 << 18) * 2)
    place = x.unsafe_buffer_pointer()
    y = jc.with_buffers(x, jc.buffers(x))
    jc.replace_buffers(x, [jc.place_host_array(np.empty(1 << 18, np.float32), x)])
    assert x.unsafe_buffer_pointer() != place and y.unsafe_buffer_pointer() == place
    assert jc.restore_buffers(x, y) and x.unsafe_buffer_pointer() == place and np.all(np.asarray(x) == 2)
    jc.replace_buffers(x, [jc.place_host_array(np.empty(1 << 18, np.float32), x)])
    x.delete()
    assert not jc.restore_buffers(x, y) and x.is_deleted() and np.all(np.asarray(y) == 2)


def test_the_frames_of_a_call_of_a_jitted_function_are_known():
    seen = []
    plain = getattr(jc.pjit_module, jc.NEED_TO_REBUILD)
    with pytest.MonkeyPatch.context() as patch:

        def finish(profiler):
            call = jc.enclosing_cache_miss_frame(sys._getframe())
            seen.append((call, call is sys._getframe(1), jc.caller_of_jit(call)))
            return plain(profiler)

        patch.setattr(jc.pjit_module, jc.NEED_TO_REBUILD, finish)
        jax.jit(lambda x: x * 3)(np.ones(2, np.float32))
    assert seen[-1][1:] == (True, sys._getframe())
    assert jc.enclosing_cache_miss_frame(sys._getframe()) is None


def test_primitives_that_only_lowering_refuses_are_recognised():
    half, single = (jc.ShapedArray((2, 2), np.dtype(name)) for name in ("float16", "float32"))
    linalg = jax.lax.linalg
    assert jc.may_fail_lowering(linalg.cholesky_p, [half], {}) and not jc.may_fail_lowering(
        linalg.cholesky_p, [single], {}
    )
    dot = jax.make_jaxpr(lambda x: jax.lax.dot(x, x, precision=jax.lax.DotAlgorithmPreset.TF32_TF32_F32))(
        single
    ).eqns[0]
    assert jc.may_fail_lowering(dot.primitive, [single, single], dot.params)
    assert not jc.may_fail_lowering(dot.primitive, [single, single], {**dot.params, "precision": None})
    with pytest.raises(ValueError, match="TF32"):
        jc.lower_single(dot.primitive, [single, single], dot.params)
    jc.lower_single(dot.primitive, [single, single], {**dot.params, "precision": None})
    assert jc.can_be_lowered(jax.lax.sin_p) and not jc.can_be_lowered(Primitive("mine"))


def test_constants_of_a_jaxpr_can_be_read_and_replaced():
    const = np.arange(3.0, dtype=np.float32)
    jaxpr = jax.make_jaxpr(lambda x: x * const + jnp.sin(x))(const)
    (found,) = jc.constants(jaxpr)
    assert np.array_equal(found, const)
    other = jc.replace_contents(jaxpr, jaxpr.eqns, [const * 2])
    assert np.array_equal(jc.as_function(other)(jnp.ones(3))[0], const * 2 + jnp.sin(jnp.ones(3)))


def test_equations_inside_calls_and_loops_are_found_with_their_scopes():
    def body(carry, row):
        with jax.named_scope("inner"):
            return carry + row, carry

    def called(x):
        first = jnp.sin(x)
        return jax.lax.scan(body, first, jnp.ones((4, 3)))

    jaxpr = jax.make_jaxpr(jax.jit(called))(jnp.ones(3))
    (call,) = jaxpr.eqns
    assert call.primitive.name in jc.SINGLE_BODY_PRIMITIVES <= jc.BODY_PRIMITIVES
    (inner,) = jc.jaxprs_in(call.params)
    lines = [code.co_name for code, _ in jc.eqn_frames(inner.eqns[0]) if code.co_filename == __file__]
    assert lines == ["called"]  # none of the callers of the function that is traced
    scan = inner.eqns[-1]
    assert scan.primitive.name == jc.SCAN and jc.scan_constants(scan.params) == 0
    (turn,) = jc.jaxprs_in(scan.params)
    assert jc.name_stack(turn.eqns[0]) == "inner"
    marked = jc.with_name_scope(turn.eqns[0], "i0.0", turn.eqns[0].params)
    assert jc.name_stack(marked) == "i0.0/inner" and jc.name_stack(turn.eqns[0]) == "inner"
    other = jc.replace_eqns(jaxpr, jaxpr.eqns)
    assert jc.as_function(other)(jnp.ones(3))[0].shape == (3,)
    loop = jax.make_jaxpr(lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x))(jnp.ones(3))
    assert (
        loop.eqns[0].primitive.name == jc.WHILE
        and {"cond_nconsts", "body_nconsts"} <= loop.eqns[0].params.keys()
    )
    assert [one for one in jc.jaxprs_in(loop.eqns[0].params)] == [
        loop.eqns[0].params["cond_jaxpr"],
        loop.eqns[0].params["body_jaxpr"],
    ]
    branch = jax.make_jaxpr(lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x))(jnp.ones(3)).eqns[-1]
    assert branch.primitive.name == jc.BRANCHES and len(jc.jaxprs_in(branch.params)) == 2
    kept = jax.make_jaxpr(jax.checkpoint(jnp.sin))(1.0).eqns[0]
    assert kept.primitive.name in jc.SINGLE_BODY_PRIMITIVES
    assert jax.make_jaxpr(jax.nn.silu)(1.0).eqns[0].primitive.name in jc.SINGLE_BODY_PRIMITIVES


def test_a_jitted_call_passes_through_the_known_python_functions(monkeypatch):
    def multiply(x, n):
        return x * n

    asked = []
    plain = vars(jc.pjit_module)[jc.INFER_PARAMS], vars(jc.pjit_module)[jc.RUN_PJIT]

    def infer(function, info, args, kwargs):
        if function is multiply:
            asked.append((sys._getframe(1).f_code is jc.cache_miss_code, info))
        return plain[0](function, info, args, kwargs)

    def run(program, operands, function, args, kwargs):
        if function is multiply:
            asked.append((program, operands))
        return plain[1](program, operands, function, args, kwargs)

    monkeypatch.setattr(jc.pjit_module, jc.INFER_PARAMS, infer)
    monkeypatch.setattr(jc.pjit_module, jc.RUN_PJIT, run)
    jitted = jax.jit(multiply, static_argnums=1)
    assert float(jitted(2.0, 3)) == 6
    (is_call, info), (program, operands) = asked
    assert is_call and operands == [2.0] and info is jitted._jit_info
    assert program._fields == ("consts", "params", "in_avals", "in_tree", "out_tree", "arg_names")
    assert jc.is_pure_call(info, program)
    jitted.lower(2.0, 3)
    assert [first for first, _ in asked[2:]] == [False]
    signature, leaves = jc.call_signature(info, (jnp.ones(2), 3), {})
    assert leaves[0].shape == (2,) and hash(signature) == hash(
        jc.call_signature(info, (jnp.zeros(2), 3), {})[0]
    )
    assert signature != jc.call_signature(info, (jnp.zeros(2), 4), {})[0]
    assert jc.jit_primitive.name in jc.JIT_PRIMITIVES
    assert jc.canonical_value(np.ones(2)).dtype == np.float32
    assert isinstance(jax.random.key(0), jc.KeyArray)


@pytest.mark.parametrize(
    "host",
    [
        np.ones((3, 4), np.float32),
        np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)[::-1],
        np.zeros((0, 3), np.int32),
        np.ones(3, bool),
        np.array(2.5, np.float32),
        np.arange(5, dtype=np.int8)[::2],
        np.broadcast_to(np.complex64(2j), (3, 3)),
    ],
)
def test_a_numpy_array_is_copied_in(host):
    device = jax.devices()[0]
    eager, own = jc.to_device_array(host), jc.array_from_host_copy(host, jc.typeof(host), device)
    for name in ("aval", "sharding", "format", "weak_type", "_committed"):
        assert getattr(own, name) == getattr(eager, name)
    assert np.array_equal(own, host)


def test_a_copied_in_array_shares_no_memory_with_its_source():
    memory = np.empty(4096 + 64, np.uint8)
    host = memory[-memory.ctypes.data % 64 :][:4096].view(np.float32)
    host[:] = 1
    own = jc.array_from_host_copy(host, jc.typeof(host), jax.devices()[0])
    host[:] = 2
    assert np.array_equal(own, np.ones(1024))


def test_jit_calls_with_placements_are_not_simple():
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])

    def is_simple(function, **options):
        jitted = jax.jit(function, **options)
        return jc.is_pure_call(
            jitted._jit_info, vars(jc.pjit_module)[jc.INFER_PARAMS](function, jitted._jit_info, (1.0,), {})[0]
        )

    assert is_simple(lambda x: x + 1) and is_simple(lambda x: x + 1, donate_argnums=0, compiler_options={})
    assert not is_simple(lambda x: x + 1, in_shardings=here)
    assert not is_simple(lambda x: x + 1, out_shardings=here)
    assert not is_simple(lambda x: x + 1, compiler_options={"xla_embed_ir_in_executable": True})
    assert not is_simple(lambda x: jax.debug.print("{}", x))


@pytest.mark.parametrize("forget", [jax.clear_caches, lambda: jax.jit(lambda: None).clear_cache()])
def test_objects_kept_with_the_trace_cache_are_freed_when_it_is_cleared(forget):
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    jc.keep_until_caches_cleared(thing)
    del thing
    assert gone() is not None
    forget()
    assert gone() is None


def test_innermost_gives_the_value_below_nested_transformations():
    seen = []

    def note(x):
        seen.append(jc.innermost_primal(x))
        return x * 2

    jax.vmap(jax.grad(note))(jnp.ones(3))
    jax.jvp(note, (1.0,), (1.0,))
    assert seen[0].shape == (3,) and seen[1] == 1.0 and not isinstance(seen[1], jax.Array)


def test_returnable_and_custom_dtypes_are_recognised():
    assert jc.can_be_returned(jc.ShapedArray((2,), np.dtype("float32"))) and jc.can_be_returned(
        jc.typeof(jax.random.key(0))
    )
    assert not jc.can_be_returned(jc.ShapedArray((2,), jc.float0)) and not jc.can_be_returned(object())
    assert not jc.has_custom_dtype(jc.typeof(jax.random.key(0)))
    strings = jax.device_put(np.array(["a"], dtype=np.dtypes.StringDType()), jax.devices()[0])
    assert jc.has_custom_dtype(jc.typeof(strings)) and jc.buffers(strings) == []


def test_avals_on_a_mesh_are_recognised():
    place = jax.sharding.NamedSharding(
        jax.make_mesh((1,), ("x",)).abstract_mesh, jax.sharding.PartitionSpec("x")
    )
    assert jc.is_on_mesh(jc.ShapedArray((4,), np.dtype("float32"), sharding=place))
    assert not jc.is_on_mesh(jc.typeof(jnp.zeros(4)))
    assert not jc.is_on_mesh(jc.typeof(jax.device_put(jnp.zeros(4), jax.devices()[0])))


def test_primitives_that_pass_cotangents_unchanged_are_recognised():
    (copy,) = jax.make_jaxpr(lambda x: jnp.array(x))(jnp.ones(3)).eqns
    (product,) = jax.make_jaxpr(lambda x: jax.lax.mul(x, x))(jnp.ones(3)).eqns
    assert jc.transpose_forwards_cotangent(copy) and not jc.transpose_forwards_cotangent(product)


def test_inner_placements_of_a_call_are_found():
    device = jax.devices()[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    x = jnp.ones(3)

    def said(function):
        (eqn,) = jax.make_jaxpr(jax.jit(function))(x).eqns
        return jc.named_placement(eqn.primitive, eqn.params)

    assert said(lambda y: y + 1) == ([], False)
    assert said(lambda y: jax.device_put(y, sharding)) == ([sharding], False)
    assert said(lambda y: jax.device_put(y, jax.memory.Space.Device)) == ([], True)
    (placed,) = jax.make_jaxpr(jax.jit(lambda y: y + 1, out_shardings=sharding))(x).eqns
    assert jc.named_placement(placed.primitive, placed.params) == ([sharding], False)


def test_a_registered_array_type_is_an_array_to_jax():
    class Late(jax.Array):
        __slots__ = ("aval", "value")
        shape, ndim = property(lambda self: self.aval.shape), property(lambda self: self.aval.ndim)
        dtype, size = property(lambda self: self.aval.dtype), property(lambda self: self.aval.size)

        def copy_to_host_async(self):
            pass

        def __init__(self, value):
            self.aval, self.value = jc.typeof(value), value

    before = _core.EvalTrace.process_primitive, api._device_get
    entered, read = [], []

    def concrete(late, function):
        read.append(function)
        return late.value

    try:
        jc.register_array_type(Late, lambda late: (entered.append(late), late)[1])
        jc.register_evaluated_type(Late, concrete)
        jc.register_constant_type(Late, lambda late: late.value)
        late = Late(jnp.arange(3.0))
        assert not isinstance(late, jc.Tracer) and not hasattr(late, "__jax_array__")
        np.testing.assert_array_equal(jax.lax.add(late, late), [0, 2, 4])
        assert read == ["", ""] and entered[0] is late
        assert jax.device_get(late).tolist() == [0, 1, 2] and read[-1] == "jax.device_get"
        jaxpr = jax.make_jaxpr(lambda x: (late + x).T.at[0].set(1.0))(jnp.ones(3))
        assert jaxpr.consts[0] is late
        np.testing.assert_array_equal(
            jax.jit(lambda y: y + late).lower(jnp.ones(3)).compile()(jnp.ones(3)), [1, 2, 3]
        )
    finally:
        _core.EvalTrace.process_primitive, api._device_get = before


def test_a_lifted_value_is_an_operand_again_and_a_constant_ahead_of_time():
    class Lifted(jc.Tracer):
        def __init__(self, value):
            self._trace, self.aval, self.value = jc.eval_trace, jc.typeof(value), value

    before = jax.stages.Traced.__init__
    try:
        jc.register_closure_tracer_type(Lifted, lambda lifted: lifted.value)
        lifted = Lifted(jnp.arange(3.0))
        np.testing.assert_array_equal(jax.lax.add(lifted, jnp.ones(3)), [1, 2, 3])
        function = jax.jit(lambda y: y + lifted)
        assert not function.trace(jnp.ones(3))._consts
        np.testing.assert_array_equal(function.lower(jnp.ones(3)).compile()(jnp.ones(3)), [1, 2, 3])
    finally:
        jax.stages.Traced.__init__ = before


def test_constants_of_a_trace_are_found_by_id_and_linear_traces_are_told():
    owner, name = jc.NEW_CONST
    plain, seen = getattr(owner, name), []

    def new_const(trace, value, *rest, **more):
        found = plain(trace, value, *rest, **more)
        seen.append((jc.constants_by_id(trace).get(id(value)) is found, jc.is_linear(trace)))
        return found

    array = jnp.arange(3.0)
    try:
        setattr(owner, name, new_const)
        jax.make_jaxpr(lambda x: x + array)(jnp.ones(3))
        assert seen == [(True, False)]
        jax.grad(lambda x: (jnp.sin(x) * array).sum())(jnp.ones(3))
    finally:
        setattr(owner, name, plain)
    assert (True, True) in seen[1:]


def test_an_exponent_can_be_made_unknown_to_power():
    three, two = jnp.int32(3), jnp.int32(2)
    module, names = jc.power_exponent_substitutes(lambda exponent: exponent is not three)
    before = vars(module)["core"]
    try:
        vars(module).update(names)
        (eqn,) = jax.make_jaxpr(lambda x: jnp.power(x, two))(2.0).eqns
        assert eqn.primitive.name == "integer_pow"
        assert "integer_pow" not in str(jax.make_jaxpr(lambda x: jnp.power(x, three))(2.0))
    finally:
        vars(module)["core"] = before


def test_lowering_reads_the_placement_of_registered_types():
    class Late(jax.Array):
        __slots__ = ("aval", "value")

        def __init__(self, value):
            self.aval, self.value = jc.typeof(value), value

    sharding = SingleDeviceSharding(jax.devices()[0])
    before = pjit.convert_to_metaty
    try:
        jc.register_array_type(Late, lambda late: late)
        jc.register_aot_placement(Late, lambda late: late.value if late.value.ndim else sharding)
        lowered = jax.jit(lambda x, y: x + y).lower(
            Late(jax.device_put(jnp.ones(3), sharding)), Late(jnp.ones(()))
        )
        assert lowered.compile().input_shardings == ((sharding, sharding), {})
    finally:
        pjit.convert_to_metaty = before


def test_the_source_sharding_of_device_put_is_read_from_registered_types():
    class Late:
        aval = jc.typeof(1.0)

    class Varied(jc.Tracer):
        def __init__(self):
            self._trace, self.aval = jc.eval_trace, jc.typeof(1.0)

        def to_concrete_value(self):
            return late

    first, second = (SingleDeviceSharding(device) for device in jax.devices()[:2])
    late, array = Late(), jax.device_put(jnp.ones(3), first)
    before = api._infer_src_sharding
    try:
        jc.register_transfer_source(Late, lambda value: second)
        assert api._infer_src_sharding(None, Varied(), late.aval) == second
        assert api._infer_src_sharding(first, Varied(), late.aval) == first
        assert api._infer_src_sharding(None, array, jc.typeof(array)) == first
    finally:
        api._infer_src_sharding = before
    source = jax.device_put(2.0, jax.devices()[0])
    assert jax.grad(lambda x: jax.device_put(x, jax.devices()[1]))(source).committed


def test_jax_counts_files_of_lazynb_as_no_user_files():
    from jax._src import source_info_util

    assert source_info_util.is_user_filename("/somewhere/else.py")
    assert not source_info_util.is_user_filename(lazynb.__file__)


def test_depending_finds_the_outputs_that_depend_on_an_input():
    jaxpr = jax.make_jaxpr(lambda a, b: (a + 1, b * 2, 3.0, jnp.sin(a) * b, b))(1.0, 2.0)
    first, second = jc.jaxpr_inputs(jaxpr)
    assert jc.outputs_depending_on(jaxpr, [second]) == [False, True, False, True, True]
    assert jc.outputs_depending_on(jaxpr, [first]) == [True, False, False, True, False]


# ---- names that are compared as text -----------------------------------------------------------------------

SOURCE = pathlib.Path(jax.__file__).parent
NEWER = jax.__version_info__ >= (0, 11)


@functools.cache
def functions_of(file):
    """The names of all functions in one of JAX's private files, at any depth."""
    found, left = set(), [compile((SOURCE / "_src" / file).read_text(), file, "exec")]
    while left:
        inner = [one for one in left.pop().co_consts if isinstance(one, types.CodeType)]
        found.update(code.co_name for code in inner)
        left += inner
    return found


@functools.cache
def primitive_names():
    """The names of the primitives that JAX can lower, or differentiates before it lowers."""
    assert compute_on.compute_on and export.export  # their modules add primitives
    tables = [ad.primitive_jvps, mlir._lowerings, *mlir._platform_specific_lowerings.values()]
    return {primitive.name for table in tables for primitive in table}


@functools.cache
def parameter_names():
    """The keywords with which JAX's source binds primitives, or collects parameters."""
    texts = [path.read_text() for path in (SOURCE / "_src").rglob("*.py") if "pallas" not in path.parts]
    calls = [
        node
        for text in texts
        if ".bind(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    ]
    binding = [call for call in calls if ast.unparse(call.func).endswith((".bind", "dict"))]
    return {keyword.arg for call in binding for keyword in call.keywords}


# By file, the functions whose names lazynb compares with those in a stack.
IN_A_STACK = {
    "numpy/array_methods.py": {"op", "meth", "prop", "method", "_getitem", "_transpose_property"},
    "pjit.py": {"_run_python_pjit"},
    "custom_derivatives.py": {"wrapped_fun"},
    "config.py": {"wrapper"},
    "source_info_util.py": {"wrapper"},
    "numpy/vectorize.py": {"wrapped"},
    "shard_map.py": {"wrapped"} if not NEWER else set(),
    "error_check.py": {"inner"},
    "numpy/ufunc_api.py": {"__call__"},
    "numpy/ufuncs.py": {"true_divide"},
    "lax/lax.py": {"<lambda>"},
    "api.py": {"grad_f", "value_and_grad_f", "jacfun", "vmap_f"},
}


@pytest.mark.parametrize("file", IN_A_STACK)
def test_functions_looked_up_in_a_stack_exist_in_their_files(file):
    assert functions_of(file) >= IN_A_STACK[file]


def test_each_name_of_a_function_in_a_stack_is_looked_up():
    looked_up = {name.strip("_") for functions in IN_A_STACK.values() for name in functions}
    compared = {
        *jax_names.FORWARDING_FUNCTIONS,
        *jax_names.TRANSFORMED_FUNCTIONS,
        *jax_names.ARRAY_FUNCTIONS,
        *jax_names.JITTED_NAMES,
    }
    assert {name.strip("_") for name in compared} == looked_up
    operators = {f"{jax_names.OPERATOR_PREFIX}{name}" for name in ("add", "radd", "matmul", "eq", "lt")}
    assert operators <= functions_of("numpy/array_methods.py")


def stack_of(call):
    """The names of the functions above one that ``call`` is given and calls."""
    seen = []

    def note(x):
        frame = sys._getframe(1)
        while frame is not None:
            seen.append(frame.f_code.co_name)
            frame = frame.f_back
        return x * 2.0

    call(note)
    return seen


@pytest.mark.parametrize("inner", jax_names.TRANSFORMED_FUNCTIONS)
def test_a_transformed_function_is_called_by_the_name_of_its_transformation(inner):
    public = {"jacobian": jax.jacobian}.get(
        jax_names.TRANSFORMED_FUNCTIONS[inner], getattr(jax, jax_names.TRANSFORMED_FUNCTIONS[inner])
    )
    x = jnp.ones(3) if inner in ("vmap_f", "jacfun") else 1.0
    assert inner in stack_of(lambda note: public(note)(x))
    assert "jacfun" in stack_of(lambda note: jax.jacfwd(note)(x))


def test_files_and_modules_looked_up_by_name_exist():
    file = inspect.unwrap(jnp.linspace).__code__.co_filename
    assert jax_names.PRIVATE_FOLDER in file and jax_names.PACKAGE_FOLDER in file
    assert jax_names.PACKAGE_FOLDER in jax.__file__ and jax_names.PRIVATE_FOLDER not in jax.__file__
    for end in jax_names.MACHINERY_FILES:
        assert (SOURCE.parent / end).is_file()
    assert file.endswith(os.path.join("jax", "_src", "numpy", "array_creation.py"))
    assert (SOURCE.parent / jax_names.INTERPRETERS_FOLDER / "ad.py").is_file()
    for module in jax_names.CALLBACK_MODULES:
        assert importlib.util.find_spec(module) is not None
    module = sys.modules[inspect.unwrap(jnp.linspace).__globals__["__name__"]].__name__
    assert module.startswith(jax_names.PRIVATE_MODULES) and jax_names.PRIVATE_MODULES.startswith(
        jax_names.PUBLIC_MODULES
    )
    public = sys.modules[jax_names.PUBLIC_MODULES + "numpy"]
    assert public.linspace is jnp.linspace


def test_the_functions_of_callback_modules_call_the_user_s():
    modules = []
    jax.tree.map(lambda leaf: modules.append(sys._getframe(1).f_globals["__name__"]), [1])
    assert modules[0].startswith("jax._src.tree") and modules[0].startswith(jax_names.CALLBACK_MODULES)


def test_transformations_appear_in_a_name_stack_as_known():
    scopes = []

    def note(x):
        with jax.named_scope("inner"):
            scopes.append(str(jc.source_context.context.name_stack))
            return jnp.sin(x)

    with jax.named_scope("outer"):
        jax.vmap(jax.grad(note))(jnp.ones(3))
    lowered = jax.jit(jax.grad(note)).lower(1.0).as_text(debug_info=True)
    jvp, transpose, vmap, jit = jax_names.TRANSFORMATION_SCOPES
    assert f"{vmap}({jvp}(inner))" in scopes[0]
    assert f"{transpose}({jvp}(inner))" in lowered and f'"{jit}(' in lowered
    assert transpose == jax_names.BACKWARD_SCOPE


def _last(name):
    return name.rpartition(".")[2]


def test_public_functions_treated_apart_exist():
    older = {"psend", "precv"}
    gone = older if NEWER else set()
    left = jax_names.NOT_REPLAYED | jax_names.NOT_WORTH_REPLAYING
    places = {
        name: [f"{module.__name__}.{name}" for module in MODULES if name in vars(module)]
        for name in map(_last, left)
    }
    assert {
        name for name in left if not any(name in (place, _last(place)) for place in places[_last(name)])
    } == gone
    assert older <= left
    for name in (*jax_names.COMPARED_BY_IDENTITY, *jax_names.VALUE_INDEPENDENT_SCALARS):
        assert callable(getattr(jnp, name)), name
    for name in (*jax_names.MONOIDS, *jax_names.DEVICE_FILL_FUNCTIONS):
        assert callable(getattr(jax.lax, name)), name


def test_primitives_known_by_name_exist():
    assert set(jax_names.PRIMITIVE_DISPLAY_NAMES) <= primitive_names()
    classes = (
        jax_names.SUMS,
        jax_names.PRODUCTS,
        jax_names.QUOTIENTS,
        jax_names.REDUCING,
        jax_names.COMPARING,
        jax_names.OPAQUE,
    )
    known = set().union(*classes, jax_names.MOVING, jax_names.CONVERTING)
    assert not known - primitive_names(), known - primitive_names()
    in_words = {operation_name(name) for name in primitive_names()}
    others = jax_names.SHAPE_ADAPTERS - in_words
    assert all(hasattr(jnp, name) or hasattr(jax.lax, name) for name in others)
    assert {jax.make_jaxpr(jax.jit(jnp.sin))(1.0).eqns[0].primitive.name} == set(jc.JIT_PRIMITIVES)


def compared_primitives(text):
    """The texts that a module compares with the name of a primitive."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("primitive.name"):
            constants = [one for side in node.comparators for one in ast.walk(side)]
            found.update(one.value for one in constants if isinstance(one, ast.Constant))
    return found


def test_primitives_that_are_compared_by_name_exist():
    """Where speed matters, a name stands beside what is done with the primitive, not in ``names``."""
    texts = [path.read_text() for path in pathlib.Path(lazynb.__file__).parent.rglob("*.py")]
    compared = set().union(*map(compared_primitives, texts))
    assert {"device_put", "sharding_constraint", "convert_element_type", "ffi_call"} <= compared
    assert compared <= primitive_names()
    planted = compared_primitives("if eqn.primitive.name in ('sin', 'gone'): pass")
    assert planted - primitive_names() == {"gone"}


def test_callback_primitives_have_callback_in_their_name():
    def call(x):
        jax.debug.callback(print, x)
        io_callback(print, None, x)
        return jax.pure_callback(np.sin, x, x)

    eqns = jax.make_jaxpr(call)(1.0).eqns
    assert len(eqns) == 3 and all("callback" in eqn.primitive.name for eqn in eqns)


def test_parameters_known_by_name_exist():
    older, newer = {"num_carry"}, {"ft_in", "ft_out"}
    compared = {
        *jax_names.RANK_PARAMETERS,
        *jax_names.SIZE_PARAMETERS,
        *jax_names.DTYPE_PARAMETERS,
        *jax_names.ADDED_PARAMETERS,
        *jax_names.UNNAMED_PARAMETERS,
        *jax_names.PARAMETER_DISPLAY_NAMES,
    }
    assert compared - parameter_names() == (older if NEWER else newer)
    assert (older | newer) <= compared


def test_custom_jvp_and_vjp_equations_have_the_known_parameters():
    @jax.custom_jvp
    def forward(x):
        return x * 2

    forward.defjvp(lambda primals, tangents: (primals[0], tangents[0]))

    @jax.custom_vjp
    def reverse(x):
        return x * 2

    reverse.defvjp(lambda x: (x, None), lambda _, cotangent: (cotangent,))
    (a,), (b,) = (jax.make_jaxpr(function)(1.0).eqns for function in (forward, reverse))
    assert {a.primitive.name, b.primitive.name} == set(jc.DIFFERENTIATION_PARAMS)
    for eqn in (a, b):
        assert jc.DIFFERENTIATION_PARAMS[eqn.primitive.name] <= set(eqn.params)


def test_concretisation_contexts_have_the_known_phrases_and_prefixes(monkeypatch):
    contexts = []
    owner, name = jc.CONCRETE_OR_ERROR
    plain = getattr(owner, name)

    def noting(force, val, context=""):
        contexts.append(context)
        return plain(force, val, context)

    monkeypatch.setattr(owner, name, noting)
    jnp.repeat(jnp.arange(2), jnp.array([1, 2]))
    assert any(jax_names.REPEAT_COUNTS_MESSAGE in context for context in contexts)
    jnp.arange(3)
    jax.nn.one_hot(jnp.arange(2), 2)
    jnp.split(jnp.arange(4), 2)
    for prefix in jax_names.CONTEXT_PREFIXES:
        assert any(context.startswith(prefix) for context in contexts), prefix


def test_a_hit_in_the_persistent_cache_is_an_event(tmp_path):
    events = []

    def listen(event, **_):
        events.append(event)

    jax.monitoring.register_event_listener(listen)
    try:
        cache = jc.file_cache(str(tmp_path))
        for _ in range(2):
            lowered = jax.jit(lambda x: x * 7 + 1).lower(jnp.ones(5))
            with jc.compiling_settings(cache):
                assert jax_names.CACHE_HIT_EVENT not in events
                lowered.compile()
    finally:
        jax._src.monitoring.unregister_event_listener(listen)
    assert jax_names.CACHE_HIT_EVENT in events


def test_argument_names_gives_the_arguments_in_the_users_terms():
    jaxpr = jax.make_jaxpr(lambda x, p: x * p["w"])(1.0, {"w": 2.0})
    assert jc.argument_names(jaxpr) == ["x", "p['w']"]
    assert jc.argument_names(jc.closed_jaxpr([], [], [])) == []


def test_traced_function_gives_name_file_and_first_line_of_a_traced_function():
    def double(x):
        return x * 2

    line = double.__code__.co_firstlineno
    assert jc.traced_function(jax.make_jaxpr(double)(1.0)) == ("double", __file__, line)
    assert jc.traced_function(jax.make_jaxpr(lambda x: x)(1.0))[0] == "<lambda>"
    assert jc.traced_function(jc.closed_jaxpr([], [], [])) is None
    assert jc.traced_function(jc.trace_to_jaxpr(lambda x: [x], [jc.typeof(1.0)])) is not None


def test_process_methods_of_the_lazy_trace_exist_on_the_eval_trace():
    """JAX calls these methods of the current trace; a lazy one has them under the same names."""
    asked = {name for name in vars(LazyTrace) if name.startswith("process_") or name == "cur_qdd"}
    older = {"process_call", "cur_qdd"}
    assert {name for name in asked if not hasattr(jc.eval_trace, name)} == (older if NEWER else set())


def test_a_program_for_a_device_that_is_not_there_can_be_taken_to_another_process():
    program = jax.jit(lambda x: jnp.tanh(x) * 2)
    lowered = program.trace(jax.ShapeDtypeStruct((4,), jnp.float32)).lower(lowering_platforms=("tpu",))
    lowering = jc.lowering_of(lowered)
    assert lowering.module[:4] == b"ML\xefR"  # MLIR's bytecode
    assert (lowering.propagate_input_shardings, lowering.propagate_result_shardings) == ((True,), (True,))


def test_a_module_from_another_process_compiles():
    lowering = jc.lowering_of(jax.jit(lambda x: jnp.tanh(x) * 2).lower(jnp.ones(4)))
    executable = jc.compile_for(jax.devices()[:1], lowering, {})
    assert "tanh" in jc.optimised_text(executable)
    assert executable.get_compiled_memory_stats().argument_size_in_bytes == 16


def test_a_module_of_hlo_compiles():
    text = jax.jit(lambda x: jnp.tanh(x) * 2).lower(jnp.ones((4, 8))).as_text(dialect="hlo")
    executable = jc.compile_for(jax.devices()[:1], jc.lowering_of_hlo(text), {})
    assert "tanh" in jc.optimised_text(executable)
    with pytest.raises(Exception, match="(?i)pars|expect|invalid|unexpected"):
        jc.compile_for(jax.devices()[:1], jc.lowering_of_hlo("HloModule m\n\nno computation"), {})


def test_unplaced_programs_name_no_mesh():
    mesh = jax.sharding.AbstractMesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

    def program(x):
        y, _ = jax.lax.scan(lambda carry, _: (jnp.tanh(carry), None), jax.sharding.reshard(x, rows), None, 3)
        return jax.jit(lambda y: y * 2)(y)

    with jax.sharding.use_abstract_mesh(mesh):
        jaxpr = jax.make_jaxpr(program)(jax.ShapeDtypeStruct((4, 2), jnp.float32, sharding=rows))
    assert "4@data" in str(jaxpr) and "mesh" in str(jaxpr)
    plain = jc.without_devices(jaxpr)
    assert "data" not in str(plain) and "reshard" not in str(plain)
    assert jc.as_function(plain)(jnp.ones((4, 2)))[0].shape == (4, 2)


def _solve(matrix, x):
    return jnp.linalg.solve(matrix, x)


def _diagonal_solve(matrix, x):
    weights = jnp.diag(matrix)
    return jax.lax.custom_linear_solve(
        lambda v: v * weights, x, lambda matvec, b: b / matvec(jnp.ones_like(b)), symmetric=True
    )


@pytest.mark.parametrize(
    "program",
    [
        _solve,
        lambda matrix, x: jnp.linalg.inv(matrix),
        _diagonal_solve,
        lambda matrix, x: jax.grad(lambda m: _solve(m, x).sum())(matrix),
        lambda matrix, x: jax.lax.scan(lambda c, _: (_solve(matrix, c), None), x, None, 2)[0],
        lambda matrix, x: jax.lax.cond(x[0] > 0, lambda: _solve(matrix, x), lambda: x),
        lambda matrix, x: jax.lax.while_loop(lambda c: c[0] > 1, lambda c: _solve(matrix, c), x),
        lambda matrix, x: jax.jit(jax.checkpoint(_diagonal_solve))(matrix, x),
    ],
    ids=["solve", "inv", "custom", "grad", "scan", "cond", "while", "jit"],
)
def test_unplaced_programs_keep_namedtuples_of_functions(program):
    given = jnp.eye(3) * 2 + 0.5, jnp.array([4.0, 2.0, 1.0])
    plain = jc.without_devices(jax.make_jaxpr(program)(*given))
    assert np.array_equal(jc.as_function(plain)(*given)[0], program(*given))


def test_functions_are_found_in_any_pytree():
    one, two = jax.make_jaxpr(jnp.sin)(1.0), jax.make_jaxpr(jnp.cos)(1.0)
    solve = collections.namedtuple("solve", ["first", "second"])
    for value in [
        one,
        (one, 3),
        [two, one],
        solve(one, two),
        {"f": one, "g": None},
        (1, (solve(two, 2), "a")),
    ]:
        named = jax.tree.map(lambda leaf: {id(one): "one", id(two): "two"}.get(id(leaf), leaf), value)
        found = [{"one": one, "two": two}[leaf] for leaf in jax.tree.leaves(named) if leaf in ("one", "two")]
        assert list(map(id, jc.jaxprs_of(value))) == list(map(id, found))
        assert jc.map_jaxprs(lambda jaxpr: "one" if jaxpr is one else "two", value) == named
        assert jc.map_jaxprs(lambda jaxpr: jaxpr, value) is value
    assert jc.jaxprs_of(("f", 1, jnp.ones(2), np.dtype("int8"))) == []


def test_a_constraint_stays_on_a_mesh_with_its_axes():
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.sharding.AbstractMesh((2,), ("data",), axis_types=auto)
    larger = jax.sharding.AbstractMesh((8,), ("data",), axis_types=auto)
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    jaxpr = jax.make_jaxpr(lambda x: jax.lax.with_sharding_constraint(x * 2, rows) + 1)(jnp.ones(8))
    assert "sharding_constraint" not in str(jc.without_devices(jaxpr))
    [constraint] = [
        one for one in jc.without_devices(jaxpr, larger).eqns if "constraint" in one.primitive.name
    ]
    assert constraint.params["sharding"].mesh == larger
    other = jax.sharding.AbstractMesh((8,), ("model",), axis_types=auto)
    assert "sharding_constraint" not in str(jc.without_devices(jaxpr, other))


def test_no_mesh_can_be_put_in_force():
    mesh = jax.sharding.AbstractMesh((2,), ("data",))
    with jax.sharding.use_abstract_mesh(mesh), jc.without_mesh():
        assert jax.sharding.get_abstract_mesh().empty


def test_settings_that_identify_no_operation_have_names():
    kept = jax.config.jax_default_prng_impl
    jax.config.update("jax_default_prng_impl", "rbg")
    try:
        settings = jc.untraced_settings()
    finally:
        jax.config.update("jax_default_prng_impl", kept)
    assert settings["jax_default_prng_impl"] == "rbg" and "jax_enable_x64" not in settings


def test_jit_options_lists_the_options_of_a_jitted_function():
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    assert jc.jit_options(jax.jit(lambda x: x)) == jc.jit_options(len) == []
    assert jc.jit_options(jax.jit(lambda x: x, static_argnums=0)) == []
    assert jc.jit_options(jax.jit(lambda x: x, donate_argnums=0)) == ["donate_argnums"]
    assert jc.jit_options(jax.jit(lambda x: x, donate_argnames="x")) == ["donate_argnums"]
    assert jc.jit_options(jax.jit(lambda x: x, in_shardings=here)) == ["in_shardings"]
    assert jc.jit_options(jax.jit(lambda x: x, out_shardings=here, keep_unused=True)) == [
        "out_shardings",
        "keep_unused",
    ]


def test_static_arguments_have_positions_and_names():
    function = jax.jit(lambda x, n, mode: x * n, static_argnums=1, static_argnames="mode")
    assert set(jc.static_arguments(function)) == {1, "mode"}
    assert jc.static_arguments(len) == ()


# ---- modules of StableHLO ----------------------------------------------------------------------------------


def _lowered():
    inner = jax.jit(jnp.tanh)
    return jax.jit(lambda x: inner(x) * 2 + inner(x + 1)).lower(jnp.ones((4, 8)))


def test_a_module_of_stablehlo_is_read_and_changed():
    lowered = _lowered()
    module = jc.stablehlo_of(lowered)
    assert module.devices == 1
    block = module.main.regions[0].blocks[0]
    first, *_, last = [each.operation for each in block.operations if each.operation.name == "func.call"]
    assert module.called(first) is module.called(last)
    copied = module.specialized_callee(last)
    assert module.called(last) is copied is not module.called(first)
    assert module.called(block.operations[len(block.operations) - 1].operation) is None
    module.name(first, "n7/tanh")
    module.name(block.arguments[0], "args[0]")
    module.clear_location(last)
    assert 'loc("n7/tanh"' in module.text() and 'loc("args[0]"' in module.text()
    assert "n7/tanh" not in lowered.as_text(debug_info=True)  # it was a copy


def test_a_changed_module_stands_in_for_the_lowered_one():
    lowered = _lowered()
    module = jc.stablehlo_of(lowered)
    for each in module.called(_calls(module)[0]).regions[0].blocks[0].operations:
        module.name(each.operation, "n3/marked")
    changed = jc.with_module(lowered, module).compile()
    assert "n3/marked" in changed.as_text() and "n3/marked" not in lowered.compile().as_text()
    x = jnp.full((4, 8), 0.5)
    assert (changed(x) == lowered.compile()(x)).all()


def _calls(module):
    operations = module.main.regions[0].blocks[0].operations
    return [each.operation for each in operations if each.operation.name == "func.call"]


@pytest.mark.parametrize("code", ["", "no module", "module { func.func @main( }", b"ML\xefRno bytecode"])
def test_text_that_is_no_stablehlo_module_raises_value_error(code):
    try:
        assert jc.StableHlo(code).main is None  # an empty text is an empty module
    except ValueError:
        assert code


def test_the_device_count_of_a_module_is_read_from_its_attributes():
    attributes = "mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32"
    assert jc.StableHlo(f"module attributes {{{attributes}}} {{}}").devices == 8
    assert jc.StableHlo("module {}").devices == 1


def test_hlo_text_is_converted_to_stablehlo_and_to_full_text():
    text = _lowered().as_text(dialect="hlo")
    assert "stablehlo.tanh" in jc.stablehlo_of_hlo(text).text()
    short = "HloModule m\n\nENTRY e {\n  p = f32[3] parameter(0)\n  ROOT t = f32[3] tanh(p)\n}\n"
    assert "%t = f32[3]{0} tanh(%p)" in jc.full_text(short)
    for read in (jc.stablehlo_of_hlo, jc.full_text):
        with pytest.raises(ValueError, match="."):
            read("HloModule m\n\nno computation")


def test_a_module_of_stablehlo_compiles():
    found = jc.compile_module(jc.stablehlo_of(_lowered()), {"xla_cpu_enable_fast_math": False})
    assert "is_scheduled=true" in found.text and found.platform == "cpu"
    assert found.memory.argument_size_in_bytes == 4 * 8 * 4


def test_the_platforms_of_lowered_and_compiled_programs_are_read():
    lowered = _lowered()
    assert jc.platforms_of(lowered) == ("cpu",)
    assert jc.platform_of(lowered.compile()) == "cpu"
    traced = jax.jit(jnp.tanh).trace(jnp.ones(3))
    assert jc.platforms_of(traced.lower(lowering_platforms=("tpu",))) == ("tpu",)


def test_the_portable_form_of_stablehlo_is_read():
    exported = export.export(jax.jit(jnp.tanh))(jnp.ones(3))
    module = jc.StableHlo(exported.mlir_module_serialized)
    assert "stablehlo.tanh" in module.text() and module.main is not None


def test_rematerialised_operations_are_in_a_scope_of_their_own():
    function = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    inner = [eqn for eqn in jax.make_jaxpr(jax.grad(function))(1.0).eqns if eqn.params.get("jaxpr")]
    stacks = [(eqn.primitive.name, str(eqn.source_info.name_stack)) for eqn in inner[-1].params["jaxpr"].eqns]
    again = [name for name, stack in stacks if jax_names.REMAT_SCOPE in stack.split("/")]
    assert "sin" in again and "mul" not in again


def test_unused_arguments_are_dropped_from_a_lowered_program():
    kinds = [("bfloat16", (2,)), ("float32", ()), ("uint32", (3, 4)), ("bool", (1,)), ("complex64", (2,))]
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for dtype, shape in kinds]
    lowered = jax.jit(lambda a, b, *rest: [jnp.stack([r, r]) for r in (a, *rest)]).lower(*arguments)
    assert jc.kept_arguments(lowered) == [0, 2, 3, 4]
    module = jc.stablehlo_of(lowered)
    assert module.argument_types == [kinds[number] for number in jc.kept_arguments(lowered)]
    assert "loc(" in module.text() and "loc(" not in module.text(locations=False)


def test_a_program_of_one_process_has_no_other_hosts():
    assert jc.coordination() is None and jc.host_count() == 1 and jc.host_index() == 0
    assert not jc.spans_hosts(jax.devices())
    assert jc.device_numbers(jax.devices()[:1]) == [-1 - jax.devices()[0].local_hardware_id]
    assert jc.device_numbers(jax.devices()[:2]) == [0, 1]
    before = dict(vars(distributed.global_state))
    left = []
    jc.replace_exit_barrier(lambda: left.append(True))
    try:
        jax.distributed.shutdown()  # what JAX calls when the interpreter ends
    finally:
        del distributed.global_state.shutdown
    assert left == [True] and vars(distributed.global_state) == before
    jc.shut_down()  # nothing to do
    assert issubclass(jc.RpcError, RuntimeError)


# ---- meshes ------------------------------------------------------------------------------------------------


def mesh_of_two(kind):
    return jax.make_mesh((2,), ("x",), axis_types=(kind,))


def of_call(function, *args):
    """The primitive and the parameters of a jitted function's call."""
    (eqn,) = jax.make_jaxpr(function)(*args).eqns
    return eqn.primitive, eqn.params


def test_the_mesh_set_by_set_mesh_can_be_read():
    assert (
        jc.current_mesh_devices() == set() and jc.current_explicit_mesh() is None and jc.has_several_devices()
    )
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = mesh_of_two(kind)
        with jax.set_mesh(mesh):
            assert jc.current_mesh_devices() == {tuple(jax.devices()[:2])}
            assert jc.current_explicit_mesh() == (mesh if kind is AxisType.Explicit else None)
            named = NamedSharding(mesh.abstract_mesh, P("x"))
            assert jc.resolve_on_current_mesh(named) == NamedSharding(mesh, P("x"))
            assert (
                jc.context_mesh_devices(*of_call(jax.jit(jnp.tanh), jnp.ones(2))) == jc.current_mesh_devices()
            )
    assert jc.context_mesh_devices(*of_call(jax.jit(jnp.tanh), jnp.ones(2))) == set()


def test_avals_on_auto_and_explicit_meshes_are_told_apart():
    devices = tuple(jax.devices()[:2])
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = mesh_of_two(kind)
        sharding = NamedSharding(mesh, P("x", None))
        aval = jc.typeof(jax.device_put(np.ones((2, 2)), sharding))
        assert jc.is_on_mesh(aval) and jc.is_auto(aval) == (kind is AxisType.Auto)
        pinned = jc.explicit_sharding(aval, devices)
        assert pinned == (sharding if kind is AxisType.Explicit else None)
    assert not jc.is_on_mesh(jc.typeof(jnp.ones(2)))


def test_equivalent_shardings_are_normalised_to_one_spec():
    mesh = mesh_of_two(AxisType.Explicit)
    spellings = [P("x"), P("x", None), P(("x",)), P(("x",), None)]
    assert {jc.canonical_sharding(NamedSharding(mesh, spec)) for spec in spellings} == {
        jc.canonical_sharding(NamedSharding(mesh, P("x")))
    }
    unreduced = NamedSharding(mesh, P(None, unreduced={"x"}))
    assert jc.canonical_sharding(unreduced).spec.unreduced == {"x"} and not jc.is_plain_named_sharding(
        unreduced
    )
    assert jc.is_plain_named_sharding(NamedSharding(mesh, P("x")))
    assert jc.named_sharding(None, {"out_shardings": (unreduced,)}, 0) is unreduced
    unconstrained = NamedSharding(mesh_of_two(AxisType.Auto), P(P.UNCONSTRAINED))
    assert not jc.is_plain_named_sharding(unconstrained)


def test_shardings_and_layouts_named_by_a_call_are_found():
    sharding = NamedSharding(mesh_of_two(AxisType.Auto), P("x"))
    plain = of_call(jax.jit(jnp.tanh), jnp.ones(2))
    named = of_call(jax.jit(jnp.tanh, out_shardings=sharding), jnp.ones(2))
    assert jc.named_sharding(*named, 0) == sharding and jc.named_sharding(*plain, 0) is None
    layout = Format(Layout((0,)), sharding)
    assert not jc.names_layouts(plain[1]) and not jc.names_layouts(named[1])
    assert jc.names_layouts(of_call(jax.jit(jnp.tanh, out_shardings=layout), jnp.ones(2))[1])


def test_the_sizes_of_explicit_abstract_meshes_are_found():
    x = np.ones(2, np.float32)
    with jax.sharding.use_abstract_mesh(mesh_of_two(AxisType.Explicit).abstract_mesh):
        explicit = of_call(lambda x: jax.sharding.reshard(x, P("x")), x)
    with jax.sharding.use_abstract_mesh(mesh_of_two(AxisType.Auto).abstract_mesh):
        auto = of_call(lambda x: jax.sharding.reshard(x, P()), x)
        mapped = of_call(jax.shard_map(lambda x: x, in_specs=P("x"), out_specs=P("x")), x)
    assert jc.abstract_mesh_sizes(*explicit) == jc.abstract_mesh_sizes(*mapped) == {2}
    assert jc.abstract_mesh_sizes(*auto) == set()


def test_shardings_refusals_and_mesh_of_a_shard_map_are_found():
    mesh = mesh_of_two(AxisType.Auto)
    x = jax.device_put(np.ones(2), NamedSharding(mesh, P("x")))

    def inner(v):
        return v + jax.device_put(1, jax.devices()[0])

    def traced(function, **more):
        call = jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"), **more)
        (eqn,) = jax.make_jaxpr(call)(x).eqns
        return eqn

    eqn = traced(inner)
    assert jc.eager_shard_map_shardings(eqn, mesh) == [NamedSharding(mesh, P("x"))]
    assert jc.eager_shard_map_shardings(eqn, mesh.abstract_mesh) is None
    assert [one for one in eqn.params["jaxpr"].eqns if jc.eager_shard_map_refuses(one)]
    refs = traced(lambda v: jax.freeze(jax.new_ref(v)), check_vma=False).params["jaxpr"].eqns
    assert jc.eager_shard_map_refuses(refs[0]) and not any(map(jc.eager_shard_map_refuses, refs[1:]))
    assert (
        jc.eager_shard_map_mesh(mesh, ()) is mesh and jc.eager_shard_map_mesh(mesh.abstract_mesh, [x]) == mesh
    )
    with pytest.raises(ValueError, match="NamedSharding"):
        jc.eager_shard_map_mesh(mesh.abstract_mesh, [np.ones(2)])
    with jax.set_mesh(mesh):
        assert jc.eager_shard_map_mesh(mesh.abstract_mesh, ()) == mesh


def test_values_of_registered_types_can_be_closed_over_by_a_shard_map(monkeypatch):
    mesh = mesh_of_two(AxisType.Auto)
    plain = jc.primitives._shard_map.ShardMapTrace.to_val_mat_pair
    monkeypatch.setattr(jc.primitives._shard_map.ShardMapTrace, "to_val_mat_pair", plain)
    jc.register_mapped_type(str, lambda text: np.float32(text))
    stage = jc.primitives._shard_map.ShardMapTrace.stage_value

    def inner(v):
        return v * stage(jc.current_trace(), "3")

    got = jax.shard_map(inner, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(jnp.ones(2))
    assert (np.asarray(got) == 3).all()


def test_the_parser_of_indices_takes_what_is_registered():
    module, name = jc.PARSE_INDICES
    assert list(inspect.signature(getattr(module, name)).parameters)[1:] == ["shape"]

    class Held:
        shape, dtype = (2,), np.dtype(np.int32)

        def __init__(self, array):
            self.array = array

    jc.register_container_type(Held, lambda held: held.array)
    held = Held(jnp.arange(2))
    assert jc.unwrap_container(held) is held.array and jc.unwrap_container(3) == 3
    assert jax.jit(lambda x: x + 1)(held).tolist() == [1, 2]


def test_explicit_64_bit_dtypes_are_honoured_in_32_bit_mode():
    narrow = jnp.arange(2, dtype=jnp.int32)
    with jax.enable_x64(False):
        with jc.explicit_64_bits():
            assert narrow.astype(np.int64).dtype == jnp.sum(narrow, dtype=np.int64).dtype == np.int64
            assert (narrow.astype(np.int64) + narrow.astype(np.int64)).dtype == np.int64
        with pytest.warns(UserWarning, match="int64"):
            assert narrow.astype(np.int64).dtype == np.int32
