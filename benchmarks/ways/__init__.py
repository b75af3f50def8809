"""How each library runs a program: eagerly, compiled, lazily. One module a library, one class a way."""
