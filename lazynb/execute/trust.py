"""Trust in a directory: whether only this user can have put files into it.

A compiled program is machine code, and loading it executes it. So no other user may write to the directory of
the programs, and no directory above it may let another user replace it. These are the rules of ssh for its
keys.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_NOBODY = 65534
"""The owner that a container shows for files of a user whom only the machine around it knows."""


def distrust(directory: Path) -> str:
    """The reason not to trust the existing ``directory``, with its remedy; empty if it can be trusted.

    A symbolic link counts as the directory that it leads to. Where files have no owners and modes (Windows),
    every directory is trusted.

    Raises:
      OSError: the directory, or one above it, cannot be looked at.
    """
    if os.name != "posix":
        return ""
    real = Path(os.path.realpath(directory))
    status = os.stat(real)
    if status.st_uid not in (0, os.geteuid()):
        return f"{real} belongs to another user (number {status.st_uid}), whose programs would run as yours"
    if others := _others(status.st_mode):
        return (
            f"{others} can write to {real}, and so run programs as you; take that away with: chmod "
            f"go-w {real}"
        )
    for parent in real.parents:
        status = os.stat(parent)
        if status.st_uid not in (0, os.geteuid(), _NOBODY):
            return f"{parent}, above {real}, belongs to another user (number {status.st_uid})"
        if others := _replacers(status):
            return (
                f"{others} can write to {parent}, and so replace what is in it; take that away "
                f"with: chmod go-w {parent}"
            )
    return ""


def _others(mode: int) -> str:
    """The other users that can write; empty if only the owner can."""
    if mode & stat.S_IWOTH:
        return "everybody"
    if mode & stat.S_IWGRP:
        return "its group"
    return ""


def _replacers(status: os.stat_result) -> str:
    """The other users that can replace a file in the directory; empty if only the owner can."""
    if status.st_mode & stat.S_ISVTX:  # sticky: only the owner of a file can replace it
        return ""
    others = _others(status.st_mode)
    if others and _is_private_group(status):
        return ""
    return others


def _is_private_group(status: os.stat_result) -> bool:
    """Whether the group that can write has this user as its only member.

    Many systems give each user such a group.
    """
    import grp
    import pwd

    if status.st_mode & stat.S_IWOTH or status.st_uid != os.geteuid():
        return False
    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    is_own = group.gr_gid == user.pw_gid and group.gr_name == user.pw_name
    return is_own and set(group.gr_mem) <= {user.pw_name}
