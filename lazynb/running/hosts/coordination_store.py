"""The key-value store of JAX's coordination service, which all hosts share, with lazynb's keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lazynb import jax_compat as jc

GO = "go"
"""The verdict on a turn in which all hosts have sent their proposals."""


EVERYONE = "all"
"""The name of the group of all hosts."""


class Store:
    """Messages and barriers of a group of hosts.

    Arguments:
      hosts: their numbers.

    Attributes:
      name: name of the group.
    """

    def __init__(self, hosts: Sequence[int]):
        everyone = list(hosts) == list(range(jc.host_count()))
        self._hosts = None if everyone else list(hosts)  # the argument for barriers
        self.name = EVERYONE if everyone else "-".join(map(str, hosts))
        self._prefix = f"lazynb/{self.name}"

    def meet(self, name: str, seconds: float) -> bool:
        """Whether all hosts of the group came to the barrier ``name`` in time; the answer is equal on all
        hosts."""
        client = jc.coordination()
        try:
            client.wait_at_barrier(f"{self._prefix}/{name}", int(seconds * 1000), self._hosts)
        except jc.RpcError:
            return False
        return True

    def say(self, turn: int, part: str, what: dict[str, Any]) -> None:
        """Sends a message about a turn to the other hosts.

        Arguments:
          part: the kind of the message.
        """
        key = f"{self._prefix}/{turn}/{part}/{jc.host_index()}"
        jc.coordination().key_value_set(key, json.dumps(what), allow_overwrite=True)

    def said(self, turn: int, part: str) -> dict[int, dict[str, Any]]:
        """The messages of the hosts, by host."""
        return {int(key): json.loads(text) for key, text in _below(f"{self._prefix}/{turn}/{part}/")}

    def decide(self, turn: int, verdict: str) -> str:
        """Decides on a turn and returns the verdict, which is that of the first host to decide."""
        key = f"{self._prefix}/{turn}/verdict"
        client = jc.coordination()
        try:
            client.key_value_set(key, verdict)
        except jc.RpcError:  # another host has decided
            return str(client.key_value_try_get(key))
        return verdict

    def verdict(self, turn: int) -> str | None:
        """The verdict on a turn; None if there is none."""
        try:
            return str(jc.coordination().key_value_try_get(f"{self._prefix}/{turn}/verdict"))
        except jc.RpcError:
            return None

    def forget(self, turn: int) -> None:
        """Deletes the messages about a turn that all hosts have left."""
        jc.coordination().key_value_delete(f"{self._prefix}/{turn}/")


def publish(what: dict[str, Any]) -> None:
    """Publishes the state of this host to all hosts of the program, replacing the previous one."""
    client = jc.coordination()
    if client is not None:
        client.key_value_set(f"lazynb/host/{jc.host_index()}", json.dumps(what), allow_overwrite=True)


def published() -> dict[int, dict[str, Any]]:
    """The last published state of each host that has published one."""
    return {int(key): json.loads(text) for key, text in _below("lazynb/host/")}


def _below(prefix: str) -> list[tuple[str, str]]:
    return [(key.rpartition("/")[2], text) for key, text in jc.coordination().key_value_dir_get(prefix)]
