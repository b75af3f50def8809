"""The labels that say how something about a compiled program is known."""

COMPILER, INFERRED, VERIFIED = "compiler said", "rule inferred", "verified by recompiling"

UNKNOWN = "not known"
"""The label where no reason is given."""
