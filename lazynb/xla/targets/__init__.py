"""Compiles programs for chips that are not present (TPUs and GPUs), each in a separate compiler process.

Its modules, in reading order:

``target_chip``: chips and targets such as ``v5e:4x4``, from the table ``chips.toml``
``target_mesh``: meshes of a target's devices, and shardings of inputs on them
``target_executable``: a recorded program compiled for a target
``target_compilation``: one compilation for a target, with results cached on disk
``compiler_process``: the compiler process as seen from the user's process
``compiler_worker``: the code that runs inside the compiler process
``compiler_packages``: installs the compilers, and lists the targets
"""
