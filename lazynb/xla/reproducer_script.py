"""The code of a reproducer, copied verbatim into each file. It needs JAX, and nothing of lazynb.

It uses public names only: ``jax.extend.backend`` gives JAX's own compile options, and a device's client
accepts StableHLO as text.
"""

import argparse
import base64
import collections
import os
import re
import sys
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

SAME, DIFFERENT, UNUSABLE = 0, 1, 2


# ---- Reading optimised HLO ---------------------------------------------------------------------------------


def kernel_signatures(text: str, free: Collection[str], control: Collection[str]) -> list[str]:
    """The kernels of an optimised module, each as ``opcode [fusion kind or target] shape``, in order.

    Arguments:
      free: opcodes that run nothing.
      control: opcodes that run other computations: loops, branches, calls.
    """
    computations, entry = _computations(text)
    kernels: list[str] = []
    waiting = [entry]
    while waiting:
        for shape, opcode, rest in computations.get(waiting.pop(), ()):
            if opcode in control:
                called = _CALLED.findall(rest)
                waiting.extend(name for names in called for name in re.findall(r"%?([\w.\-]+)", names))
            elif opcode not in free and not opcode.endswith(("-done", "-update")):
                more = re.search(r'\bkind=(\w+)|custom_call_target="([^"]*)"', rest)
                kernels.append(" ".join(filter(None, [opcode, *(more.groups() if more else ()), shape])))
    return kernels


_CALLED = re.compile(
    r"\b(?:to_apply|condition|body|true_computation|false_computation|branch_computations|"
    r"called_computations|calls)=(%?[\w.\-]+|\{[^}]*\})"
)


def _computations(text: str) -> tuple[dict[str, list[tuple[str, str, str]]], str]:
    """By computation name, the (shape, opcode, rest of the line) of each instruction; and the entry."""
    computations: dict[str, list[tuple[str, str, str]]] = {}
    entry = name = ""
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line)
        if head is not None and not line.startswith("HloModule"):
            name = head[2]
            entry = name if head[1] else entry
            computations[name] = []
        elif name and line.startswith("  ") and " = " in line:
            shape, rest = _shape(re.sub(r"/\*.*?\*/", "", line).partition(" = ")[2])
            opcode, _, rest = rest.partition("(")
            computations[name].append((shape, opcode, rest))
    return computations, entry


def _shape(text: str) -> tuple[str, str]:
    """Splits ``text`` into the shape at its beginning (a tuple in parentheses) and the rest."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "({") - (letter in ")}")
        if letter == " " and not depth:
            return text[:at], text[at + 1 :]
    return text, ""


# ---- Compiling ---------------------------------------------------------------------------------------------


def compile_program(program: Mapping[str, Any], flags: Mapping[str, Any]) -> Any:
    """Compiles a program with JAX's own options, as ``jax.jit`` does, to XLA's executable."""
    import jax
    import numpy as np
    from jax.extend.backend import get_compile_options

    if "@lapack_" in program["stablehlo"]:  # JAX registers LAPACK's functions when it first lowers one
        jax.jit(jax.numpy.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), "float32"))
    devices = jax.local_devices()[: program["devices"]]
    client = devices[0].client
    options = get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=np.array(devices).reshape(1, len(devices)),
        backend=client,
        env_options_overrides=dict(flags),
    )
    if len(devices) > 1:  # the partitioner chooses the sharding of these
        build = options.executable_build_options
        build.allow_spmd_sharding_propagation_to_parameters = program["free_arguments"]
        build.allow_spmd_sharding_propagation_to_output = program["free_results"]
    return client.compile_and_load(program["stablehlo"], devices, options)


def arguments_of(program: Mapping[str, Any], beside: Mapping[int, Any]) -> list[Any]:
    """The arguments: saved values, else normal random numbers, and zeros for integers."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    random = np.random.default_rng(0)
    arguments = []
    for dtype, shape, saved in program["arguments"]:
        if saved is None:
            value = random.standard_normal(shape) if jnp.issubdtype(dtype, jnp.inexact) else np.zeros(shape)
            value = value.astype(jnp.dtype(dtype))
        else:
            data = beside[saved].tobytes() if isinstance(saved, int) else _unpacked(saved)
            value = np.frombuffer(data, jnp.dtype(dtype)).reshape(shape)
        arguments.append(jax.device_put(value, jax.local_devices()[0]))
    return arguments


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


