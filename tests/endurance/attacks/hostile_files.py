"""Hostile files: programs that name other files, or that take XLA's parsers down, and mutated saved inspections.

:func:`attack` changes valid files at random, reads each as the command line does, and looks at the pages made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import random
import tempfile
import time
import traceback
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from jax.export import Exported

from lazynb.cli.main import main

HLO = """HloModule by_hand

ENTRY e {
  p = f32[16] parameter(0)
  t = f32[16] tanh(p)
  ROOT a = f32[16] add(t, p)
}
"""
MLIR = """module {
  func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
    %0 = stablehlo.tanh %x : tensor<16xf32>
    %1 = stablehlo.add %0, %x : tensor<16xf32>
    return %1 : tensor<16xf32>
  }
}
"""
_TABLES = """HloModule by_hand, is_scheduled=true

FileNames
1 "FILE"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

"""


def _hlo(file: str) -> str:
    text = HLO.replace(
        "tanh(p)", f'tanh(p), metadata={{op_name="jit(f)/tanh" source_file="{file}" source_line=1}}'
    )
    return text.replace(
        "add(t, p)", f'add(t, p), metadata={{op_name="jit(f)/add" source_file="{file}" source_line=2}}'
    )


def _mlir(file: str) -> str:
    text = MLIR.replace("tanh %x : tensor<16xf32>", f'tanh %x : tensor<16xf32> loc("{file}":1:1)')
    return text.replace(
        "%0, %x : tensor<16xf32>", f'%0, %x : tensor<16xf32> loc(callsite("f"("{file}":2:1) at "{file}":1:1))'
    )


def _framed(file: str) -> str:
    text = HLO.replace("HloModule by_hand\n\n", _TABLES.replace("FILE", file)).replace(
        "f32[16]", "f32[16]{0}"
    )
    return text.replace("tanh(p)", 'tanh(p), metadata={op_name="jit(f)/tanh" stack_frame_id=1}')


programs_naming: dict[str, Callable[[str], str]] = {".hlo": _hlo, ".mlir": _mlir, ".txt": _framed}
"""By suffix: a program whose operations are in a given file."""


def exported(like: Exported, text: str) -> Exported:
    """An exported program with the text of another."""
    return dataclasses.replace(like, mlir_module_serialized=text.encode())


def _calls(levels: int) -> str:
    functions = [
        "func.func private @c0(%x: tensor<4xf32>) -> tensor<4xf32> {"
        " %0 = stablehlo.tanh %x : tensor<4xf32>\n return %0 : tensor<4xf32> }"
    ]
    for level in range(1, levels):
        call = f"func.call @c{level - 1}"
        functions.append(
            f"func.func {'private @c' + str(level) if level < levels - 1 else '@main'}"
            "(%x: tensor<4xf32>) -> tensor<4xf32> {"
            f" %0 = {call}(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
            f" %1 = {call}(%0) : (tensor<4xf32>) -> tensor<4xf32>\n return %1 : tensor<4xf32> }}"
        )
    return "module {\n" + "\n".join(functions) + "\n}\n"


def _chain(length: int) -> str:
    lines = [f"  x{n} = f32[4] {('cosine', 'tanh')[n % 2]}(x{n - 1})" for n in range(1, length)]
    return "\n".join(
        [
            "HloModule m\n",
            "ENTRY e {",
            "  x0 = f32[4] parameter(0)",
            *lines,
            f"  ROOT r = f32[4] tanh(x{length - 1})",
            "}",
        ]
    )


CRASHING: dict[str, Callable[[], str]] = {
    "brackets.hlo": lambda: HLO.replace("p = f32[16] ", f"p = {'(' * 50_000}f32[]{')' * 50_000} "),
    "attributes.mlir": lambda: MLIR.replace(
        "module {", f"module attributes {{a = {'[' * 50_000}{']' * 50_000}}} {{"
    ),
    "regions.mlir": lambda: "module {" * 20_000 + "}" * 20_000,
}
"""Texts on which XLA's or MLIR's parser recurses until its stack is full."""

LONG: dict[str, Callable[[], str]] = {"calls.mlir": lambda: _calls(40), "chain.hlo": lambda: _chain(20_000)}
"""Texts that take minutes or more."""


# ---- Mutated files ------------------------------------------------------------------------------------------

POISON = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!--",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "'-alert(1)-'",
    "\u202e\x00\u2028",
    "${alert(1)}",
)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 10**40, 1e308, float("inf"), float("nan"), "", [], {}, [[]], "x" * 10_000, *POISON,
)  # fmt: skip


@functools.cache
def _saved() -> dict[str, Any]:
    """A saved inspection."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "p.hlo"
        file.write_text(_hlo("mine.py"))
        assert _command(["inspect", str(file), "--json", f"{folder}/o.json"])[0] == 0
        found: dict[str, Any] = json.loads((Path(folder) / "o.json").read_bytes())
        return found


