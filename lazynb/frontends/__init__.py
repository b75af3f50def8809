"""Front ends: record NumPy and PyTorch calls in the lazy runtime. Loaded at the first use.

``import_hook``: patches other packages at import, so that they accept mutable arrays.
``numpy``: NumPy's protocols (NEP 13, NEP 18) and the mutable array.
``torch``: PyTorch tensors of device ``jax``.
"""
