"""Reproducers: each file compiles the same kernels again, in a process in which lazynb cannot be imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import lazynb
from lazynb.xla import reproducer_script
from lazynb.xla.hlo.clusters import CONTROL, FREE
from lazynb.xla.program_interface import InputsGone
from lazynb.xla.reproducer import _SETTINGS, NotReproducible
from lazynb.xla.targets.target_chip import parse_target
from lazynb.xla.xla_flags import compile_with_flags, flags_without_libraries

pytestmark = pytest.mark.usefixtures("clean")

RUNNER = """
import runpy, sys
for file in sys.argv[1:]:
    sys.argv = [file, "--run"]
    print("FILE", file)
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        print("STATUS", end.code)
assert "lazynb" not in sys.modules
"""


def ones(*shape, dtype=jnp.float32):
    return jnp.ones(shape, dtype)


def scan(x):
    return jax.lax.scan(lambda c, _: (jnp.tanh(c @ c), c.sum()), x, None, length=5)


PROGRAMS = {
    "elementwise": lambda: jnp.tanh(ones(64, 64)) * 2 + 1,
    "softmax": lambda: jax.nn.softmax(ones(64, 64) * 3),
    "dots": lambda: jnp.tanh(ones(64, 64) @ ones(64, 64)) @ ones(64, 64),
    "scan": lambda: scan(ones(8, 8)),
    "while": lambda: jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 1.5 + 1, ones(100)),
    "cond": lambda: jax.lax.cond(ones(2).sum() > 0, jnp.sin, lambda a: a * 2, ones(30)),
    "keys": lambda: (jax.random.normal(jax.random.key(0), (100,)), jax.random.split(jax.random.key(3))),
    "bf16": lambda: jnp.exp(ones(64, 64).astype(jnp.bfloat16)).sum(0),
    "library": lambda: jnp.linalg.cholesky(ones(8, 8) + 8 * jnp.eye(8)),
    "integers": lambda: (jnp.cumsum(jnp.arange(1000)), jnp.sort(ones(100)), jnp.argmax(ones(10, 10), 1)),
    "complex": lambda: jnp.fft.fft(ones(64) * 1j),
    "gradient": lambda: jax.grad(lambda w: jnp.mean(jnp.tanh(ones(32, 16) @ w) ** 2))(ones(16, 4)),
}


def kernels(compilation):
    """How many of each sort, as lazynb counts them."""
    return sum(cluster.is_kernel for cluster in compilation.clusters)


@pytest.fixture(autouse=True)
def settings_as_before():
    """The code of a file makes settings of JAX's, for its own process; some tests call it in this one."""
    known = jax.config.values
    before = {name: known[name] for name in ("jax_enable_x64", *_SETTINGS) if name in known}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture
