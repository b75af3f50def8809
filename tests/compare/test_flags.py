"""``lazynb.compile(f, ..., flags=..., without=...)``, and what a comparison says of flags."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import lazynb
from lazynb.compare.differences.compiler_changes import sentence as flags_sentence
from lazynb.errors import LazynbError
from lazynb.report.comparison_report import comparison_data, side_of
from lazynb.report.inspection.inspection_file import SavedInspections, inspection_entry, read_inspections
from lazynb.xla.flag_text import format_flags, parse_xla_flags
from lazynb.xla.xla_flags import (
    BadFlag,
    compile_with_flags,
    flags_phrase,
    flags_without_libraries,
    parse_flags,
    requested_flags,
)

pytestmark = pytest.mark.xdist_group("compare flags")
TYPE = jax.ShapeDtypeStruct((64, 32), jnp.float32)
UNFUSED = {"xla_disable_hlo_passes": "fusion"}


def chain(x):
    return jnp.exp(x * 2) + x


@functools.cache
def plain():
    return lazynb.compile(chain, TYPE)


@functools.cache
def unfused():
    return lazynb.compile(chain, TYPE, flags=UNFUSED)


@pytest.mark.parametrize(
    "given",
    [
        {"xla_a": True, "xla_b": 3, "xla_c": "x,y"},
        {"--xla_a": "true", "xla_b": "3", "xla_c": "x,y"},
        ["--xla_a=True", "xla_b=3", "xla_c=x,y"],
        ("xla_a=true", "xla_b=3", "xla_c=x,y"),
        "--xla_a=true  --xla_b=3 --xla_c=x,y",
    ],
)
def test_flags_as_dict_text_or_list_parse_alike(given):
    flags = parse_flags(given)
    assert flags == {"xla_a": True, "xla_b": "3", "xla_c": "x,y"}
    assert parse_flags(format_flags(flags)) == flags


def test_quoted_flag_values_are_parsed_as_in_xla_flags():
    assert parse_flags("--xla_a=1 '--xla_b=two words'") == {"xla_a": "1", "xla_b": "two words"}


@pytest.mark.parametrize(
    "flags, without, words",
    [
        ("xla_cpu_enable_fast_math", None, "write its name and value, such as xla_cpu_enable_fast_math=true"),
        (["a b=1"], None, "'a b' is no name of a flag"),
        ([3], None, "3 is no flag"),
        ({3: 4}, None, "3 is no name of a flag"),
        (3, None, "flags are a dictionary or a list"),
        ({"xla_a": None}, None, "None is no value for xla_a: write true, false, a number or a text"),
        ({"xla_a": [1]}, None, "is no value for xla_a"),
        (None, 3, "without takes names of libraries, such as 'YNNPACK', not 3"),
        (None, ["YNNPACK", 3], "without takes names of libraries"),
        (None, "cuDNN", "cannot replace cuDNN by its own code: lazynb supports only YNNPACK"),
        (None, "YNNPACK,", "cannot replace an empty name by its own code: lazynb supports only YNNPACK"),
    ],
)
def test_malformed_flags_are_refused_in_one_line(flags, without, words):
    with pytest.raises(BadFlag) as raised:
        requested_flags(flags, without)
    assert words in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"xla_cpu_nonsense": 1}, "No such compile option: 'xla_cpu_nonsense' (XLA_FLAGS=--help"),
        ({"xla_cpu_enable_fast_math": 1}, "'1' is not a valid bool value: write true or false"),
        ("xla_backend_optimization_level=high", "'high' is not a valid int32 value"),
        ({"xla_cpu_experimental_ynn_fusion_type": "all of it"}, "not a valid enum value (XLA_FLAGS=--help"),
    ],
)
def test_an_xla_error_about_a_flag_is_reported_in_one_line(flags, words):
    with pytest.raises(LazynbError) as raised:
        lazynb.compile(chain, TYPE, flags=flags)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_a_function_compiled_with_flags_is_unfused_and_not_run():
    made = unfused()
    assert made.flags == UNFUSED and not made.is_run
    assert len(made.clusters) > len(plain().clusters) == 1
    assert "to be looked at: what runs is the program without" in repr(made.notes)


def test_numeric_and_boolean_flag_values_are_accepted():
    made = lazynb.compile(chain, TYPE, flags={"xla_backend_optimization_level": 0, "xla_cpu_ftz": False})
    assert format_flags(made.flags) == "xla_backend_optimization_level=0 xla_cpu_ftz=false"


def test_flags_apply_to_pending_tensors_and_to_jit():
    with lazynb.lazy():
        y = chain(jnp.ones(TYPE.shape))
        made = lazynb.compile(y, flags=UNFUSED)
        assert made.flags and y._pending is not None
    jitted = lazynb.compile(chain, TYPE, as_jit=True, flags=UNFUSED)
    assert jitted.form is not None and len(jitted.clusters) > 1
    assert "to be looked at: nothing runs it" in jitted.notes[0]
    del y
    lazynb.sync()
    assert not lazynb.compile(flags=UNFUSED).traces


def test_a_flags_keyword_belongs_to_the_compiler_and_not_to_the_function():
    """As its target, mesh and shard are; a function that has one of its own takes it in a lambda."""
    with pytest.raises(BadFlag):
        lazynb.compile(lambda x, flags: x, TYPE, flags=3)


def test_without_compiles_without_the_named_library():
    def product(x):
        return x @ x + 1

    square = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    made = lazynb.compile(product, square, without="ynnpack", flags=["xla_cpu_ftz=true"])
    assert made.flags == {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_ftz": True}
    assert not any(cluster.library for cluster in made.clusters)
    assert any(cluster.library for cluster in lazynb.compile(product, square).clusters)


def test_flags_are_refused_for_targets_lowered_programs_and_compilations():
    with pytest.raises(BadFlag, match="leave the target out"):
        lazynb.compile(chain, TYPE, target="v5e", flags=UNFUSED)
    with pytest.raises(BadFlag, match=r"compile\(compiler_options="):
        lazynb.compile(jax.jit(chain).lower(TYPE), flags=UNFUSED)
    with pytest.raises(TypeError, match="only with a function"):
        lazynb.inspect(plain(), flags=UNFUSED)


def test_disabling_a_pass_that_does_not_run_is_noted():
    """XLA takes any name; an experiment without an effect is no evidence."""
    made = compile_with_flags(plain(), {"xla_disable_hlo_passes": "fusion,fusoin"})
    idle = [note for note in made.notes if "changes nothing" in note]
    assert idle == ["XLA runs no pass `fusoin` on this program, so disabling it changes nothing."]


# ---- what a comparison says of them ------------------------------------------------------------------------


def test_the_diff_header_lists_differing_flags():
    diff = lazynb.diff(plain(), unfused())
    said = "Compiled with other flags: now with xla_disable_hlo_passes=fusion."
    assert repr(diff).startswith(f"{said}\n1. ") and f"<div>{said}</div>" in diff.to_html()
    assert [one.name for one in diff.flags] == ["xla_disable_hlo_passes"]
    data = json.loads(diff.to_json())
    assert data["flags"] == [{"name": "xla_disable_hlo_passes", "before": None, "now": "fusion"}]
    assert data["now"]["flags"] == {**data["before"]["flags"], **UNFUSED}
    assert comparison_data(diff)["names"] == ["before", "now, with xla_disable_hlo_passes=fusion"]


def test_equal_flags_are_not_reported():
    diff = lazynb.diff(unfused(), unfused())
    assert repr(diff).startswith("Nothing differs") and not diff.flags and "xla_" not in diff.to_html()
    assert comparison_data(diff)["names"] == ["before", "now"]


def test_differing_flags_are_reported_even_if_the_programs_are_equal():
    diff = lazynb.diff(plain(), lazynb.compile(chain, TYPE, flags="xla_cpu_ftz=true"))
    first, second = repr(diff).splitlines()[:2]
    assert first.endswith("now with xla_cpu_ftz=true.") and second.startswith("Nothing differs")


def test_the_flags_sentence_names_the_flags_of_each_side():
    slow = lazynb.compile(chain, TYPE, flags={**UNFUSED, "xla_backend_optimization_level": 0})
    assert flags_sentence(side_of(slow, "slow", {}), side_of(unfused(), "odd", {})) == (
        "Compiled with other flags: slow with xla_backend_optimization_level=0."
    )
    fast = dataclasses.replace(side_of(unfused(), "fast", {}), flags={"xla_backend_optimization_level": "2"})
    assert flags_sentence(side_of(slow, "slow", {}), fast) == (
        "Compiled with other flags: slow with xla_disable_hlo_passes=fusion xla_backend_optimization_level=0; "
        "fast with xla_backend_optimization_level=2."
    )


def test_a_disabled_library_is_described_by_name():
    assert (
        flags_phrase(flags_without_libraries(["YNNPACK"], "cpu"))
        == "without YNNPACK (xla_cpu_experimental_ynn_fusion_type=)"
    )
    assert flags_phrase({**flags_without_libraries(["YNNPACK"], "cpu"), "xla_a": "1"}).endswith(
        ", with xla_a=1"
    )
    assert flags_phrase({"xla_cpu_experimental_ynn_fusion_type": "x"}).startswith(
        "with xla_cpu_experimental_ynn"
    )


# ---- files -------------------------------------------------------------------------------------------------


def test_a_saved_file_keeps_its_flags(tmp_path):
    for name, made in {"plain": plain(), "odd": unfused()}.items():
        SavedInspections([inspection_entry(made)]).save(tmp_path / f"{name}.json")
    assert read_inspections(tmp_path / "odd.json").flags == {
        **read_inspections(tmp_path / "plain.json").flags,
        **UNFUSED,
    }
    read_inspections(tmp_path / "odd.json").save(tmp_path / "again.json")
    diff = lazynb.diff(tmp_path / "plain.json", tmp_path / "again.json")
    assert repr(diff).startswith("Compiled with other flags: again.json with xla_disable_hlo_passes=fusion.")
    live = lazynb.diff(plain(), unfused())
    assert diff.to_dicts() == live.to_dicts() and diff.flags.to_dicts() == live.flags.to_dicts()
    both = SavedInspections([inspection_entry(plain()), inspection_entry(unfused())])
    assert both.flags == read_inspections(tmp_path / "plain.json").flags  # what holds for all


def test_a_file_in_the_old_format_has_unknown_flags(tmp_path):
    SavedInspections([inspection_entry(unfused())]).save(tmp_path / "new.json")
    data = json.loads((tmp_path / "new.json").read_text())
    del data["inspections"][0]["inspection"]["collectives"]  # nor these
    for old, entry in {"old": None, "odd": {"flags": ["no", "dictionary"]}}.items():
        del data["inspections"][0]["flags"]
        data["inspections"][0].update(entry or {})
        (tmp_path / f"{old}.json").write_text(json.dumps(data))
        assert read_inspections(tmp_path / f"{old}.json").flags is None
        data["inspections"][0]["flags"] = None
    diff = lazynb.diff(tmp_path / "old.json", unfused())
    assert repr(diff).splitlines()[0].endswith("; the flags of old.json are not known.")


def test_a_precompiled_program_has_unknown_flags():
    given = lazynb.compile(jax.jit(chain).lower(TYPE).compile())
    assert given.all_flags is None and plain().all_flags is not None


# ---- the process -------------------------------------------------------------------------------------------


def test_xla_flags_of_the_process_are_parsed_and_included(tmp_path, monkeypatch):
    text = "--xla_cpu_ftz=TRUE '--xla_b=two words' --xla_c --xla_dump_to=/somewhere --xla_d= --xla_c=false"
    flags = {"xla_cpu_ftz": "true", "xla_b": "two words", "xla_c": "false", "xla_d": ""}
    assert (
        parse_xla_flags(text) == flags
        and parse_xla_flags("") == {}
        and parse_xla_flags("--xla_e='1") == {"xla_e": "'1"}
    )
    (tmp_path / "flags").write_text(text.replace(" ", "\n", 1))
    assert (
        parse_xla_flags(str(tmp_path / "flags")) == flags and parse_xla_flags(str(tmp_path / "absent")) == {}
    )
    monkeypatch.setattr(plain(), "_process_flags", flags)
    assert plain().all_flags == flags
    assert flags_sentence(side_of(plain(), "one", {}), side_of(unfused(), "two", {})).startswith(
        "Compiled with other flags: one with xla_cpu_ftz=true"
    )


def test_a_saved_file_records_the_xla_flags_at_compilation(tmp_path):
    """As XLA took them: changed later, the variable means nothing."""
    program = (
        "import os, jax, jax.numpy as jnp, lazynb\n"
        f"lazynb.compile(lambda x: jnp.exp(x * 2) + x, jnp.ones(8)).save_json({str(tmp_path / 'a')!r})\n"
        "os.environ['XLA_FLAGS'] = '--xla_cpu_ftz=false'\n"
        f"lazynb.compile(jnp.exp, jnp.ones(8)).save_json({str(tmp_path / 'b')!r})\n"
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_disable_hlo_passes=fusion"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    first, second = read_inspections(tmp_path / "a"), read_inspections(tmp_path / "b")
    assert first.flags == second.flags == UNFUSED and len(first.inspections[0]["clusters"]) > 1
    assert "XLA_FLAGS of the process that compiled it: xla_disable_hlo_passes=fusion." in first.text()
