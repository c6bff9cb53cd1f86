"""`python -m tests.guard.walk.shrink SEED STEPS [WITHOUT…]`: repeat a walk that fails, and shorten it.

Steps are left out as long as the walk still ends with the same fault. WITHOUT names kinds of steps to leave out.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from tiebreak.engine import connect

from .play import Fault, Walk
from .steps import Step, script


def main() -> None:
    """Print the fault of a walk, then that of the shortest walk that still has it."""
    seed, count, without = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    steps = [step for step in script(seed, count) if step.kind not in without]
    fault, number = outcome(steps)
    print(fault or "no fault", flush=True)
    if fault:
        shortest = shorten([step for step in steps if step.number <= number], kind_of(fault))
        print(f"\n{len(shortest)} steps do it:\n{outcome(shortest)[0]}")


def outcome(steps: list[Step]) -> tuple[str, int]:
    """The fault of a walk and the number of the step in which it was found; "" and 0 for none."""
    folder = Path(tempfile.mkdtemp(prefix="walk-"))
    for name in [name for name in os.environ if name.startswith(("TIEBREAK", "CLAUDE", "CODEX", "GEMINI", "GIT_"))]:
        del os.environ[name]
    os.environ |= {
        "HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "state"),
        "TIEBREAK_BOARD": str(folder / "board.db"),
    }
    engine = connect(str(folder / "board.db"))
    walk = Walk(folder, engine)
    try:
        walk.take(steps)
    except Fault as fault:
        return str(fault), walk.faults[-1][0].number
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    return "", 0


def kind_of(fault: str) -> str:
    """The first sentence of a fault without its numbers and names."""
    sentence = fault.strip().splitlines()[1].partition(":")[0]
    return re.sub(r"[0-9a-f]{8}|\d+|\S*\.txt|ann|ben|cat", "…", sentence)


def shorten(steps: list[Step], kind: str) -> list[Step]:
    """Leave out ever smaller parts, from the end to the beginning; the last step stays."""
    size = max(1, (len(steps) - 1) // 2)
    while True:
        at = len(steps) - 1
        while at > 0:
            fewer = steps[: max(0, at - size)] + steps[at:]
            fault = outcome(fewer)[0]
            if fault and kind_of(fault) == kind:
                steps = fewer
                print(f"{len(steps)} steps", file=sys.stderr, flush=True)
            at = max(0, at - size)
        if size == 1:
            return steps
        size //= 2


if __name__ == "__main__":
    main()
