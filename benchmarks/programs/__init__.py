"""What is timed: the code as a user of each library would write it.

A module here has

- ``start(**size)``: what the first step is called with, as NumPy arrays (or nestings of them);
- ``each(**size)``: the further arguments of each step of one run;
- ``in_jax(**size)``, ``in_torch(**size)``, ``in_mlx(**size)``: the step, ``state = step(state, *arguments)``;
- ``look(state)``, where a user looks at something after each step.

The function of ``in_jax`` is the very same for lazynb, eager JAX and ``jax.jit``.
"""
