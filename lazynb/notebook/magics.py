"""All of the magics."""

from __future__ import annotations

from lazynb.notebook.compile_magics import CompileMagics
from lazynb.notebook.run_magics import RunMagics
from lazynb.notebook.state_magics import StateMagics


class LazyMagics(StateMagics, CompileMagics, RunMagics):
    """``%lazy``, ``%graph``, ``%inspect``, ``%diff``, ``%breaks``, ``%cache``, ``%%compile``, ``%%predict``,
    ``%%explain``, ``%%numerics``, ``%%eager``."""

    magics = {  # IPython's decorator notes those of one class body alone
        kind: StateMagics.magics[kind] | CompileMagics.magics[kind] | RunMagics.magics[kind]
        for kind in ("line", "cell")
    }


for _name in LazyMagics.magics["cell"]:  # IPython's help begins with a line magic's usage
    _magic = getattr(LazyMagics, _name)
    _magic.__doc__ = str(_magic.__doc__).replace(f"  %{_name}", f"  %%{_name}", 1)

MAGICS = [(kind, name) for kind in ("line", "cell") for name in LazyMagics.magics[kind]]
