"""Whether what lies in a directory can only have been put there by this user.

A compiled program is machine code: to load it is to execute it. So the directory that holds them must be
writable by nobody else, and no directory above it may let anybody else put another one in its place. The
rules are those of ssh for its keys.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_NOBODY = 65534
"""Owner, in a container, of what belongs to a user of the machine around it that the container does not
know."""


def distrust(directory: Path) -> str:
    """Why ``directory``, which is there, is not to be trusted, in a few words with what to do; empty if it
    is.

    A symbolic link counts as what it leads to. Where files have no owners and modes (Windows), everything is
    trusted.

    Raises OSError where it cannot be looked at.
    """
    if os.name != "posix":
        return ""
    real = Path(os.path.realpath(directory))
    found = os.stat(real)
    if found.st_uid not in (0, os.geteuid()):
        return f"{real} belongs to another user (number {found.st_uid}), whose programs would run as yours"
    if others := _others(found.st_mode):
        return (
            f"{others} can write to {real}, and so run programs as you; take that away with: chmod "
            f"go-w {real}"
        )
    for parent in real.parents:
        found = os.stat(parent)
        if found.st_uid not in (0, os.geteuid(), _NOBODY):
            return f"{parent}, above {real}, belongs to another user (number {found.st_uid})"
        if (others := _others(found.st_mode)) and not found.st_mode & stat.S_ISVTX and not _only_mine(found):
            return (
                f"{others} can write to {parent}, and so replace what is in it; take that away "
                f"with: chmod go-w {parent}"
            )
    return ""


def _others(mode: int) -> str:
    """Who else can write."""
    if mode & stat.S_IWOTH:
        return "everybody"
    return "its group" if mode & stat.S_IWGRP else ""


def _only_mine(found: os.stat_result) -> bool:
    """Whether the group that can write has no member but this user: many systems give each user such a
    group."""
    import grp
    import pwd

    if found.st_mode & stat.S_IWOTH or found.st_uid != os.geteuid():
        return False
    try:
        user, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return (
        group.gr_gid == user.pw_gid
        and group.gr_name == user.pw_name
        and not set(group.gr_mem) - {user.pw_name}
    )
