"""Compares the values of each operation in eager JAX, in the compiled program and in float64.

``equation_list``: a recorded program as a flat list of equations
``numerics_code``: recorded code with its input values
``program_values``: values as eager JAX and as the compiled program compute them
``float64_reference``: the float64 reference
``float_arrays``: distances in ULPs, and origins of NaNs and infinities
``rounding_bounds``: bounds on differences by rounding
``value_comparison``: comparison of each operation, with a verdict
``numerics_causes``: why compiled values differ
``numerics_table``: rows of the report
``numerics_result``: ``lazynb.numerics``
"""
