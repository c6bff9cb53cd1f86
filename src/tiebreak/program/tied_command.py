"""`python -m tiebreak.program.tied_command PARENT …`: runs `tb …` until it ends, or until its parent process dies.

It is for commands that belong to another process, such as the writer of a daemon's vault.
"""

from __future__ import annotations

import signal
import sys

from tiebreak.process_tree import die_with_parent
from tiebreak.program import launch

if __name__ == "__main__":
    die_with_parent(signal.SIGTERM, int(sys.argv.pop(1)))
    launch()
