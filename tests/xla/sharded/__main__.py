"""Programs over eight devices: what lazynb says of their collectives beside a reading of the HLO and the table.

``python -m sharded [--large] [NAME ...]``, in a process with eight devices (``test_sharded.py`` starts it), prints what
differs, and ends with 1 if anything does. With lazynb's store of executables a second run has them without XLA's passes;
``--large``: as if each were too large to be compiled once more for them.
"""

from __future__ import annotations

import sys

import jax

import lazynb
from lazynb.xla import optimised_program
from sharded import asked, computed, others, trained  # noqa: F401
from sharded.lying import wrong
from sharded.reading import read
from sharded.table import EXPLICIT, PROGRAMS


def compiled(program):
    args = [array.make() for array in program.args]
    if program.args[0].mesh is EXPLICIT:
        with jax.set_mesh(EXPLICIT):
            return lazynb.compile(program.function, *args)
    return lazynb.compile(program.function, *args)


def problems(program, compilation):
    """What is wrong in what is said of a program; how its values lie is asked first, when nothing else was."""
    yield from wrong(program.name, compilation.shardings)
    found = list(compilation.collectives)
    mesh = program.args[0].mesh
    told = [(one.kind, one.bytes, one.among, one.axes) for one in found]
    texts = [reading for trace in compilation.traces for reading in read(trace.text, mesh)]
    if sorted(told) != sorted(texts):
        yield f"says {told}; the HLO {texts}"
    for one in list(found):
        if program.others and one.direction == program.others:
            found.remove(one)
    for said in program.said:
        match = next((one for one in found if is_said(one, said)), None)
        if match is None:
            yield f"does not say {said}"
        else:
            found.remove(match)
    yield from (f"says more: {one}" for one in found)


def untrue(program, compilation):
    """Rows that the code is said to ask for and does not, where a row may know less."""
    told = [said for said in program.said if said.by == "code"]
    for one in compilation.collectives:
        if one.is_asked and not any(is_said(one, said) for said in told):
            yield f"says that the code asks for {one}"


def is_said(one, said):
    return (
        (one.kind, " ".join(one.axes), one.direction, one.executions)
        == (said.kind, said.axes, said.direction, said.times)
        and one.is_asked == (said.by == "code")
        and any(said.line in (place.text or "") for place in one.places)
        and said.why in one.why
    )


def main():
    is_large, names = "--large" in sys.argv, [name for name in sys.argv[1:] if name != "--large"]
    if is_large:
        optimised_program._MAX_RECOMPILED_INSTRUCTIONS = 0
    count = stored = 0
    chosen = [program for program in PROGRAMS if not names or program.name in names]
    for program in chosen:
        compilation = compiled(program)
        stored += not all(trace.has_dump for trace in compilation.traces)
        for problem in (untrue if is_large else problems)(program, compilation):
            print(f"{program.name}: {problem}")
            count += 1
    print(f"{len(chosen)} programs, {stored} without XLA's passes")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
