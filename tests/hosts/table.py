"""The fault table: what each host says and how long it takes. ``python tests/hosts/table.py [processes]``"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import ranks
from test_hosts import DIFFERENT, LEGAL

FAULTS = Path(__file__).parent / "faults.py"
TOGETHER = (*DIFFERENT, "cannot_make", *LEGAL)
ALONE = ("raises", "exits", "stops", "killed", "sleeps")


def main(count: int) -> None:
    """Prints a row for each case and host."""
    for cases in (TOGETHER, *((case,) for case in ALONE)):
        for rank in ranks.run(FAULTS, count, *cases, seconds=60):
            end = "killed after 60 s" if rank.status is None else f"status {rank.status}"
            print(f"-- host {rank.number} of {count}: {end} after {rank.seconds:.1f} s")
            for told in rank.results:
                if told["case"] != "same" and "error" in told:
                    print(
                        f"{told['case']:18}{told['seconds']:6.2f} s  {told['said'] if told['error'] else 'runs'}"
                    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
