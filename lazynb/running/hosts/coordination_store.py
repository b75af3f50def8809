"""The store that all hosts share: the key-value store of JAX's coordination service, with lazynb's keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lazynb import jax_compat as jc

GO = "go"
"""The verdict on a turn in which all hosts have said what they run."""


EVERYONE = "all"
"""The name of the group of all hosts."""


class Store:
    """What the hosts of a group say to each other.

    Arguments:
      hosts: their numbers.

    Attributes:
      name: of the group.
    """

    def __init__(self, hosts: Sequence[int]):
        everyone = list(hosts) == list(range(jc.host_count()))
        self._hosts = None if everyone else list(hosts)  # as barriers take it
        self.name = EVERYONE if everyone else "-".join(map(str, hosts))
        self._prefix = f"lazynb/{self.name}"

    def meet(self, name: str, seconds: float) -> bool:
        """Whether all hosts of the group came to the barrier ``name`` in time.

        The answer is the same for all of them: the service gives it.
        """
        client = jc.coordination()
        try:
            client.wait_at_barrier(f"{self._prefix}/{name}", int(seconds * 1000), self._hosts)
        except jc.RpcError:
            return False
        return True

    def say(self, turn: int, part: str, what: dict[str, Any]) -> None:
        """Tells the others something about a turn.

        Arguments:
          part: what it is about.
        """
        key = f"{self._prefix}/{turn}/{part}/{jc.host_index()}"
        jc.coordination().key_value_set(key, json.dumps(what), allow_overwrite=True)

    def said(self, turn: int, part: str) -> dict[int, dict[str, Any]]:
        """What the hosts said, by host."""
        return {int(key): json.loads(text) for key, text in _below(f"{self._prefix}/{turn}/{part}/")}

    def decide(self, turn: int, verdict: str) -> str:
        """The verdict on a turn, which is that of the host that decides first."""
        key = f"{self._prefix}/{turn}/verdict"
        client = jc.coordination()
        try:
            client.key_value_set(key, verdict)
        except jc.RpcError:  # somebody has decided
            return str(client.key_value_try_get(key))
        return verdict

    def verdict(self, turn: int) -> str | None:
        """The verdict on a turn; None while there is none."""
        try:
            return str(jc.coordination().key_value_try_get(f"{self._prefix}/{turn}/verdict"))
        except jc.RpcError:
            return None

    def forget(self, turn: int) -> None:
        """Deletes what the hosts said about a turn that all of them have left."""
        jc.coordination().key_value_delete(f"{self._prefix}/{turn}/")


def publish(what: dict[str, Any]) -> None:
    """Says to all hosts of the program what this one does, in the place of what it said before."""
    client = jc.coordination()
    if client is not None:
        client.key_value_set(f"lazynb/host/{jc.host_index()}", json.dumps(what), allow_overwrite=True)


def published() -> dict[int, dict[str, Any]]:
    """What each host last published; a host that has not is missing."""
    return {int(key): json.loads(text) for key, text in _below("lazynb/host/")}


def _below(prefix: str) -> list[tuple[str, str]]:
    return [(key.rpartition("/")[2], text) for key, text in jc.coordination().key_value_dir_get(prefix)]
