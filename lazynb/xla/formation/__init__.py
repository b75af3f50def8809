"""How the kernels of a program came about, pass by pass."""
