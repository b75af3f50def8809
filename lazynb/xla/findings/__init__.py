"""What stands out in a compiled program: the few things that are worth a sentence."""
