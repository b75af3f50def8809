"""The owner of a code object: the user, a library, JAX or lazynb; generated code and doctests.

Code compiled by ``eval``, ``exec``, dataclasses and templates has a name in angle brackets, like a cell in a
terminal. Its lines cannot be shown, so its operations are placed at the user's line that called it. Examples
of a docstring are placed in the docstring's file.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from types import CodeType, FrameType

from lazynb.jax_compat.jax_names import (
    FORWARDING_FUNCTIONS,
    MACHINERY_FILES,
    OPERATOR_PREFIX,
    PACKAGE_FOLDER,
    PRIVATE_FOLDER,
)
from lazynb.user_code import cell_magics, file_versions
from lazynb.user_code.cells import cells_by_file
from lazynb.user_code.source_files import lines_of_file

_TYPED_IN = ("<stdin>", "<console>", "<python-input", "<ipython-input", "<doctest ")
"""Prefixes of the file names under which Python and IPython compile interactive input."""

_GENERATORS = (
    "<string>",
    "<attrs generated",
    "<lambdifygenerated",
    "<makefun-gen",
    "<decorator-gen",
    "<boltons.",
)
"""Prefixes of the file names of generated code; :mod:`linecache` has the text of some of it."""

_DOCTEST = "<doctest "


def is_doctest(file: str) -> bool:
    """Whether ``file`` is the name of a doctest example."""
    return file.startswith(_DOCTEST)


def is_generated(file: str) -> bool:
    """Whether ``file`` is the name of code that the user did not write."""
    if not (file.startswith("<") and file.endswith(">")) or file.startswith(_TYPED_IN):
        return False
    return file.startswith(_GENERATORS) or not lines_of_file(file)


_examples: dict[str, tuple[str, int]] = {}  # by name of an example: its file and the line before it


def register_doctest(file: str) -> None:
    """Notes the position in the docstring's file of the doctest example that runs under the name ``file``."""
    if not is_doctest(file):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        test, example = frame.f_locals.get("test"), frame.f_locals.get("example")
        if frame.f_globals.get("__name__") == "doctest" and test is not None and example is not None:
            if test.filename and test.lineno is not None:
                _examples[file] = test.filename, test.lineno + example.lineno
            return
        frame = frame.f_back


def doctest_position(file: str, line: int) -> tuple[str, int]:
    """The file and line in which ``line`` of the code compiled as ``file`` was written."""
    example = _examples.get(file)
    return (file, line) if example is None else (example[0], example[1] + line)


# ---- Classification of code objects ---------------------------------------------------------------------

PACKAGE_ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
"""Folder of this package."""


def _library_roots() -> tuple[str, ...]:
    paths = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    paths.add(PACKAGE_ROOT.rstrip(os.sep))
    paths.add(os.path.dirname(os.__file__))
    return tuple(sorted(os.path.join(path, "") for path in paths))


_LIBRARY_ROOTS = _library_roots()
_LIBRARY_MARKS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


_CODES = 10_000
"""Code objects in each cache. A cache keeps them alive, and each run of a cell has new ones."""

# By id, because hashing a code object walks through its contents. The value keeps the code object alive.
user_code_cache: dict[int, tuple[bool, CodeType]] = {}


def is_user_file(file: str) -> bool:
    """Whether ``file`` is user code: no standard library, installed package, lazynb or generated code."""
    if file.startswith("<frozen ") or (file not in cells_by_file and is_generated(file)):
        return False
    return not file.startswith(_LIBRARY_ROOTS) and not any(mark in file for mark in _LIBRARY_MARKS)


def is_user_code(code: CodeType) -> bool:
    """Whether ``code`` belongs to the user, see :func:`is_user_file`, or to the body of a cell magic."""
    known = user_code_cache.get(id(code))
    if known is None:
        if len(user_code_cache) > _CODES:  # each run of a cell adds new code objects
            user_code_cache.clear()
        register_doctest(code.co_filename)
        known = user_code_cache[id(code)] = _is_users(code), code
    return known[0]


def _is_users(code: CodeType) -> bool:
    file = code.co_filename
    if is_user_file(file):
        if file not in cells_by_file:
            file_versions.note_version(file)
        return True
    return bool(cell_magics.bodies) and is_generated(file) and cell_magics.find_body(code) is not None


_machinery: dict[int, tuple[bool, CodeType]] = {}


def is_machinery(code: CodeType) -> bool:
    """Whether ``code`` only forwards a call within JAX or lazynb (``api_boundary``, operators)."""
    known = _machinery.get(id(code))
    if known is None:
        if len(_machinery) > _CODES:
            _machinery.clear()
        known = _machinery[id(code)] = _forwards(code), code
    return known[0]


def _forwards(code: CodeType) -> bool:
    file, name = code.co_filename, code.co_name
    if file.endswith(MACHINERY_FILES) or file.startswith(PACKAGE_ROOT) or _runs_magic(file):
        return True
    if PRIVATE_FOLDER not in file:
        return False
    return name in FORWARDING_FUNCTIONS or name.startswith(OPERATOR_PREFIX)


def _runs_magic(file: str) -> bool:
    """Whether ``file`` belongs to the implementation of ``%time`` and ``%timeit``, or is their compiled code.
    Its lines are shown as the line of the magic."""
    if file.startswith(("<timed ", "<magic-timeit")) or file.endswith(f"{os.sep}timeit.py"):
        return True
    return f"{os.sep}IPython{os.sep}" in file


library_code_cache: dict[int, tuple[bool, CodeType]] = {}


def is_library_internal(code: CodeType) -> bool:
    """Whether ``code`` belongs to lazynb or JAX."""
    known = library_code_cache.get(id(code))
    if known is None:
        if len(library_code_cache) > _CODES:
            library_code_cache.clear()
        jax_own = PACKAGE_FOLDER in code.co_filename or code.co_filename.startswith("<frozen")
        known = library_code_cache[id(code)] = (code.co_filename.startswith(PACKAGE_ROOT) or jax_own), code
    return known[0]


USERS, OURS, MODULE, EXAMPLE = 1, 2, 4, 8


def is_module(code: CodeType) -> bool:
    """Whether ``code`` is at the level of a module, as is the body of ``%%timeit``."""
    return code.co_name == "<module>" or (
        cell_magics.is_timed(code) and cell_magics.body_code(code) is not None
    )


def code_kind(code: CodeType) -> int:
    """The sum of the flags above that hold for ``code``, for the C function ``here``. ``OURS``: code of
    lazynb or JAX; ``MODULE``: module level; ``EXAMPLE``: a doctest."""
    kind = USERS if is_user_code(code) else OURS if is_library_internal(code) else 0
    kind += MODULE if is_module(code) else 0
    return kind + (EXAMPLE if is_doctest(code.co_filename) else 0)
