"""python -m tests.endurance --minutes 10 --seed 1"""

import sys

from .campaign import main

sys.exit(main())
