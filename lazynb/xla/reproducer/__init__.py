"""The one-file reproducer of a compilation: what is written, and the code in it."""