def run(tmp_path):
    """Runs reproducers one after the other in a process without lazynb; by file, what they say and the
    status."""
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "lazynb.py").write_text("raise ImportError('not here')")

    def run(*files):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "without")}
        done = subprocess.run(
            [sys.executable, "-c", RUNNER, *map(str, files)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said = re.split(r"^FILE (.*)\n", done.stdout, flags=re.MULTILINE)[1:]
        return {
            Path(name).stem: (text.partition("STATUS")[0], int(text.rpartition("STATUS ")[2]))
            for name, text in zip(said[::2], said[1::2], strict=True)
        }

    return run


def test_each_program_gives_the_same_kernels_again(run, tmp_path):
    seen, files = {}, []
    for name, make in PROGRAMS.items():
        with lazynb.lazy():
            compilation = lazynb.compile(value := make())
            seen[name] = kernels(compilation)
            files.append(compilation.reproducer(tmp_path / f"bug_{name}.py", f"why {name}?"))
            del value
    for name, (text, status) in run(*files).items():
        name = name.removeprefix("bug_")
        count = seen.pop(name)
        assert status == 0 and text.startswith(f"why {name}?\n"), text
        assert f"SAME: {count} kernel" in text and "result 0: " in text, text
    assert not seen


def test_reproducers_keep_donation_and_saved_inputs(run, tmp_path):
    lowered = jax.jit(lambda a: a + 1, donate_argnums=0).lower(ones(1000))
    first = lazynb.compile(lowered).reproducer(tmp_path / "donated.py")
    assert "tf.aliasing_output" in first.read_text()
    with lazynb.lazy():
        x = jnp.sin(jnp.arange(600_000.0)).block_until_ready()
        small = jnp.asarray([0.5, 0.25], jnp.bfloat16).block_until_ready()
        key = jax.random.key(7)
        lazynb.sync(key)
        inputs = lazynb.compile([x.sum(), small * 2, jax.random.bits(key)])
        second = inputs.reproducer(tmp_path / "inputs.py", save_inputs=True)
        assert (tmp_path / "inputs.npz").exists() and not (tmp_path / "donated.npz").exists()
        total, doubled, bits = (np.asarray(each) for each in (x.sum(), small * 2, jax.random.bits(key)))
    texts = run(first, second)
    assert texts["donated"][1] == texts["inputs"][1] == 0
    results = dict(re.findall(r"result (\d): \S+ from (\S+) to", texts["inputs"][0]))
    assert float(results["0"]) == pytest.approx(float(total), rel=1e-3)
    assert float(results["1"]) == float(doubled.min()) and float(results["2"]) == pytest.approx(
        float(bits), 1e-5
    )


def test_a_reproducer_holds_several_programs(run, tmp_path):
    with lazynb.lazy():
        one = lazynb.compile(jnp.tanh(ones(8)) * 2)
        two = lazynb.compile(ones(8, 8) @ ones(8, 8))
    both = type(one)([*one.traces, *two.traces], two.snapshot)
    [(text, status)] = run(both.reproducer(tmp_path / "both.py")).values()
    assert status == 0 and "program 1 of 2" in text and "program 2 of 2" in text
    assert text.count("SAME") == 2


def test_the_flags_of_an_experiment_are_in_the_file(run, tmp_path):
    with lazynb.lazy():
        made = lazynb.compile(jnp.tanh(ones(64, 64) @ ones(64, 64)).sum())
    flags = flags_without_libraries(["YNNPACK"], "cpu")
    altered = compile_with_flags(made, flags)
    assert {each.library for each in altered.clusters} != {each.library for each in made.clusters}
    found = run(altered.reproducer(tmp_path / "altered.py"), made.reproducer(tmp_path / "plain.py"))
    assert [status for _, status in found.values()] == [0, 0]
    text = (tmp_path / "altered.py").read_text()
    assert all(name in text for name in flags)
    (tmp_path / "mixed.py").write_text(re.sub(r"'flags': \{[^}]*\}", "'flags': {}", text))
    assert run(tmp_path / "mixed.py")["mixed"][1] == 1


def test_a_sharded_program_is_reproduced(run, tmp_path):
    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
    x = jax.device_put(ones(64, 64), NamedSharding(mesh, PartitionSpec("data", None)))
    with lazynb.lazy():
        compilation = lazynb.compile(jnp.tanh(x.T @ x).sum(0))
    assert any("all-reduce" in cluster.opcode for cluster in compilation.clusters)
    [(text, status)] = run(compilation.reproducer(tmp_path / "sharded.py")).values()
    assert status == 0 and "all-reduce" in text and f"SAME: {kernels(compilation)} kernel" in text


def test_a_difference_is_reported_with_an_exit_status(tmp_path, capsys):
    with lazynb.lazy():
        file = lazynb.compile(jnp.tanh(ones(8)) * 2).reproducer(tmp_path / "bug.py")
    text = file.read_text()
    namespace: dict[str, object] = {"__name__": "bug", "__file__": str(file)}
    exec(compile(text, str(file), "exec"), namespace)
    case = namespace["CASE"]
    case["programs"][0]["kernels"].append("fusion kLoop f32[1]{0}")
    case["versions"]["cores"] = 1000
    assert reproducer_script.main(case, []) == 1
    said = capsys.readouterr().out
    assert re.search(
        r"DIFFERS: \d kernels?, where lazynb saw \d kernels? \(cores \d+ here, 1000 there\)", said
    )
    assert "  - fusion kLoop f32[1]{0}" in said
    case["programs"][0]["devices"] = 99
    assert reproducer_script.main(case, []) == 2 and "needs 99 devices" in capsys.readouterr().out
    case["programs"][0] |= {"devices": 1, "stablehlo": "nonsense"}
    assert reproducer_script.main(case, []) == 2 and "cannot compile it here" in capsys.readouterr().out


def test_hlo_is_printed_and_lines_stand_in_the_file(tmp_path, capsys):
    with lazynb.lazy():
        compilation = lazynb.compile(jnp.exp(ones(8)) * 2)  # this line
        file = compilation.reproducer(tmp_path / "bug.py", 'why """ \\ so?\0\ud800')
    namespace: dict[str, object] = {"__name__": "bug", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    assert "compilation = lazynb.compile(jnp.exp(ones(8)) * 2)  # this line" in namespace["__doc__"]
    assert namespace["__doc__"].startswith("why ''' \\ so?\0?\n")  # half a surrogate pair is no text
    assert "lazynb" not in re.findall(r"^\s*(?:import|from) (\w+)", file.read_text(), re.MULTILINE)
    assert namespace["main"](namespace["CASE"], ["--hlo"]) == 0
    assert "HloModule" in capsys.readouterr().out


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_kernels_in_a_text_are_those_that_lazynb_counts(name):
    with lazynb.lazy():
        compilation = lazynb.compile(value := PROGRAMS[name]())
        for trace in compilation.traces:
            own = [cluster for cluster in trace.clusters if cluster.is_kernel]
            read = reproducer_script.kernel_signatures(trace.text, FREE, CONTROL)
            assert sorted(kernel.partition(" ")[0] for kernel in read) == sorted(each.opcode for each in own)
        del value


def test_a_given_program_is_reproduced_without_inputs(tmp_path, capsys):
    lowered = jax.jit(lambda x: jnp.tanh(x @ x)).lower(jax.ShapeDtypeStruct((8, 8), "float32"))
    file = lazynb.compile(lowered).reproducer(tmp_path / "given.py")
    namespace: dict[str, object] = {"__name__": "bug", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    assert namespace["main"](namespace["CASE"], []) == 0 and "SAME" in capsys.readouterr().out
    with pytest.raises(InputsGone, match="no inputs of it"):
        lazynb.compile(lowered).reproducer(tmp_path / "given.py", save_inputs=True)
    with pytest.raises(NotReproducible, match="given compiled"):
        lazynb.compile(lowered.compile()).reproducer(tmp_path / "compiled.py")


def test_empty_callback_and_other_target_programs_are_refused(tmp_path):
    file = tmp_path / "bug.py"
    with lazynb.lazy():
        nothing = lazynb.compile()
        with pytest.raises(NotReproducible, match="nothing was compiled"):
            nothing.reproducer(file)
        shape = jax.ShapeDtypeStruct((3,), "float32")
        called = lazynb.compile(
            jax.jit(lambda x: jax.pure_callback(np.sin, shape, x)).lower(ones(3).block_until_ready())
        )
        with pytest.raises(NotReproducible, match="calls back into Python"):
            called.reproducer(file)
        x = ones(5).block_until_ready()
        compilation = lazynb.compile(y := x * 2)
        lazynb.sync(y)
        del x
        with pytest.raises(InputsGone, match=r"an input of type float32\[5\] is gone"):
            compilation.reproducer(file, save_inputs=True)
        elsewhere = type(compilation)(compilation.traces, compilation.snapshot, target=parse_target("v5e"))
        with pytest.raises(NotReproducible, match=r"v5e.*compilation\.hlo\.before"):
            elsewhere.reproducer(file)
    assert not file.exists()
