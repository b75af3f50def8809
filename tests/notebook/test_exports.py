"""The files that magics write for other tools."""

from __future__ import annotations


def test_inspect_writes_a_page_and_a_reproducer(notebook, tmp_path):
    notebook.run("%%compile made\ny = jnp.tanh(jnp.ones((8, 8)) @ jnp.ones((8, 8)))")
    names = {name: tmp_path / f"{name}.out" for name in ("html", "reproducer")}
    options = " ".join(f"--{name} {path}" for name, path in names.items())
    said = notebook.run(f'%inspect made {options} --question "why two kernels?"').stdout
    assert all(f"written to {path}" in said for path in names.values())
    assert "<html" in names["html"].read_text()
    assert names["reproducer"].read_text().startswith('"""why two kernels?\n')
    notebook.run(f"%inspect 3 --html {tmp_path / 'x.html'}", error=TypeError)
