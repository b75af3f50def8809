"""``lazynb inspect``: a function for a chip, or what ``lazynb run --save`` wrote on another machine."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import lazynb
from lazynb.cli.main import main
from lazynb.report.inspection.inspection_file import (
    InspectionFileError,
    SavedInspections,
    inspection_entry,
    read_inspections,
)
from lazynb.xla.targets.compiler_packages import compiler_of
from lazynb.xla.targets.target_compilation import TargetError

PROGRAM = """
    import jax
    import jax.numpy as jnp
    import lazynb

    def step(params, x):
        return jax.nn.softmax(jnp.tanh(x @ params["w"]), -1)

    def example_args():
        return params, jax.ShapeDtypeStruct((3, 8), jnp.bfloat16)

    params = {"w": jax.ShapeDtypeStruct((8, 4), jnp.float32)}
    shards = lazynb.shard_like(params, jax.sharding.PartitionSpec(None, "model"))

    def plain(x, w):
        return x @ w + 1

    def whole():
        return jnp.ones((4, 4)) @ jnp.ones((4, 4))

    def branches(x):
        return x if x.sum() > 0 else -x

    number = 3

    if __name__ == "__main__":
        for turn in range(3):
            y = plain(jnp.ones((32, 16)), jnp.ones((16, 8)))
            print(float(y.sum()))
