"""Random programs: a seed gives a set-up, statements of the kinds in ``kinds``, signals on their way, and
what is looked at."""

from __future__ import annotations

import dataclasses
import dis
import functools
import random
import re
import types
from pathlib import Path

from .interrupts import Aim
from .kinds import KINDS, SETUP, Scene, Statement
from .world import STYLES

LAZYNB = Path(__file__).resolve().parents[2] / "lazynb"


@dataclasses.dataclass(frozen=True)
class Step:
    """A statement and what follows it.

    Attributes:
      aim: a signal that arrives while it runs, or while a later one does where this one does not get there.
      look: variables that are compared afterwards; None for all, which includes those that a failure was put
        off in.
    """

    statement: Statement
    aim: Aim | None = None
    look: tuple[str, ...] | None = ()


@dataclasses.dataclass(frozen=True)
class Program:
    """What is run in both worlds. At the end all variables are compared."""

    seed: str
    style: str
    setup: str
    steps: tuple[Step, ...]


def generate(seed: str, only: tuple[str, ...] = (), signals: bool = True, length: int = 14) -> Program:
    """The program of a seed.

    Arguments:
      only: names of the kinds of statements that it has besides the common ones; chosen by chance where
        empty.
      signals: whether some arrive.
    """
    draw = random.Random(seed)
    style = draw.choices(STYLES, (4, 4, 2))[0]
    scene = Scene(draw, style, draw.choice((8, 8, 8, 64, 1 << 10, 1 << 18)))
    setup = SETUP.format(size=scene.size) + f"lazynb.config.min_donated = {draw.choice((1, 1, 1 << 20))}\n"
    troubled = draw.random() < 0.6
    kinds = [kind for kind in KINDS if not kind.styles or style in kind.styles]
    # A program has few kinds: what goes wrong only together comes together more often, and what is found is
    # easier to read.
    chosen = [kind for kind in kinds if kind.name in only] if only else draw.sample(kinds, min(len(kinds), 7))
    steps: list[Step] = []
    while len(steps) < length:
        kind = draw.choices(
            chosen + kinds[:3], [one.weight for one in chosen] + [one.weight for one in kinds[:3]]
        )[0]
        for statement in kind.make(scene):
            aim = _aim(draw) if troubled and signals and draw.random() < 0.5 else None
            steps.append(Step(dataclasses.replace(statement, kind=kind.name), aim, _look(draw, scene)))
    for statement in scene.closing:
        steps.append(Step(dataclasses.replace(statement, kind="closing")))
    return Program(seed, style, setup, tuple(steps))


def _look(draw: random.Random, scene: Scene) -> tuple[str, ...] | None:
    chance = draw.random()
    return () if chance < 0.6 else (draw.choice(scene.arrays),) if chance < 0.85 else None


_OFTEN = (
    "running/flush.py",
    "running/trace_launch.py",
    "running/executable_lookup.py",
    "running/executable_cache.py",
    "running/trace_executable.py",
    "running/run_delivery.py",
    "running/donation.py",
    "recording/lazy_mode.py",
    "recording/lazy_tensor.py",
    "recording/pending_trace.py",
    "recording/trace_inputs.py",
    "recording/lazy_trace.py",
    "recording/open_traces.py",
    "recording/operation_step.py",
    "jax_compat/xla_executables.py",
    "jax_compat/array_memory.py",
    "jax_compat/jax_config.py",
    "jax_compat/jax_patches.py",
    "contextlib.py",
)
"""What runs, settles, enters and leaves."""


@functools.cache
def _functions(file: str) -> list[tuple[str, int]]:
    """The functions in a file of lazynb's, and how many instructions each has."""
    if not (LAZYNB / file).exists():
        return []
    found, left = [], [compile((LAZYNB / file).read_text(), file, "exec")]
    while left:
        inner = [one for one in left.pop().co_consts if isinstance(one, types.CodeType)]
        found += [(code.co_qualname, len(list(dis.get_instructions(code)))) for code in inner]
        left += inner
    return sorted(found)


def _telling(functions: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Those whose name says that they run, settle, give away, enter or leave; all where none does."""
    return [one for one in functions if _TELLING.search(one[0])] or functions


_TELLING = re.compile(
    r"(?i)run|call|settle|result|enter|leave|exit|\bon\b|\boff\b|pause|recording|eager|lazy|hold|give|release"
    "|take|start|finish|captur"
)


@functools.cache
def _files() -> list[str]:
    """Where signals are aimed: the recorder with its folders, what runs, what stands in for JAX's, and
    entering and leaving. A file without functions is never met."""
    paths = [
        path
        for folder in ("recording", "running", "jax_compat")
        for path in sorted((LAZYNB / folder).rglob("*.py"))
    ]
    files = [str(path.relative_to(LAZYNB)) for path in paths]
    return [*filter(_functions, files), "contextlib.py"]


def _aim(draw: random.Random) -> Aim:
    """Any instruction of a file, or of one function: a rare one is met as often as one that everything
    calls."""
    file = draw.choice(_OFTEN if draw.random() < 0.7 else _files())
    number = draw.choice((0, 0, 2))
    functions = _functions(file)
    if not functions or draw.random() < 0.3:
        return Aim(file, count=int(2 ** draw.uniform(0, 9)), number=number)
    name, size = draw.choice(_telling(functions) if draw.random() < 0.6 else functions)
    return Aim(file, name, int(draw.randint(1, size) * 2 ** draw.uniform(0, 2)), number=number)
