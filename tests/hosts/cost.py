"""What it costs that hosts agree: ``python tests/hosts/cost.py [processes]``

Steps of 100 ms (a sleep, and a small program that all hosts run together), in pairs of blocks: with hosts that
agree and, in the other block, with hosts that do not ask each other.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import ranks

BLOCKS, STEPS, WORK = 6, 15, 0.1  # work in seconds


def measure() -> None:
    """In a rank: reports the median of a meeting and of a step of each kind, in seconds."""
    ranks.join()
    from faults import Data, step  # noqa: PLC0415  (they begin to use JAX)

    import lazynb
    from lazynb.running import executable_lookup
    from lazynb.running.hosts.host_agreement import HostGroup

    data, agree, group_of = Data(), HostGroup.agree, executable_lookup.group_of
    meetings: list[float] = []

    def timed(group: HostGroup, *args: object) -> object:
        start = time.perf_counter()
        try:
            return agree(group, *args)
        finally:
            meetings.append(time.perf_counter() - start)

    def block() -> list[float]:
        taken = []
        for _ in range(STEPS):
            start = time.perf_counter()
            time.sleep(WORK)
            with lazynb.lazy():
                float(step(data.w, data.x)[1])
            taken.append(time.perf_counter() - start)
        return taken

    block()  # compiles
    HostGroup.agree = timed
    steps: dict[bool, list[float]] = {True: [], False: []}
    for number in range(BLOCKS):
        agrees = number % 2 == 0
        executable_lookup.group_of = group_of if agrees else lambda devices: None
        steps[agrees] += block()
    ranks.report(
        meeting=statistics.median(meetings),
        agreeing=statistics.median(steps[True]),
        alone=statistics.median(steps[False]),
    )


def main(count: int) -> None:
    """Prints a row for each host."""
    for rank in ranks.run(Path(__file__), count, seconds=120):
        for told in rank.results:
            more = told["agreeing"] - told["alone"]
            print(
                f"host {rank.number} of {count}: a meeting {told['meeting'] * 1e3:.2f} ms (median), a step "
                f"{told['agreeing'] * 1e3:.1f} ms, without {told['alone'] * 1e3:.1f} ms: {more * 1e3:+.1f} ms"
            )
        if not rank.results:
            print(rank.text)


if __name__ == "__main__":
    if len(sys.argv) > 3:  # a rank: its number, their count, a port
        measure()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
