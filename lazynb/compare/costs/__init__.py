"""Measures what a program costs, and enforces budgets: breaks, compilations, kernels, bytes and memory.

``program_usage``: bytes, memory and kernel launches of the programs that ran
``budget``: limits for a block of code
``budget_text``: the text of a budget error
``joint_program``: runs separated by trace breaks, joined into one program
``counterfactual``: the cost of a trace break
``recording_advice``: advice on which function to wrap in ``jax.jit``
``call_explanation``: ``lazynb.explain``
"""
