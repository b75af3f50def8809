"""The private names of JAX and jaxlib: all that lazynb uses, and nothing else.

A new JAX release needs changes in this folder alone: ``tests/test_jax_private_names.py`` has a test for each
name. The code is written for JAX 0.10.2 and 0.12.0.1. Facts that differ between them stand beside the code
that bridges them. :mod:`lazynb._jax.names` has the names of JAX that are only compared with strings.

Other modules write ``from lazynb import _jax as jc`` and look a name up where they use it. Nothing here is
assigned again after the import, so that each name is the same object here and in its own module.
"""

from __future__ import annotations

from lazynb._jax.ahead import (
    Lowering as Lowering,
    compile_for as compile_for,
    kept_arguments as kept_arguments,
    lowering_of as lowering_of,
    lowering_of_hlo as lowering_of_hlo,
    optimised_text as optimised_text,
)
from lazynb._jax.analysis import (
    Figures as Figures,
    cost_figures as cost_figures,
    cost_properties as cost_properties,
    new_profile as new_profile,
)
from lazynb._jax.arrays import (
    TYPED_SCALARS as TYPED_SCALARS,
    UNSPECIFIED as UNSPECIFIED,
    ArrayImpl as ArrayImpl,
    ShapedArray as ShapedArray,
    TypedNdArray as TypedNdArray,
    abstract as abstract,
    array_attribute_error as array_attribute_error,
    array_methods as array_methods,
    array_operators as array_operators,
    can_be_returned as can_be_returned,
    committed as committed,
    concrete_array_has as concrete_array_has,
    device_assignment as device_assignment,
    elements as elements,
    float0 as float0,
    has_users_dtype as has_users_dtype,
    is_committed as is_committed,
    is_concrete_sharding as is_concrete_sharding,
    is_cut_by_calls as is_cut_by_calls,
    is_host_array as is_host_array,
    is_key as is_key,
    is_on_mesh as is_on_mesh,
    is_ready as is_ready,
    numpy_array_p as numpy_array_p,
    plain_array as plain_array,
    stage as stage,
    stand_in as stand_in,
    strongly_typed as strongly_typed,
    uncommitted as uncommitted,
    uncommitted_sharding as uncommitted_sharding,
    weak_scalar as weak_scalar,
)
from lazynb._jax.assembling import (
    core_without_tracers as core_without_tracers,
    register_array_class as register_array_class,
    register_part_type as register_part_type,
)
from lazynb._jax.autodiff import (
    GradAccum as GradAccum,
    LinearizeTrace as LinearizeTrace,
    LinearizeTracer as LinearizeTracer,
    NullAccum as NullAccum,
    ValAccum as ValAccum,
    Zero as Zero,
    innermost as innermost,
    linearisation as linearisation,
    new_accumulator as new_accumulator,
    transposition as transposition,
)
from lazynb._jax.building import (
    ClosedJaxpr as ClosedJaxpr,
    Jaxpr as Jaxpr,
    Literal as Literal,
    Var as Var,
    as_function as as_function,
    as_function_here as as_function_here,
    closed_jaxpr as closed_jaxpr,
    constants as constants,
    depending as depending,
    eqn_context as eqn_context,
    forwarded as forwarded,
    is_jaxpr as is_jaxpr,
    jaxpr_inputs as jaxpr_inputs,
    jaxprs_in as jaxprs_in,
    jaxprs_of as jaxprs_of,
    jit_options as jit_options,
    new_eqn as new_eqn,
    new_var as new_var,
    no_effects as no_effects,
    separate_consts as separate_consts,
    source_file as source_file,
    static_arguments as static_arguments,
    traced as traced,
    with_content as with_content,
)
from lazynb._jax.caching import (
    compiling_settings as compiling_settings,
    executable_in as executable_in,
    file_cache as file_cache,
    is_readable_entry as is_readable_entry,
    move_entry as move_entry,
    no_cache as no_cache,
    remove_entry as remove_entry,
)
from lazynb._jax.config import (
    canonical as canonical,
    context as context,
    default_device as default_device,
    guards_transfers as guards_transfers,
    lowering_settings as lowering_settings,
    must_run_eagerly as must_run_eagerly,
    placement_context as placement_context,
    raw_context as raw_context,
    restore_config as restore_config,
    running_settings as running_settings,
    runs_as_compiled as runs_as_compiled,
    settings_kept as settings_kept,
    settings_now as settings_now,
    snapshot_config as snapshot_config,
    traced_settings as traced_settings,
    untraced_settings as untraced_settings,
    user_cache_dir as user_cache_dir,
    without_mesh as without_mesh,
    x64_in as x64_in,
)
from lazynb._jax.config_changes import (
    Changes as Changes,
    changes as changes,
    counted_changes as counted_changes,
)
from lazynb._jax.inside import (
    BRANCHES as BRANCHES,
    CALLING as CALLING,
    CALLS as CALLS,
    SCAN as SCAN,
    WHILE as WHILE,
    differentiated as differentiated,
    instructions as instructions,
    name_stack as name_stack,
    running as running,
    scan_constants as scan_constants,
    traceback_of as traceback_of,
    under as under,
    with_eqns as with_eqns,
)
from lazynb._jax.memory import (
    addresses as addresses,
    buffers as buffers,
    deleted_array as deleted_array,
    deleted_awaited as deleted_awaited,
    existing_arrays as existing_arrays,
    moved as moved,
    on_host as on_host,
    out_of_memory as out_of_memory,
    put as put,
    view as view,
    watch_memory as watch_memory,
    with_buffers as with_buffers,
)
from lazynb._jax.primitives import (
    DIFFERENTIATION_PARAMS as DIFFERENTIATION_PARAMS,
    JIT_PRIMITIVES as JIT_PRIMITIVES,
    abstract_eval as abstract_eval,
    can_be_lowered as can_be_lowered,
    conversion as conversion,
    eval_shard_map as eval_shard_map,
    hands_on as hands_on,
    inner_placement as inner_placement,
    lower_alone as lower_alone,
    may_be_refused as may_be_refused,
    runs_by_itself as runs_by_itself,
    spans_devices as spans_devices,
    takes_the_argument as takes_the_argument,
)
from lazynb._jax.registration import (
    DeviceGet as DeviceGet,
    device_get as device_get,
    register_argument_type as register_argument_type,
    register_constant_type as register_constant_type,
    register_own_files as register_own_files,
    register_placed_type as register_placed_type,
    register_tracer_type as register_tracer_type,
)
from lazynb._jax.running import (
    Captured as Captured,
    call_here as call_here,
    captured as captured,
    capturing_call as capturing_call,
    recovered as recovered,
)
from lazynb._jax.stablehlo import (
    Found as Found,
    StableHlo as StableHlo,
    compile_module as compile_module,
    full_text as full_text,
    platform_of as platform_of,
    platforms_of as platforms_of,
    stablehlo_of as stablehlo_of,
    stablehlo_of_hlo as stablehlo_of_hlo,
    with_module as with_module,
)
from lazynb._jax.substitution import (
    AmbientPatches as AmbientPatches,
    attributed as attributed,
    concretisation as concretisation,
    constant_taken as constant_taken,
    filling as filling,
    readable_errors as readable_errors,
    refusal_of_static as refusal_of_static,
    refusing_constants as refusing_constants,
)
from lazynb._jax.tracing import (
    Trace as Trace,
    Tracer as Tracer,
    ambient as ambient,
    at_top_level as at_top_level,
    at_work as at_work,
    check_bool_conversion as check_bool_conversion,
    check_integer_conversion as check_integer_conversion,
    check_scalar_conversion as check_scalar_conversion,
    current_trace as current_trace,
    escaped_tracer_error as escaped_tracer_error,
    eval_trace as eval_trace,
    is_eval as is_eval,
    scopes as scopes,
    set_current_trace as set_current_trace,
    set_trace as set_trace,
    typeof as typeof,
)
from lazynb._jax.unplaced import unplaced as unplaced