# ---- Command -----------------------------------------------------------------------------------------------


def main(case: Mapping[str, Any], words: Sequence[str]) -> int:
    """Compiles the programs of ``case``, prints the findings, and returns the exit status.

    That is 0 if the kernels are those that lazynb saw, 1 if they differ, 2 if one cannot be compiled here.
    """
    options = _parse_arguments(case, words)
    for name, value in case["environment"].items():
        os.environ.setdefault(name, value)
    import jax

    jax.config.update("jax_enable_x64", True)  # keeps the type of 64-bit arguments
    for name, value in case["settings"].items():
        jax.config.update(name, value)
    print(case["question"], end="\n\n")
    others = _environment_differences(case["versions"])
    status = SAME
    for number, program in enumerate(case["programs"], 1):
        print(f"program {number} of {len(case['programs'])}: {program['about']}")
        if len(jax.local_devices()) < program["devices"]:
            print(f"  needs {program['devices']} devices, and there are {len(jax.local_devices())}")
            return UNUSABLE
        try:
            executable = compile_program(program, case["flags"])
        except Exception as error:
            print(f"  XLA cannot compile it here: {type(error).__name__}: {error}{others}")
            return UNUSABLE
        text = executable.hlo_modules()[0].to_string()
        status = max(
            status, _compare(kernel_signatures(text, case["free"], case["control"]), program, others)
        )
        if options.hlo:
            print(text)
        if options.run:
            _run(executable, program, case)
    return status


def _parse_arguments(case: Mapping[str, Any], words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=case["question"])
    parser.add_argument("--hlo", action="store_true", help="print the optimised HLO")
    parser.add_argument("--run", action="store_true", help="run it once, and say what the results are")
    return parser.parse_args(words)


def _environment_differences(seen: Mapping[str, Any]) -> str:
    """Differences from the environment in which lazynb saw the kernels, as a clause; empty for none."""
    import jax
    import jaxlib

    now = {
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "platform": jax.local_devices()[0].platform,
        "cores": os.cpu_count(),
    }
    found = [f"{name} {value} here, {seen[name]} there" for name, value in now.items() if seen[name] != value]
    return f" ({'; '.join(found)})" if found else ""


def _compare(kernels: Sequence[str], program: Mapping[str, Any], others: str) -> int:
    """Prints the kernels, and whether they equal those that lazynb saw."""
    for kernel in kernels:
        print(f"  {kernel}")
    seen, now = collections.Counter(program["kernels"]), collections.Counter(kernels)
    if seen == now:
        print(f"  SAME: {_count(kernels)}, as lazynb saw them")
        return SAME
    print(f"  DIFFERS: {_count(kernels)}, where lazynb saw {_count(program['kernels'])}{others}")
    for kernel in (seen - now).elements():
        print(f"  - {kernel}")
    for kernel in (now - seen).elements():
        print(f"  + {kernel}")
    return DIFFERENT


def _count(kernels: Sequence[str]) -> str:
    return f"{len(kernels)} kernel{'s' * (len(kernels) != 1)}"


def _run(executable: Any, program: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    import numpy as np

    if program["devices"] > 1:
        print("  not run: it is for several devices, and its arguments would have to lie on them")
        return
    beside: dict[int, Any] = {}
    if case["beside"]:
        with np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), case["beside"])) as file:
            beside = {int(name): file[name] for name in file.files}
    results = executable.execute_sharded(arguments_of(program, beside))
    for number, [result] in enumerate(results.disassemble_into_single_device_arrays()):
        value = np.asarray(result)
        print(f"  result {number}: {value.dtype}[{','.join(map(str, value.shape))}]{_value_range(value)}")


def _value_range(value: Any) -> str:
    import numpy as np

    if not value.size or value.dtype.kind == "c":
        return ""
    plain = value.astype(np.float64)
    not_finite = int(plain.size - np.isfinite(plain).sum())
    return f" from {plain.min():.6g} to {plain.max():.6g}, {not_finite} of {plain.size} not finite"


def run_and_exit(case: Mapping[str, Any]) -> None:
    """Runs the command of the file, and ends the process."""
    sys.exit(main(case, sys.argv[1:]))
