"""The programs of the table of trace breaks that need several hosts; run on each of them, see ``ranks``."""

import linecache
import sys

from ranks import join, report

number, count, kinds = join()

import lazynb  # noqa: E402
from lazynb.recording.break_examples import PRELUDE  # noqa: E402
from lazynb.recording.break_reasons import REASONS  # noqa: E402


def run(program: str) -> dict:
    """What the program came to on this host: the error it ended with, its result and its breaks."""
    variables: dict = {}
    linecache.cache["<example>"] = (len(program), None, program.splitlines(keepends=True), "<example>")
    exec(PRELUDE, variables)
    lazynb.clear_cache()
    error = None
    with lazynb.lazy():
        try:
            exec(compile(program, "<example>", "exec"), variables)
        except lazynb.LazynbError as raised:
            error = type(raised).__name__
    found = [(one.kind, one.code, one.text, one.hint, one.ops) for one in lazynb.breaks()]
    return {"error": error, "out": variables.get("out"), "breaks": found}


for kind in kinds:
    report(kind=kind, example=run(REASONS[kind].example), cure=run(REASONS[kind].cure))
sys.stdout.flush()
