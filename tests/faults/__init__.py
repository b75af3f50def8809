"""150 faults, planted in lazynb one at a time, to see which of the tests notice each.

    python -m tests.faults reach             which lines of lazynb each test runs: once, before the rest
    python -m tests.faults run               plants each fault, and runs the tests that run its lines
    python -m tests.faults table             what came of it, as a table

``faults.toml`` has the faults: a text of a file and what stands there instead. cosmic-ray chose the places in
Python at random, so many for each folder; those in C and the calls that are left out were chosen by hand or
at random from all calls whose result nobody uses. A fault whose text is no longer there is said to be gone;
it is replaced by another one of the same folder.
"""
