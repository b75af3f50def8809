"""What devices say to each other: the collectives of a program, and who asked for them."""
