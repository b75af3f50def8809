"""JAX's own tests with the lazy trace ambient: what ``scripts/jax_suite.py`` needs. The tests are JAX's and
lie elsewhere.

``suite_plugin.py`` is a pytest plugin for the processes that run them, ``differences.toml`` says which files
are left out and which tests may fail, with the reasons.
"""
