"""All of the magics."""

from __future__ import annotations

from lazynb.notebook.compile_magics import CompileMagics
from lazynb.notebook.run_magics import RunMagics
from lazynb.notebook.state_magics import StateMagics

MAGICS = [
    ("line", "lazy"),
    ("line", "graph"),
    ("line", "breaks"),
    ("line", "cache"),
    ("line", "inspect"),
    ("line", "diff"),
    ("cell", "compile"),
    ("cell", "predict"),
    ("cell", "explain"),
    ("cell", "numerics"),
    ("cell", "eager"),
]


class LazyMagics(StateMagics, CompileMagics, RunMagics):
    """``%lazy``, ``%graph``, ``%inspect``, ``%diff``, ``%breaks``, ``%cache``, ``%%compile``, ``%%predict``,
    ``%%explain``, ``%%numerics``, ``%%eager``."""

    magics = {  # IPython's decorator notes those of one class body alone
        kind: StateMagics.magics[kind] | CompileMagics.magics[kind] | RunMagics.magics[kind]
        for kind in ("line", "cell")
    }
