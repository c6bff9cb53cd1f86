"""`python -m tiebreak.program.daemon_worker PARENT work …`: one worker of a daemon.

It runs `tb work …`, and it stops when the daemon, its parent process, is killed.
"""

from __future__ import annotations

import sys

from tiebreak.process_tree import die_with_parent
from tiebreak.program import launch
from tiebreak.worker.keeper import ABANDONED

if __name__ == "__main__":
    die_with_parent(ABANDONED, int(sys.argv.pop(1)))
    launch()
