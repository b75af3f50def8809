"""The labels that say how something about a compiled program is known."""

COMPILER = "compiler said"
"""XLA's own log of its fusion decisions says so, and nothing else has this label."""

INFERRED = "rule inferred"
"""lazynb worked it out: by the backend's rules, or from the text of the modules."""

VERIFIED = "verified by recompiling"
"""The supposed cause was removed, and what it was the cause of went with it; or all else was, and that
stayed."""

DECIDED = "lazynb decided"
"""XLA was not asked: lazynb left out what nothing needs, or cut the trace into programs."""

ABSENT = "absent in the first pass"
"""XLA never got it: the module before the first pass has no instruction of it."""

UNKNOWN = "not known"
"""The label where no reason is given."""

LABELS = (COMPILER, INFERRED, VERIFIED, DECIDED, ABSENT, UNKNOWN)
