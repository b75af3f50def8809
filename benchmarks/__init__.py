"""Times lazynb against its peers: ``make bench``, or ``python -m benchmarks --help``.

A driver (standard library only) and one long-lived process for each peer, which talk in lines of JSON. What
is timed stands in :mod:`benchmarks.rows` and :mod:`benchmarks.programs`, what ought to come out in
:mod:`benchmarks.targets`.
"""
