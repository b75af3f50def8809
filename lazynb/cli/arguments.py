"""The argument parser with its help texts, the split between lazynb's and the script's arguments, and checks
before a run."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from lazynb.compare.costs.budget import Limits
from lazynb.report.inspection.program_reading import MEMORY, SECONDS
from lazynb.user_code.text_format import parse_size, size
from lazynb.xla.targets.compiler_packages import COMPILERS

DESCRIPTION = "Runs JAX programs lazily, and says where Python broke the trace, what was compiled, and why."

EPILOG = """examples:
  lazynb run train.py --epochs 3 --report report.html
  lazynb run analysis.ipynb --max-compiles 20 --max-breaks 5
  lazynb explain LNB103
  lazynb targets install tpu
  lazynb inspect train.py:step --args "f32[128,64]" --for v5e
  lazynb diff before.json now.json --fail-if "kernels > +10%"
"""

RUN_DESCRIPTION = """Runs a Python script or a notebook as it would run by itself, but lazily: operations
are recorded, and run as one program when Python needs a value. A summary goes to stderr."""

RUN_EPILOG = """options of lazynb and of the script:
  lazynb's options may stand before or after PROGRAM. All other arguments after PROGRAM go to
  the script. After -- all arguments go to the script:
    lazynb run --report out.html train.py --epochs 3 -- --report weights.html

notebooks:
  The cells run one after the other in an IPython shell, in the notebook's folder, until one
  fails. A cell tagged raises-exception may fail; a cell tagged skip-execution is skipped.

budgets:
  What counts as a break, a compilation and a kernel: python -c "import lazynb; help(lazynb.budget)"
  lazynb run counts those of all threads of the process.

exit status:
  0    the program ended, within its budget
  1    the program failed; if a script exits with another status, it is that status
  2    arguments are invalid, or a file cannot be read or written; found before the program
       runs, where possible
  3    over budget: the explanation is on stderr
  130  the program was interrupted
"""

TARGETS_DESCRIPTION = """Lists the chips that %%compile --for and lazynb.compile(target=) take, and whether
their compiler is installed. Compilers are installed in a directory of lazynb's, so that they do not change
which devices JAX chooses; LAZYNB_COMPILERS names another directory."""

INSPECT_DESCRIPTION = """Compiles a function and shows its kernels, the lines in each, and why they are not
fewer. Runs nothing, so the types of the arguments are enough. Or opens a file that lazynb run --save wrote,
also on another machine. Or reads a program as text: StableHLO, and HLO before XLA's passes, are compiled
here; optimised HLO is shown as it is."""

INSPECT_EPILOG = """examples:
  lazynb inspect train.py:step --args "f32[128,64],f32[64]" --for v5e
  lazynb inspect train.py:step --args example_args --for v5e:4x4 --mesh data=4,model=4 \\
      --shard x=data,. --html step.html
  lazynb inspect train.py:main --for cpu,v5e,h100
  lazynb inspect on-h100.json --html on-h100.html
  lazynb inspect step.mlir --html step.html     # jax.jit(f).lower(...).as_text(debug_info=True)
  lazynb inspect step.hlo --json step.json      # .compile().as_text(), or a file that XLA dumped

arguments of the function:
  TYPES is one or more of f32[128,64], bf16[8], i32, bool[3]. NAME is a function without parameters, or a
  tuple, in the same module. It gives the arguments; jax.ShapeDtypeStruct may stand for arrays.
"""

DIFF_DESCRIPTION = """Compares two compilations, which may come from two versions of JAX, two machines or two
chips: operations are matched by line and structure. Runs nothing. StableHLO, and HLO before XLA's passes, are
compiled here."""

DIFF_EPILOG = """examples:
  lazynb run train.py --save before.json        # with one JAX, and with another:
  lazynb run train.py --save now.json
  lazynb diff before.json now.json --fail-if "kernels > +10%" --fail-if "peak_memory > +64MiB"
  lazynb diff on-v5e.json on-h100.json --html both.html

conditions:
  A condition is a figure (kernels, bytes, peak_memory or flops), then >, >=, < or <=, then a bound. A bound
  with a sign limits the change: +10% of the figure before, +3, +64MiB. Without a sign it limits the figure
  now: 2GiB. bytes are those that kernels read and write, in all of their runs where XLA knows the number.

exit status:
  0    no condition holds
  1    a condition holds: which, and by how much, is on stderr
  2    arguments, files or conditions are invalid, or a figure is not known
"""

RUN_OPTIONS = (
    "--report",
    "--save",
    "--events",
    "--max-compiles",
    "--max-breaks",
    "--max-kernels",
    "--max-bytes",
    "--max-peak-memory",
)
"""Options of ``lazynb run``; each takes a value."""


class CommandError(Exception):
    """Arguments or files are invalid; the text gives the reason in one line."""


class Parser(argparse.ArgumentParser):
    """Raises :class:`CommandError` with a one-line message for invalid arguments."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{self.prog}: {message} (see {self.prog} --help)")


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """The arguments of ``lazynb run``.

    Attributes:
      program: the script or notebook.
      arguments: arguments of the script.
      report: file for the report; None for no report.
      limits: the budget.
      save: file for the inspections of all programs; None for none.
      events: file for the event stream; None for none.
    """

    program: Path
    arguments: tuple[str, ...]
    report: Path | None
    limits: Limits
    save: Path | None = None
    events: Path | None = None

    @property
    def is_notebook(self) -> bool:
        """Whether the program is a notebook; anything else is a script."""
        return self.program.suffix == ".ipynb"


