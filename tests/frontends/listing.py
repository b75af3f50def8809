"""The list of NumPy's functions: each lazy, a break or unsupported, in both modes. ``scripts/numpy_page.py``
writes it."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np

from tests.frontends.calls import CALLS, arrays
from tests.frontends.compare import Found, run_call

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "numpy.md"
ROWS = {mode: Path(__file__).parent / f"functions{mode}.json" for mode in ("32", "64")}

NO_NUMBERS = {
    "np.isnat",
    "np.busday_count",
    "np.busday_offset",
    "np.is_busday",
    "np.datetime_as_string",
    "np.can_cast",
}
"""They take dates, or types, and no arrays of numbers."""

HANDS_OVER = {
    f"np.{name}"
    for name in """array asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite asmatrix
    require save savetxt savez savez_compressed array2string array_repr array_str""".split()
}
"""They are there to give the values: as NumPy's array, as text, to a file."""


def public() -> set[str]:
    """NumPy's functions that its protocols hand over, and those that convert."""
    found = set(HANDS_OVER)
    for prefix, module in (("np.", np), ("np.linalg.", np.linalg), ("np.fft.", np.fft)):
        for name in dir(module):
            one = getattr(module, name)
            if not name.startswith("_") and (hasattr(one, "_implementation") or isinstance(one, np.ufunc)):
                found.add(prefix + name)
    return found


def mode() -> str:
    return "64" if jax.config.jax_enable_x64 else "32"


def outcomes(names: list[str]) -> dict[str, list[Found]]:
    """What each call of each function comes to in the present mode."""
    values = arrays()
    return {name: [run_call(text, values) for text in CALLS[name]] for name in names}


def row(found: list[Found]) -> list[list[str]]:
    return [[one.status, one.why] for one in found]


def write_rows(which: str) -> None:
    found = outcomes(sorted(CALLS))
    wrong = [f"{name}: {one.problem}" for name, several in found.items() for one in several if one.problem]
    assert not wrong, "\n".join(wrong)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(row(several))}" for name, several in found.items())
    ROWS[which].write_text("{\n" + text + "\n}\n")


def stored(which: str) -> dict[str, list[list[str]]]:
    return json.loads(ROWS[which].read_text())


def counts(which: str) -> dict[str, int]:
    """Of the functions that take arrays of numbers and are not there to hand them over, by what the plainest
    call comes to.

    ``wide``: breaks because NumPy's result, or what it computes in, has 64 bits.
    """
    found = {"lazy": 0, "break": 0, "unsupported": 0, "wide": 0}
    for name, calls in stored(which).items():
        if name not in NO_NUMBERS | HANDS_OVER:
            status, why = calls[0]
            found["wide" if why.startswith("LNB311") else status] += 1
    return found


def share_of_all(which: str) -> float:
    """The share of lazy ones among all functions that are counted."""
    found = counts(which)
    return found["lazy"] / sum(found.values())


def share(which: str) -> float:
    """The share of lazy ones among those whose result JAX can hold."""
    found = counts(which)
    return found["lazy"] / (sum(found.values()) - found["wide"])


def page() -> str:
    from tests.frontends.page import HEAD, SCIKIT_LEARN
    from tests.frontends.scikit_learn import table

    lines = [
        HEAD.format(
            **{
                f"{key}{which}": value
                for which in ROWS
                for key, value in {
                    **counts(which),
                    "all": f"{share_of_all(which):.0%}",
                    "share": f"{share(which):.0%}",
                }.items()
            },
            total=sum(counts("32").values()),
            over=len(HANDS_OVER),
            none=len(NO_NUMBERS),
        )
    ]
    narrow, wide = stored("32"), stored("64")
    lines += ["| function | the call | 32-bit mode | 64-bit mode |", "|---|---|---|---|"]
    for name in sorted(narrow):
        for number, text in enumerate(CALLS[name]):
            cells = [_cell(*which[name][number]) for which in (narrow, wide)]
            lines.append(
                f"| {f'`{name}`' if number == 0 else ''} | `{_escaped(text)}` | {cells[0]} "
                f"| {'the same' if cells[0] == cells[1] else cells[1]} |"
            )
    return "\n".join(lines) + "\n" + SCIKIT_LEARN + table()


def _cell(status: str, why: str) -> str:
    return status if not why else f"{status}: {_escaped(why)}"


def _escaped(text: str) -> str:
    return (
        text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
        if "`" not in text
        else text.replace("|", "\\|")
    )


def write_page() -> None:
    PAGE.write_text(page())
