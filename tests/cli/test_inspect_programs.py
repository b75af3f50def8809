"""``lazynb inspect`` of a program as text: each kind of file, and each that is none."""

from __future__ import annotations

import json
import re

import jax
import jax.numpy as jnp
import pytest
from jax.export import export

import lazynb
from lazynb.cli.main import main
from lazynb.report.inspection.inspection_file import read_inspections

WEIGHTS, ROWS = jnp.ones((8, 4)), jnp.ones((3, 8))


def step(w, x):
    h = jnp.tanh(x @ w)
    return h * 2


LOWERED = jax.jit(step).lower(WEIGHTS, ROWS)
COMPILED = LOWERED.compile()
SHORT = """HloModule by_hand

ENTRY e {
  p = f32[16] parameter(0)
  t = f32[16] tanh(p)
  ROOT a = f32[16] add(t, p)
}
"""
NAMELESS = """module {
  func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.tanh %x : tensor<16xf32>
    %1 = stablehlo.add %0, %x : tensor<16xf32>
    return %1 : tensor<16xf32>
  }
}
"""
# What is in each file, with what its report says: the product runs by itself, `tanh` and `* 2` together. Without
# locations nothing tells that JAX wrote the line that spreads the 2, so that is an operation too.
FILES = {
    "step.mlir": (lambda: LOWERED.as_text(debug_info=True), "3 operations → 2 kernels", "programs.py:"),
    "bare.mlir": (LOWERED.as_text, "4 operations → 2 kernels", "bare.mlir:"),
    "step.stablehlo": (LOWERED.as_text, "4 operations → 2 kernels", "step.stablehlo:"),
    "step.mlirbc": (
        lambda: export(jax.jit(step))(WEIGHTS, ROWS).mlir_module_serialized,
        "3 operations → 2 kernels",
        "programs.py:",
    ),
    "before.hlo": (lambda: LOWERED.as_text(dialect="hlo"), "→ 2 kernels", ""),
    "optimised.hlo": (COMPILED.as_text, "3 operations → 2 kernels · given compiled", "programs.py:"),
    "dumped.txt": (COMPILED.as_text, "3 operations → 2 kernels · given compiled", "programs.py:"),
    "short.hlo": (lambda: SHORT, "2 operations → 1 kernel", "short.hlo:5"),
    "nameless.mlir": (lambda: NAMELESS, "2 operations → 1 kernel", "nameless.mlir:3, 4"),
}


def write_file(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", FILES)
def test_each_program_file_format_is_inspected_saved_and_rendered(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    made, headline, line = FILES[name]
    write_file(tmp_path, name, made())
    assert main(["inspect", name, "--json", "saved.json", "--html", "page.html"]) == 0
    shown = capsys.readouterr().out
    assert headline in shown.split("\n")[0] and "100 % of operations accounted for" in shown
    assert line in shown
    [again] = read_inspections("saved.json").inspections
    assert again["title"] == name and shown.startswith(repr(read_inspections("saved.json")))
    page = (tmp_path / "page.html").read_text()
    assert headline.split(" · ")[0] in page and name in page
    assert repr(lazynb.inspect(name)).split("\n")[0].split(" · ")[0] == shown.split("\n")[0].split(" · ")[0]


def test_what_an_optimised_module_lacks_is_noted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path, "optimised.hlo", COMPILED.as_text())
    main(["inspect", "optimised.hlo"])
    shown = capsys.readouterr().out
    assert "what XLA eliminated, folded or merged, and its passes, are not in it" in shown
    assert "By its text it was compiled for cpu." in shown and "not run" not in shown
    text = re.sub(r"backend_config=\{[^\n]*?\}(?=,|$)", "", "HloModule m, is_scheduled=true\n" + SHORT[18:])
    write_file(tmp_path, "unknown.hlo", text)
    main(["inspect", "unknown.hlo"])
    shown = capsys.readouterr().out
    assert "does not say for which chip" in shown and "rule inferred" not in shown


EIGHT = NAMELESS.replace("module {", "module attributes {mhlo.num_partitions = 8 : i32} {")
UNKNOWN_CALL = NAMELESS.replace(
    "stablehlo.tanh %x : tensor<16xf32>",
    "stablehlo.custom_call @nobody_knows(%x) : (tensor<16xf32>) -> tensor<16xf32>",
)
BAD = {
    "empty.mlir": (b"", "has no function main"),
    "empty.hlo": (b"", "holds neither HLO nor StableHLO"),
    "junk.hlo": (bytes(range(256)) * 4, "holds neither HLO nor StableHLO"),
    "junk.mlirbc": (b"ML\xefR" + bytes(range(64)), "holds neither HLO nor StableHLO"),
    "words.txt": (b"These are some words.\nAnd more.\n", "holds neither HLO nor StableHLO"),
    "cut.hlo": (COMPILED.as_text()[:-200].encode(), "cut.hlo"),
    "cut.mlir": (NAMELESS[:90].encode(), "holds neither HLO nor StableHLO"),
    "header.hlo": (b"HloModule m\n", "header.hlo"),
    "opcode.hlo": (
        SHORT.replace("tanh", "tahn").encode(),
        "XLA cannot read line 5: expects opcode but sees: tahn",
    ),
    "undefined.hlo": (SHORT.replace("add(t, p)", "add(t, q)").encode(), "undefined.hlo"),
    "no_main.mlir": (NAMELESS.replace("@main", "@other").encode(), "has no function main"),
    "types.mlir": (
        NAMELESS.replace("add %0, %x : tensor<16", "add %0, %x : tensor<8").encode(),
        "types.mlir",
    ),
    "eight.mlir": (EIGHT.encode(), "is for 8 devices, and this machine has"),
    "call.mlir": (UNKNOWN_CALL.encode(), "nobody_knows"),
    "python.txt": (b"import jax\n", "holds neither HLO nor StableHLO"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_program_file_is_refused_in_one_line(tmp_path, monkeypatch, capfd, name):
    monkeypatch.chdir(tmp_path)
    content, words = BAD[name]
    write_file(tmp_path, name, content)
    assert main(["inspect", name]) == 2
    said = capfd.readouterr()
    assert words in said.err and name in said.err and not said.out
    assert said.err.count("\n") == 1 and len(said.err) < 400, said.err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["absent.hlo"], "absent.hlo cannot be read: No such file"),
        (["folder.mlir"], "folder.mlir cannot be read: Is a directory"),
        (["short.hlo", "--args", "f32[3]"], "--args goes with a function, not with a file of HLO"),
        (["short.hlo", "--for", "v5e"], "--for goes with a function, not with a file of HLO"),
        (["short.hlo", "--as-jit"], "--as-jit goes with a function, not with a file of HLO"),
        (["short.hlo", "--html", "absent/page.html"], "cannot be written to absent/page.html"),
    ],
)
def test_arguments_that_do_not_apply_to_a_file_are_refused_in_one_line(
    tmp_path, monkeypatch, capsys, arguments, words
):
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path, "short.hlo", SHORT)
    (tmp_path / "folder.mlir").mkdir()
    assert main(["inspect", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_the_saved_form_is_plain_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path, "short.hlo", SHORT)
    main(["inspect", "short.hlo", "--json", "short.json"])
    saved = json.loads((tmp_path / "short.json").read_text())
    [program] = saved["inspections"][0]["inspection"]["programs"]
    assert program["operations"] == 2 and program["cache"] == "compiled"