"""


@pytest.fixture
def program(write, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield write("train_it.py", PROGRAM)
    sys.modules.pop("train_it", None)


@pytest.mark.parametrize(
    "arguments, operations",
    [
        (["train_it.py:plain", "--args", "f32[3,8], f32[8,4]"], "2 operations"),
        (["train_it.py:plain", "--args", "bf16[3,8],float32[8]"], "operations"),
        (["train_it.py:step", "--args", "example_args"], "operations"),
        (["train_it.py:whole"], "5 operations"),
    ],
)
def test_a_function_in_a_file_is_inspected_without_running(program, capsys, arguments, operations):
    assert main(["inspect", *arguments]) == 0
    shown = capsys.readouterr().out
    assert operations in shown and "not run" in shown and "train_it.py:" in shown


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["train_it.py:nope"], ["has no nope", "step, example_args"]),
        (["train_it.py:number"], ["is no function, but int"]),
        (["absent.py:step"], ["no file absent.py"]),
        (["train_it.py"], ["names no function", "train.py:step"]),
        (["train_it.py:plain", "--args", "q7[3]"], ["'q7[3]' is no type", "f32[128,64]"]),
        (["train_it.py:branches", "--args", "f32[3]"], ["LNB101", "as under jax.jit"]),
        (["train_it.py:whole", "--for", "h9000"], ["no chip 'h9000'"]),
        (["train_it.py:whole", "--mesh", "data=4"], ["add --for"]),
        (["train_it.py:whole", "--for", "v5e:2x2", "--mesh", "data=3"], ["has 3 devices"]),
        (["train_it.py:whole", "--for", ""], ["'' names no chip"]),
        (
            ["train_it.py:whole", "--for", "v5e:2x2", "--mesh", "data=4", "--shard", "nope"],
            ["is no sharding"],
        ),
        (["train_it.py:whole", "--html", "absent/a.html"], ["cannot be written to absent/a.html"]),
        (["train_it.py:whole", "--flag", "xla_nonsense=1"], ["No such compile option: 'xla_nonsense'"]),
        (["train_it.py:whole", "--flag", "fast"], ["lazynb inspect: 'fast' is no flag: write its name"]),
        (["train_it.py:whole", "--for", "v5e", "--without", "YNNPACK"], ["leave the target out"]),
        (["other.json", "--flag", "xla_a=1"], ["--flag goes with a function"]),
        (["absent.json"], ["absent.json cannot be read"]),
        (["other.json"], ["holds no inspection"]),
        (["other.json", "--for", "v5e"], ["--for goes with a function"]),
        ([], ["required: FILE.py:FUNCTION | FILE.json"]),
    ],
)
def test_bad_functions_and_arguments_are_refused_without_a_traceback(
    program, write, capsys, arguments, words
):
    write("other.json", "[1, 2]")
    assert main(["inspect", *arguments]) == 2
    said = capsys.readouterr().err
    for word in words:
        assert word in said
    assert "Traceback" not in said


def test_an_error_of_the_function_is_pythons(program, capsys):
    assert main(["inspect", "train_it.py:plain", "--args", "f32[3,8],f32[3]"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" in said and "return x @ w + 1" in said and "lazynb/" not in said


def test_a_function_is_compiled_for_other_chips_and_meshes(program, capsys):
    for name in ("tpu", "cuda"):
        if not compiler_of(name).is_installed:
            pytest.skip("the compilers are not installed")
    arguments = ["inspect", "train_it.py:step", "--args", "example_args", "--for"]
    assert main([*arguments, "v5e:2x2", "--mesh", "model=4", "--shard", "params=.,model"]) == 0
    assert "compiled for 4 TPU v5e" in capsys.readouterr().out
    assert main([*arguments, "v5e:2x2", "--mesh", "model=4", "--shard", "shards"]) == 0
    assert "compiled for 4 TPU v5e" in capsys.readouterr().out
    assert main([*arguments, "cpu,v5e,h100", "--json", "three.json", "--html", "three.html"]) == 0
    assert "this machine" in capsys.readouterr().out
    with open("three.html") as page:
        assert 'class="lazynb-targets"' in page.read().partition('<div id="lazynb-root">')[0]
    assert [data["target"] for data in read_inspections("three.json").inspections] == [
        "",
        "TPU v5e",
        "NVIDIA H100 (SXM)",
    ]


def test_as_jit_shows_the_jit_program_beside_the_lazy_one(program, capsys):
    assert main(["inspect", f"{program}:plain", "--args", "f32[16,8],f32[8,4]", "--as-jit"]) == 0
    text = capsys.readouterr().out
    assert "this machine, as jax.jit" in text and "as jax.jit (returns" in text


def test_compiler_flags_are_named_in_the_output(program, capsys):
    arguments = ["inspect", f"{program}:plain", "--args", "f32[64,64],f32[64,64]"]
    assert main([*arguments, "--as-jit", "--without", "YNNPACK", "--flag", "xla_cpu_ftz=true"]) == 0
    text = capsys.readouterr().out
    said = "xla_cpu_experimental_ynn_fusion_type= xla_cpu_ftz=true, to be looked at: "
    assert f"{said}what runs is the program without" in text and f"{said}nothing runs it" in text


def test_targets_that_compile_are_shown_although_another_fails(program, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("LAZYNB_COMPILERS", str(tmp_path))
    assert main(["inspect", "train_it.py:step", "--args", "example_args", "--for", "cpu,v5e"]) == 1
    said = capsys.readouterr().out
    assert "Not compiled for TPU v5e. " in said and "lazynb targets install tpu" in said
    assert "this machine" in said


def test_a_program_refused_only_as_jit_is_reported(program, capsys, monkeypatch):
    from lazynb.cli import compilation_commands as module

    plainly = module.compile_function

    def refusing(function, args, kwargs, namespace, target=None, as_jit=False):
        if as_jit:
            raise TargetError("It is too large.")
        return plainly(function, args, kwargs, namespace, target)

    monkeypatch.setattr(module, "compile_function", refusing)
    assert main(["inspect", f"{program}:plain", "--args", "f32[16,8],f32[8,4]", "--as-jit"]) == 1
    assert "Not compiled for this machine, as jax.jit. It is too large." in capsys.readouterr().out


# ---- files -------------------------------------------------------------------------------------------------


def test_a_saved_inspection_shows_the_same_text_page_and_json(program, capsys):
    arguments = ["train_it.py:step", "--args", "example_args", "--json", "step.json", "--html", "step.html"]
    assert main(["inspect", *arguments]) == 0
    shown = capsys.readouterr().out
    assert main(["inspect", "step.json", "--html", "again.html", "--json", "again.json"]) == 0
    assert capsys.readouterr().out == shown
    assert lazynb.inspect("step.json").inspections == read_inspections("again.json").inspections
    with open("step.json") as one, open("again.json") as other:
        assert json.load(one) == json.load(other)
    with open("step.html") as one, open("again.html") as other:
        assert one.read().split("<title>")[1].split("</title>")[1] == other.read().split("</title>")[1]


def test_the_views_are_those_of_the_compilation(program, tmp_path):
    made = lazynb.compile(lambda x: (x * 2).sum(), np.ones((4, 4)))
    entry = inspection_entry(made)
    SavedInspections([entry]).save(tmp_path / "one.json")
    again = read_inspections(tmp_path / "one.json")
    assert again.entries[0].graph == made.snapshot
    assert again.inspections == [json.loads(json.dumps(entry.data))]
    bundle = again._repr_mimebundle_()
    assert "<img" in bundle["text/html"] or "No drawing" in bundle["text/html"]
    assert "kernel" in bundle["text/plain"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "holds no inspection"),
        ("{}", "holds no inspection"),
        ('{"version": 99, "lazynb": "9.9", "inspections": []}', "written by lazynb 9.9"),
        ('{"version": 1, "inspections": [{}]}', "not whole"),
        ('{"version": 1, "inspections": []}', "nothing was compiled"),
        ('{"version": 1, "inspections": [{"inspection": null, "graph": []}]}', "not whole"),
        ('{"version": 1, "inspections": [{"inspection": {"programs": []}, "graph": []}]}', "not whole"),
        ("[" * 100_000, "holds no inspection"),
    ],
)
def test_files_without_an_inspection_are_refused(tmp_path, text, words):
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(InspectionFileError, match=words):
        read_inspections(tmp_path / "file.json")


def test_a_run_is_saved_with_its_times(program, lazynb_run, capsys):
    ended = lazynb_run("--save", "measured.json", "train_it.py")
    assert ended.returncode == 0 and ended.stdout.split() == ["4352.0"] * 3
    assert "1 program written to" in ended.stderr
    (data,) = read_inspections("measured.json").inspections
    assert data["ran"] and data["programs"][0]["runs"] == 3
    assert any(cluster["time"] for cluster in data["clusters"])
    assert data["machine"] is None or data["machine"]["bandwidth"] > 0
    assert main(["inspect", "measured.json"]) == 0
    shown = capsys.readouterr().out
    assert "µs" in shown and "ran" in shown


def test_a_place_that_cannot_be_written_is_found_before_the_run(program, lazynb_run):
    ended = lazynb_run("--save", "absent/measured.json", "train_it.py")
    assert ended.returncode == 2 and not ended.stdout
    assert "the inspection cannot be written" in ended.stderr
    assert lazynb_run("--save", "train_it.py", "train_it.py").returncode == 2


def test_a_reproducer_is_written(program, capsys):
    arguments = ["inspect", "train_it.py:step", "--args", "example_args"]
    files = ["--reproducer", "bug.py", "--json", "step.json"]
    assert main([*arguments, *files, "--question", "why so many?"]) == 0
    said = capsys.readouterr().err
    assert all(f"written to {name}" in said for name in ("step.json", "bug.py"))
    with open("bug.py") as bug:
        assert bug.read().startswith('"""why so many?\n')
    assert main(["inspect", "step.json", "--reproducer", "bug.py"]) == 2
    assert "not with a saved file, which has no program" in capsys.readouterr().err
    assert main([*arguments, "--html", "absent/g.html"]) == 2
    assert "cannot be written to absent/g.html" in capsys.readouterr().err
