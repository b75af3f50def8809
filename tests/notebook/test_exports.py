"""The files that magics write for other tools."""

from __future__ import annotations

import json


def test_graph_prints_mermaid_text_without_a_run(notebook):
    notebook.run("x = jnp.ones(3)\ny = {'a': jnp.sin(x)}")
    part = notebook.run("%graph --mermaid y['a']").stdout
    assert part.startswith("flowchart TD\n") and "sin" in part
    assert notebook.run("%graph --mermaid").stdout.startswith("flowchart TD\n")
    assert notebook["y"]["a"].is_pending


def test_inspect_writes_model_explorer_perfetto_and_reproducer_files(notebook, tmp_path):
    notebook.run("%%compile made\ny = jnp.tanh(jnp.ones((8, 8)) @ jnp.ones((8, 8)))")
    names = {name: tmp_path / f"{name}.out" for name in ("model-explorer", "perfetto", "reproducer")}
    options = " ".join(f"--{name} {path}" for name, path in names.items())
    said = notebook.run(f'%inspect made {options} --question "why two kernels?"').stdout
    assert all(f"written to {path}" in said for path in names.values())
    assert len(json.loads(names["model-explorer"].read_text())["graphs"]) == 2
    slices = [each for each in json.loads(names["perfetto"].read_text())["traceEvents"] if each["ph"] == "X"]
    assert slices and "cell 3, line 2" in slices[-1]["args"]["lines"]
    assert names["reproducer"].read_text().startswith('"""why two kernels?\n')
    notebook.run(f"%inspect 3 --perfetto {tmp_path / 'x.json'}", error=TypeError)
