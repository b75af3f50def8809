"""What compiling a program took."""