def parser(version: str) -> Parser:
    """The argument parser. It does not see the script's own arguments."""
    top = Parser(prog="lazynb", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False, **_PLAIN)
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    run = commands.add_parser(
        "run",
        help="run a script or a notebook lazily",
        description=RUN_DESCRIPTION,
        epilog=RUN_EPILOG,
        usage="lazynb run [options] PROGRAM [script's arguments]",
        allow_abbrev=False,
        **_PLAIN,
    )
    run.add_argument("program", metavar="PROGRAM", help="a Python script or an .ipynb notebook")
    run.add_argument(
        "--report", metavar="FILE", help="write what happened to FILE, as one HTML page that needs no network"
    )
    run.add_argument(
        "--save",
        metavar="FILE",
        help="measure the kernels of each program afterwards, and write them to FILE as JSON, which lazynb "
        "inspect opens anywhere",
    )
    run.add_argument(
        "--events",
        metavar="FILE",
        help="write what happens to FILE as it happens, one JSON object a line: flushes, compilations, runs, "
        "breaks",
    )
    for name, what in (
        ("compiles", "programs compiled or loaded from the cache on disk"),
        ("breaks", "trace breaks allowed"),
        ("kernels", "kernel launches allowed"),
    ):
        run.add_argument(f"--max-{name}", metavar="N", type=_limit, help=f"{what}; more is exit status 3")
    for name, what in (
        ("bytes", "bytes through memory, of all kernels that ran"),
        ("peak-memory", "memory that one run of a program may take"),
    ):
        run.add_argument(
            f"--max-{name}", metavar="SIZE", type=_size, help=f"{what}, such as 64MiB; more is exit status 3"
        )
    explain = commands.add_parser(
        "explain",
        help="explain a trace break by its code",
        allow_abbrev=False,
        **_PLAIN,
        description="Says what a trace break means and what to write instead.",
    )
    explain.add_argument(
        "code", metavar="CODE", nargs="?", help="such as LNB103, or a kind such as float; without: a list"
    )
    _add_inspect(commands)
    _add_diff(commands)
    targets = commands.add_parser(
        "targets",
        help="list the chips that lazynb can compile for, and install their compilers",
        allow_abbrev=False,
        **_PLAIN,
        description=TARGETS_DESCRIPTION,
    )
    actions = targets.add_subparsers(title="actions", metavar="ACTION", dest="action", parser_class=Parser)
    for action, what in (("install", "fetch a compiler, with pip"), ("remove", "delete a compiler")):
        one = actions.add_parser(action, help=what, description=what, allow_abbrev=False, **_PLAIN)
        one.add_argument("compiler", metavar="tpu | gpu", choices=sorted(COMPILERS), help="for which chips")
    return top


def _add_diff(commands: Any) -> None:
    diff = commands.add_parser(
        "diff",
        help="show what differs between two saved runs or programs, line by line",
        description=DIFF_DESCRIPTION,
        epilog=DIFF_EPILOG,
        allow_abbrev=False,
        **_PLAIN,
    )
    for name in ("before", "now"):
        diff.add_argument(
            name, metavar=name.upper(), help="what lazynb run --save or lazynb inspect --json wrote, or HLO"
        )
    diff.add_argument(
        "--fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help='exit with status 1 if it holds, such as "kernels > +10%%"; may be repeated',
    )
    diff.add_argument("--html", metavar="FILE", help="write it to FILE as one page, which needs no network")
    diff.add_argument("--json", metavar="FILE", help="write it to FILE as JSON")
    _add_reading(diff)


def _add_reading(command: Any) -> None:
    """The options of program files."""
    command.add_argument(
        "--source",
        metavar="DIR",
        help="show source text for a program file from files in DIR alone; without: in the current folder",
    )
    command.add_argument(
        "--limit-seconds",
        metavar="N",
        type=_limit,
        help=f"time to read a program file; without: {SECONDS:g} s",
    )
    command.add_argument(
        "--limit-memory",
        metavar="SIZE",
        type=_size,
        help=f"memory of the process that reads a program file, such as 8GiB; without: {size(MEMORY)}",
    )


