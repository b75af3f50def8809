"""Other tensor APIs over the lazy runtime: NumPy through its own protocols (NEP 13, NEP 18). Loaded at the
first use."""
