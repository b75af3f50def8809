"""The command ``lazynb``: runs programs lazily with a report and a budget; inspects and compares programs.

Modules, in reading order:

- ``main``: entry point; ``lazynb run``, ``explain`` and ``targets``
- ``arguments``: the argument parser, its help texts, and checks before a run
- ``program_run``: runs a script or a notebook lazily
- ``compilation_commands``: ``lazynb inspect`` and ``lazynb diff``
"""
