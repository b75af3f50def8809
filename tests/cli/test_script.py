"""``lazynb run script.py`` runs a script as Python does, and then says what happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

FACTS = """
    # -*- coding: latin-1 -*-
    import sys, os, pickle, dataclasses
    import sibling

    @dataclasses.dataclass
    class Point:
        x: int

    print(__name__, __file__, sys.argv, sys.path[0], __doc__, __spec__, __package__, sorted(vars()))
    print(sys.modules["__main__"].Point is Point, pickle.loads(pickle.dumps(Point(3))), sibling.HERE)
    print(sys.stdin.read())
    import atexit
    atexit.register(lambda: print("at exit", Point(4)))
"""


def test_a_script_sees_the_same_process_state_as_under_python(write, lazynb_run, python):
    write("sibling.py", "HERE = 1")
    write("facts.py", FACTS)
    plain = python("facts.py", "--lr", "0.1", "-v")
    lazy = lazynb_run("facts.py", "--lr", "0.1", "-v")
    assert plain.returncode == lazy.returncode == 0
    assert lazy.stdout == plain.stdout


@pytest.mark.parametrize(
    "end",
    [
        "sys.exit(0)",
        "sys.exit()",
        "sys.exit(7)",
        "sys.exit('what went wrong')",
        "raise KeyError('key')",
        "outer()",
        "raise ExceptionGroup('several', [ValueError(1), KeyError(2)])",
        "sys.excepthook = lambda *a: print('hook', a[0]); outer()",
    ],
)
def test_a_script_ends_as_with_python(write, lazynb_run, python, end):
    write(
        "ends.py",
        f"""
        import sys

        def outer():
            try:
                1 / 0
            except ZeroDivisionError as error:
                raise RuntimeError("no") from error

        print("before")
        {end}
    """,
    )
    plain, lazy = python("ends.py"), lazynb_run("ends.py")
    assert (lazy.returncode, lazy.stdout) == (plain.returncode, plain.stdout)
    shown, _, summary = lazy.stderr.rpartition("lazynb: ")
    assert shown == plain.stderr and summary.startswith(
        "0 operations · 0 executables · 0 hits · 0 misses · 0 trace breaks"
    )


def test_errors_of_jax_show_the_users_lines_alone(write, lazynb_run):
    write(
        "wrong.py",
        """
        import jax.numpy as jnp

        def double(x):
            return float(x) * 2  # not a scalar

        double(jnp.ones(3) + 1)
    """,
    )
    lazy = lazynb_run("wrong.py")
    assert lazy.returncode == 1
    assert 'wrong.py", line 7, in <module>' in lazy.stderr and 'wrong.py", line 5, in double' in lazy.stderr
    assert "TypeError: Only scalar arrays can be converted" in lazy.stderr
    assert "/lazynb/" not in lazy.stderr


def test_an_interrupt_ends_the_script(write, tmp_path, environment):
    write(
        "waits.py",
        """
        import time
        print("ready", flush=True)
        time.sleep(60)
    """,
    )
    command = [sys.executable, "-m", "lazynb", "run", "waits.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (
        "KeyboardInterrupt" in stderr
        and 'waits.py", line 4, in <module>' in stderr
        and "lazynb/cli" not in stderr
    )
    assert "0 trace breaks" in stderr


RUNNING = """
x = jnp.ones((1000, 1000)) * 1e-4
value = jax.lax.fori_loop(0, {turns}, lambda i, y: jnp.tanh(y @ y) + 0.001, x).sum()
"""
COMPILING = """
def deep(x):
    for i in range({turns}):
        x = jnp.sin(x * 1.0001) @ x
    return x

value = jax.jit(deep)(jnp.ones((8, 8))).sum()
"""
READ = """
print("ready", flush=True)
float(value)
"""


def interrupted(process):
    """What a process that said that it is ready writes to standard error after an interrupt."""
    assert process.stdout.readline() == "ready\n"
    time.sleep(2.5)  # XLA is at work
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=60)[1]


def started(path, by, environment):
    command = [sys.executable, *(["-m", "lazynb", "run"] if by == "lazynb run" else []), path.name]
    return subprocess.Popen(
        command, cwd=path.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    "work", [RUNNING.format(turns=3000), COMPILING.format(turns=1500)], ids=["running", "compiling"]
)
@pytest.mark.parametrize("by", ["lazynb run", "python"])
def test_an_interrupt_while_xla_works_ends_the_program_and_not_by_an_abort(write, environment, work, by):
    body = work + READ
    if by == "python":
        body = "import lazynb\nwith lazynb.lazy():\n" + textwrap.indent(body, "    ")
    path = write("works.py", f"import jax, jax.numpy as jnp\n{body}")
    with started(path, by, environment) as process:
        stderr = interrupted(process)
    assert "terminate called" not in stderr and "FATAL" not in stderr
    assert process.returncode == (130 if by == "lazynb run" else -signal.SIGINT)
    assert "KeyboardInterrupt" in stderr and "float(value)" in stderr and "/lazynb/" not in stderr


def test_a_program_that_catches_the_interrupt_ends_with_its_own_status(write, environment):
    body = f"try:\n{textwrap.indent(READ, '    ')}except KeyboardInterrupt:\n    sys.exit(3)\n"
    path = write("works.py", f"import jax, jax.numpy as jnp, sys\n{RUNNING.format(turns=300)}{body}")
    with started(path, "lazynb run", environment) as process:
        stderr = interrupted(process)
    assert process.returncode == 3, stderr
    assert "lazynb: XLA still runs the interrupted work" in stderr and "terminate called" not in stderr


TRAIN = """
    import sys
    import jax.numpy as jnp
    import lazynb

    x = jnp.ones(8)
    assert isinstance(x, lazynb.LazyTensor)
    for step in range(4):
        x = x * 1.5
        if x.sum() > 100:  # a branch
            break
    x.block_until_ready()
    lazynb.clear_cache()  # must not make a budget forget
    print(float(x.sum()))
