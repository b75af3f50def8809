"""A campaign against lazynb: random programs, run lazily and eagerly, must come to the same.

    python -m tests.endurance --minutes 60 --seed 2

A program (``programs``) is a list of statements (``kinds``) over a few variables. A process with lazynb
(``lazy_world``) and one without (``world``, ``stand_in``) run it side by side. ``comparison`` asks both after
each statement, now and then, what some variables are: values bit for bit, dtype, weak type, whether committed
or deleted; errors are the same by type; and the thread is lazy where it should be, and only there. Signals
(``interrupts``) arrive at chosen instructions of lazynb: an interrupted statement has happened or has not,
and nothing else is lost. A crash or a hang is a difference too. What is found is made shorter (``minimise``)
and written as a program of its own (``reproducer``).

The same seed gives the same programs and signals; threads, the garbage collector and what earlier programs
left in the caches are not repeated. ``plants`` are faults that the campaign must find.
"""