def _command(arguments: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return status, out.getvalue(), err.getvalue()


def _mutated_data(data: Any, rng: random.Random) -> Any:
    """A copy with one to three changed places."""
    data = json.loads(json.dumps(data))
    for _ in range(rng.randint(1, 3)):
        holder, key = data, None
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = rng.choice(keys)
            inner = holder[key]
            if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.1:
                break
            holder = inner
        if key is None or (isinstance(holder, (dict, list)) and not holder):
            continue
        if rng.random() < 0.2:
            del holder[key]
        elif isinstance(holder[key], str) and rng.random() < 0.7:
            holder[key] += rng.choice(POISON)
        else:
            holder[key] = rng.choice(VALUES)
    return data


def _mutated_text(text: str, rng: random.Random) -> bytes:
    content = bytearray(text.encode())
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content) + 1)
        piece = rng.choice(
            [b"", b"\0", b"\xff", b"(", b"{", b"9" * 30, b"-", rng.choice(POISON).encode(), b"\n"]
        )
        content[at : at + rng.randint(0, 8)] = piece * rng.choice([1, 1, 1, 50])
    return bytes(content)


class _Page(HTMLParser):
    """Collects the attributes that a browser would run."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.bad.append(f"<{tag} {name}={value!r}>"[:200])


def active_content(page: str) -> list[str]:
    """What in ``page`` runs, or ends a script, and came from the data."""
    parser = _Page()
    parser.feed(page)
    return parser.bad + [text for text in POISON if "<" in text and len(text) > 4 and text in page]


def _try(rng: random.Random, folder: Path) -> str:
    """One hostile file through one command. Returns what is wrong; empty if nothing is."""
    kind = rng.choice(["saved", "saved", "saved", "text.json", ".hlo", ".mlir", ".txt"])
    if kind == "saved":
        file = folder / "a.json"
        file.write_text(json.dumps(_mutated_data(_saved(), rng)))
    elif kind == "text.json":
        file = folder / "a.json"
        file.write_bytes(_mutated_text(json.dumps(_saved()), rng))
    else:
        file = folder / f"a{kind}"
        file.write_bytes(_mutated_text(programs_naming[kind]("mine.py"), rng))
    page = folder / "page.html"
    page.unlink(missing_ok=True)
    arguments = ["inspect", str(file)]
    if rng.random() < 0.4:
        (folder / "good.json").write_text(json.dumps(_saved()))
        sides = [str(file), str(folder / "good.json")]
        rng.shuffle(sides)
        arguments = ["diff", *sides]
    status, out, err = _command([*arguments, "--html", str(page), "--json", str(folder / "o.json")])
    if status not in (0, 2) or (status == 2 and (not err.strip() or "Traceback" in err)):
        return f"status {status}: {err}"
    if status == 0 and page.exists():
        bad = active_content(page.read_text(encoding="utf-8", errors="replace"))
        return f"the page runs {bad[:3]}" if bad else ""
    return ""


def attack(seconds: float, seed: int) -> dict[str, int]:
    """Reads mutated files for about ``seconds`` seconds."""
    counts = {"tries": 0, "lost": 0, "wrong": 0, "hung": 0}
    ends = time.monotonic() + seconds
    _saved()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < ends or not counts["tries"]:
            number = counts["tries"]
            began = time.monotonic()
            try:
                wrong = _try(random.Random(f"{seed} {number}"), Path(folder))
            except Exception:
                wrong = "an exception: " + traceback.format_exc(limit=-4)
            counts["tries"] += 1
            if wrong:
                counts["wrong"] += 1
                print(f"hostile_files, seed {seed}, try {number}: {wrong}")
            if time.monotonic() - began > 60:
                counts["hung"] += 1
                print(f"hostile_files, seed {seed}, try {number}: took {time.monotonic() - began:.0f} s")
    return counts