"""


def test_the_summary_ranks_the_breaks_with_what_to_write_instead(write, lazynb_run):
    write("train.py", TRAIN)
    done = lazynb_run("train.py")
    assert done.returncode == 0 and done.stdout == "40.5\n"
    lines = done.stderr.splitlines()
    assert "5 trace breaks" in lines[0] and "misses (compiling " in lines[0]
    assert sorted(line.split("(")[0].strip() for line in lines[1::2]) == [
        "LNB101 bool ×4  train.py:10: if x.sum",
        "LNB103 float ×1  train.py:14: print",
    ]
    assert all(line.strip().startswith("instead: ") for line in lines[2::2])


def test_over_budget_is_exit_status_three_with_the_explanation(write, lazynb_run):
    write("train.py", TRAIN)
    within = lazynb_run(
        "train.py", "--max-breaks", "5", "--max-compiles=9", "--max-kernels", "1000", "--max-bytes=1GiB"
    )
    assert within.returncode == 0 and "over budget" not in within.stderr and "launched" in within.stderr
    assert "through memory" in within.stderr and "taken at most" in within.stderr
    over = lazynb_run(
        "--max-breaks", "4", "train.py", "--max-compiles", "0", "--max-kernels=0", "--max-peak-memory", "1"
    )
    assert over.returncode == 3 and over.stdout == "40.5\n"
    assert "lazynb: over budget: 5 trace breaks where 4 are allowed; " in over.stderr
    for part in (
        "train.py:10: if x.sum() > 100:  # a branch",
        "LNB101 bool, 4 times",
        "nothing like it was compiled before",
        "Kernels, by the last line of each program:",
        "of memory where 1 byte is allowed",
        "The program that takes most, by its last line:",
    ):
        assert part in over.stderr
    assert over.stderr.count("LNB101") == 1  # not in the summary too


def test_the_scripts_own_failure_comes_before_the_budget(write, lazynb_run):
    write("train.py", TRAIN + "    sys.exit(7)\n")
    done = lazynb_run("train.py", "--max-breaks", "0")
    assert done.returncode == 7 and "over budget" in done.stderr


def test_programs_from_the_persistent_cache_are_counted_and_reported(
    write, lazynb_run, environment, tmp_path
):
    environment |= {"LAZYNB_PERSISTENT_CACHE": "1", "LAZYNB_CACHE_DIR": str(tmp_path / "cache")}
    write("train.py", "import jax.numpy as jnp\nprint(float(jnp.ones(3).sum()))\n")
    assert "1 miss (compiling " in lazynb_run("train.py").stderr
    again = lazynb_run("train.py", "--max-compiles", "0", "--report", "out.html")
    assert again.returncode == 3 and "1 miss (1 loaded from disk, " in again.stderr
    assert " operations, loaded from disk, " in again.stderr
    assert "loaded from the persistent cache" in (tmp_path / "out.html").read_text()


def test_threads_count_and_are_waited_for(write, lazynb_run):
    write(
        "threads.py",
        """
        import threading, time
        import jax.numpy as jnp
        import lazynb

        def work():
            time.sleep(0.3)
            with lazynb.lazy():
                print(float(jnp.ones(3).sum()), flush=True)

        threading.Thread(target=work).start()
    """,
    )
    done = lazynb_run("threads.py", "--max-breaks", "0")
    assert (
        done.returncode == 3 and done.stdout == "3.0\n" and "1 trace break where 0 are allowed" in done.stderr
    )


def test_breaks_inside_explain_and_budget_count_towards_the_limits(write, lazynb_run):
    write(
        "nested.py",
        """
        import jax.numpy as jnp
        import lazynb

        def step(x):
            return float(x.sum())

        lazynb.explain(step, jnp.ones(3))
        with lazynb.budget(breaks=1):
            step(jnp.ones(3))
        step(jnp.ones(3))
    """,
    )
    done = lazynb_run("nested.py", "--max-breaks", "2")
    assert done.returncode == 3 and "3 trace breaks where 2 are allowed" in done.stderr


def test_a_relative_report_lies_where_the_command_ran(write, lazynb_run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    write("moves.py", "import os; os.chdir('elsewhere'); raise SystemExit(5)")
    done = lazynb_run("moves.py", "--report", "out.html")
    assert done.returncode == 5 and f"report written to {tmp_path / 'out.html'}" in done.stderr
    assert "exit status 5" in (tmp_path / "out.html").read_text()


def test_a_report_that_can_no_longer_be_written_is_reported(write, lazynb_run, tmp_path):
    (tmp_path / "folder").mkdir()
    write("removes.py", "import os; os.rmdir('folder')")
    done = lazynb_run("removes.py", "--report", "folder/out.html")
    assert done.returncode == 2 and "the report cannot be written" in done.stderr


def test_scripts_and_reports_of_them_need_no_notebook_packages(write, lazynb_run, environment):
    write(
        "sitecustomize.py",
        """
        import sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {"IPython", "ipywidgets", "ipykernel", "graphviz", "matplotlib"}:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Absent())
    """,
    )
    write("train.py", TRAIN)
    environment["PYTHONPATH"] = os.pathsep.join([".", environment["PYTHONPATH"]])
    done = lazynb_run("train.py", "--report", "out.html")
    assert done.returncode == 0 and "report written" in done.stderr, done.stderr
