"""`python -m tiebreak.program.daemon_vault PARENT … vault …`: the writer of a daemon's vault.

It runs `tb vault …`, and it stops when the daemon, its parent process, is killed.
"""

from __future__ import annotations

import signal
import sys

from tiebreak.process_tree import die_with_parent
from tiebreak.program import launch

if __name__ == "__main__":
    die_with_parent(signal.SIGTERM, int(sys.argv.pop(1)))
    launch()
