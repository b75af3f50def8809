"""Makes `import oracle` work however pytest was started."""

import os
import sys
from pathlib import Path

# An executable left on disk by an older lazynb would be what is tested.
os.environ.setdefault("LAZYNB_PERSISTENT_CACHE", "0")

TESTS = str(Path(__file__).parent.parent)
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)