def _add_inspect(commands: Any) -> None:
    inspect = commands.add_parser(
        "inspect",
        help="compile a function for this machine or another chip, and show its kernels",
        description=INSPECT_DESCRIPTION,
        epilog=INSPECT_EPILOG,
        allow_abbrev=False,
        **_PLAIN,
    )
    inspect.add_argument(
        "what",
        metavar="FILE.py:FUNCTION | FILE.json | FILE.hlo | FILE.mlir",
        help="a function of a program, a saved inspection, or a program as HLO (also .txt) or StableHLO",
    )
    inspect.add_argument("--args", metavar="TYPES | NAME", help="the function's arguments, see below")
    inspect.add_argument(
        "--for",
        dest="targets",
        metavar="TARGETS",
        help="chips, by commas, such as v5e:4x4 or cpu,v5e,h100 (lazynb targets lists them); without: this "
        "machine",
    )
    inspect.add_argument("--mesh", metavar="AXES", help="the target's devices as a mesh: data=4,model=4")
    inspect.add_argument(
        "--shard",
        metavar="NAME=AXES",
        action="append",
        default=[],
        help="how an argument is sharded over the mesh, by its parameter's name, an axis or . for each "
        "dimension: x=data,.; or a result of lazynb.shard_like, by its name in FILE.py; may be repeated",
    )
    inspect.add_argument(
        "--as-jit",
        action="store_true",
        help="also show the program of jax.jit of the function, in which numbers are constants",
    )
    inspect.add_argument(
        "--flag",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="compile it with this XLA flag, such as xla_cpu_enable_fast_math=true; may be repeated",
    )
    inspect.add_argument(
        "--without",
        metavar="LIBRARY",
        action="append",
        default=[],
        help="compile it with XLA's own code instead of that of a library, such as YNNPACK; may be repeated",
    )
    inspect.add_argument(
        "--times",
        action="store_true",
        help="list compile times, by XLA pass and by line of your code",
    )
    inspect.add_argument("--html", metavar="FILE", help="write the inspector to FILE, which needs no network")
    inspect.add_argument("--json", metavar="FILE", help="write it to FILE as JSON")
    inspect.add_argument(
        "--reproducer",
        metavar="FILE",
        help="write FILE, a Python program that compiles the same with JAX alone, for an issue of XLA's",
    )
    inspect.add_argument(
        "--question", metavar="TEXT", default="", help="question to put at the top of the reproducer"
    )
    _add_reading(inspect)


_PLAIN: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}


def _limit(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"a limit is 0 or more, not {number}")
    return number


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the arguments after ``run`` into lazynb's (including the program) and the script's."""
    own: list[str] = []
    script: list[str] = []
    program: str | None = None
    rest = iter(arguments)
    for argument in rest:
        name = argument.partition("=")[0]
        if argument == "--":
            if program is None:
                program = next(rest, None)
            script.extend(rest)
        elif name in RUN_OPTIONS:
            value = None if "=" in argument else next(rest, None)
            if value is not None:
                argument = f"{name}={value}"
            own.append(argument)
        elif program is not None:
            script.append(argument)
        elif argument.startswith("-") and argument != "-":
            own.append(argument)
        else:
            program = argument
    if program is not None:
        own += ["--", program]
    return own, script


def run_request(options: argparse.Namespace, script: Sequence[str]) -> RunRequest:
    """Builds the request, and checks that the program can be read and the output files written.

    Raises:
      CommandError: a check failed.
    """
    program = Path(options.program)
    limits = Limits(
        options.max_compiles,
        options.max_breaks,
        options.max_kernels,
        options.max_bytes,
        options.max_peak_memory,
    )
    report = None if options.report is None else Path(os.path.abspath(options.report))
    save = None if options.save is None else Path(os.path.abspath(options.save))
    events = None if options.events is None else Path(os.path.abspath(options.events))
    asked = RunRequest(program, tuple(script), report, limits, save, events)
    _check_program(asked)
    if report is not None:
        if importlib.util.find_spec("jinja2") is None:
            raise CommandError(
                "lazynb run: a report needs Jinja2, which is not installed here: pip install jinja2"
            )
        _check_written("report", report, program)
    if save is not None:
        _check_written("save", save, program)
    if events is not None:
        _check_written("events", events, program)
    return asked


def _check_program(asked: RunRequest) -> None:
    program = asked.program
    if program.is_dir():
        raise CommandError(f"lazynb run: {program} is a folder; name a script or a notebook")
    try:
        with open(program, "rb"):
            pass
    except OSError as error:
        raise CommandError(f"lazynb run: {program} cannot be read: {error.strerror}") from None
    if not asked.is_notebook:
        return
    if asked.arguments:
        raise CommandError(f"lazynb run: a notebook takes no arguments, and there is {asked.arguments[0]!r}")
    if importlib.util.find_spec("IPython") is None:
        raise CommandError(
            "lazynb run: a notebook needs IPython, which is not installed here: pip install ipython"
        )


def _check_written(option: str, file: Path, program: Path) -> None:
    noun = {"report": "report", "save": "inspection", "events": "event stream"}[option]
    if file.exists() and file.samefile(program):
        raise CommandError(f"lazynb run: --{option} {file} would write over the program")
    is_new = not os.path.lexists(file)
    try:
        with open(file, "ab"):
            pass
    except OSError as error:
        raise CommandError(f"lazynb run: the {noun} cannot be written to {file}: {error.strerror}") from None
    if is_new:
        file.unlink()
