"""How the values of a program lie on the devices of a mesh."""
