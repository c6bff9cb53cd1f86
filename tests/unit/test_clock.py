"""Board time: setting a clock does not change it, no reboot takes it back, and all processes of a boot agree on it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tiebreak
from tiebreak import Board, Fenced, Lost, clock
from tiebreak.clock import SECOND, micros
from tiebreak.engine.sqlite import opening

from ..cli.command import TB, Answer, Tb, changed_command, complaint

HOUR = 3600.0
DAY = 24 * HOUR
YEAR = 365 * 24 * HOUR
LONG = 90.0


class Machine:
    """A machine whose clocks a test moves, and which it can reboot."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wall = 1_800_000_000 * SECOND
        self.uptime = micros(50 * HOUR)
        self.boots = 1
        patch.setattr(clock, "wall", lambda: self.wall)
        patch.setattr(clock, "since_boot", lambda: self.uptime)
        patch.setattr(clock, "off_by", lambda: 0.0)
        patch.setattr(opening, "_boot_id", lambda: f"boot-{self.boots}")

    def wait(self, seconds: float) -> None:
        """Time passes, on every clock."""
        self.wall += micros(seconds)
        self.uptime += micros(seconds)

    def turn(self, seconds: float) -> None:
        """Somebody sets the wall clock, forward or back."""
        self.wall += micros(seconds)

    def reboot(self, down: float = 60.0) -> None:
        """Off for a while, during which only the wall clock goes on."""
        self.wall += micros(down)
        self.uptime = micros(2.5)
        self.boots += 1


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


class Boards:
    """Boards on one file, as agents open them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: list[Board] = []

    def __call__(self, agent: str = "alice") -> Board:
        self._open.append(tiebreak.open(self.path, agent=f"{agent}~1", project="demo"))
        return self._open[-1]

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


@pytest.fixture
def boards(tmp_path: Path) -> Iterator[Boards]:
    made = Boards(tmp_path / "board.db")
    yield made
    made.close()


def now(board: Board) -> int:
    return micros(board.upkeep.status().now)


# ── Somebody turns the wall clock ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("jump", [YEAR, HOUR, 1.0, -1.0, -HOUR, -YEAR])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_jump_of_the_wall_clock_neither_expires_nor_prolongs(
    machine: Machine, boards: Boards, jump: float, reopened: bool
) -> None:
    boards().tasks.claim(ref="work", lease=300.0)
    machine.turn(jump)
    if reopened:
        boards.close()
    bob = boards("bob")
    machine.wait(299.0)
    with pytest.raises(Lost) as refusal:
        bob.tasks.claim(ref="work")
    assert refusal.value.data["left"] == pytest.approx(1.0)
    machine.wait(1.0)
    assert bob.tasks.claim(ref="work").epoch == 2


def test_a_clock_that_is_turned_to_and_fro_leaves_no_trace(machine: Machine, boards: Boards) -> None:
    board = boards()
    begin = now(board)
    for jump in (YEAR, -2 * YEAR, HOUR, -1.0, YEAR):
        machine.turn(jump)
        machine.wait(10.0)
        boards(f"another-{jump:.0f}".replace("-", "m"))
    assert now(board) == now(boards("late")) == begin + micros(50.0)


def test_a_new_board_starts_at_the_time_of_the_wall(machine: Machine, boards: Boards) -> None:
    assert now(boards()) == machine.wall


# ── A reboot ─────────────────────────────────────────────────────────────────────────────────────────────


def test_after_a_reboot_time_goes_on_by_the_wall(machine: Machine, boards: Boards) -> None:
    boards().tasks.claim(ref="work", lease=300.0)
    boards.close()
    machine.reboot(down=100.0)
    bob = boards("bob")
    assert now(bob) == machine.wall
    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")
    machine.wait(199.0)
    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")
    machine.wait(1.0)
    assert bob.tasks.claim(ref="work").epoch == 2


def test_a_lease_that_ran_out_while_the_machine_was_off_is_over(machine: Machine, boards: Boards) -> None:
    mine = boards().tasks.claim(ref="work", lease=300.0)
    boards.close()
    machine.reboot(down=301.0)
    assert boards("bob").tasks.claim(ref="work").epoch == 2
    with pytest.raises(Fenced):
        boards().tasks.complete(ref="work", epoch=mine.epoch)


@pytest.mark.parametrize("wall", [0, 1, 1_700_000_000 * SECOND])
def test_a_wall_clock_that_lost_the_date_does_not_take_time_back(machine: Machine, boards: Boards, wall: int) -> None:
    alice = boards()
    machine.wait(500.0)
    alice.tasks.claim(ref="work", lease=300.0)
    seen = now(alice)
    boards.close()
    machine.reboot()
    machine.wall = wall
    bob = boards("bob")
    assert now(bob) == seen, "from the last moment that the board has seen"
    machine.wait(299.0)
    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")
    machine.wait(1.0)
    assert bob.tasks.claim(ref="work").epoch == 2


def test_a_date_that_comes_back_later_does_not_make_time_jump(machine: Machine, boards: Boards) -> None:
    boards().tasks.claim(ref="work", lease=300.0)
    boards.close()
    date = machine.wall
    machine.reboot()
    machine.wall = 0
    alice = boards()
    before = now(alice)
    machine.wall = date + micros(YEAR)  # the network told the time
    machine.wait(1.0)
    assert now(alice) == now(boards("bob")) == before + micros(1.0)
    machine.reboot()
    boards.close()
    assert now(boards()) == machine.wall


def test_a_refusal_that_is_logged_late_does_not_take_time_back(machine: Machine, boards: Boards) -> None:
    """A refusal is written after the change that carries it, with the time at which it happened."""
    alice, bob = boards(), boards("bob")
    alice.tasks.claim(ref="work")
    with pytest.raises(Lost):
        bob.tasks.claim(ref="work")
    machine.wait(500.0)
    bob.tasks.post(name="other")
    seen = now(bob)
    boards.close()
    machine.reboot()
    machine.wall = 0
    assert now(boards()) >= seen


def test_a_sign_of_life_is_a_moment_that_the_board_has_seen(machine: Machine, boards: Boards) -> None:
    """A heartbeat leaves no event, but the board remembers when it was."""
    alice = boards()
    alice.agents.announce()
    machine.wait(500.0)
    alice.agents.heartbeat()
    boards.close()
    machine.reboot()
    machine.wall = 0
    board = boards()
    (agent,) = board.agents.list()
    assert now(board) >= micros(agent.seen_at)


def test_pruning_does_not_make_the_board_forget_the_time(machine: Machine, boards: Boards) -> None:
    alice = boards()
    alice.tasks.post(name="work")
    machine.wait(500.0)
    alice.tasks.post(name="more work")
    while alice.upkeep.prune(older_than=0.0).more:
        pass
    seen = now(alice)
    boards.close()
    machine.reboot()
    machine.wall = 0
    assert now(boards()) >= seen


def test_many_reboots_without_a_clock_add_up(machine: Machine, boards: Boards) -> None:
    machine.wall = 0
    alice = boards()
    total = 0.0
    for _ in range(5):
        machine.wait(100.0)
        total += 100.0
        alice.tasks.post(name="work")
        boards.close()
        machine.reboot()
        machine.wall = 0
        alice = boards()
    assert now(alice) == micros(total)


STEPS = st.one_of(
    st.tuples(st.just("wait"), st.floats(0.0, 10 * HOUR)),
    st.tuples(st.just("turn"), st.floats(-YEAR, YEAR)),
    st.tuples(st.just("reboot"), st.floats(0.0, HOUR)),
    st.tuples(st.just("lose the date"), st.just(0.0)),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(STEPS, min_size=1, max_size=8))
def test_whatever_happens_to_a_machine_time_never_runs_backwards(steps: list[tuple[str, float]]) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        machine, boards = Machine(patch), Boards(Path(folder) / "board.db")
        board = boards()
        for what, seconds in steps:
            board.tasks.post(name="work")
            before = now(board)
            if what == "wait":
                machine.wait(seconds)
                assert now(board) == before + micros(seconds)
            elif what == "turn":
                machine.turn(seconds)
                assert now(board) == now(boards("bob")) == before
            else:
                boards.close()
                machine.reboot(seconds)
                if what == "lose the date":
                    machine.wall = 0
                board = boards()
                assert now(board) == max(before, machine.wall)
        boards.close()


# ── Several processes of one boot ────────────────────────────────────────────────────────────────────────

OFFSET = """
import sys, tiebreak
from tiebreak import clock
ahead = int(sys.argv[2])
real = clock.wall
clock.wall = lambda: real() + ahead
board = tiebreak.open(sys.argv[1], agent="x~1", project="demo")
clock.since_boot = lambda: 0
print(round(board.upkeep.status().now * 1_000_000))
"""


def test_two_processes_of_one_boot_agree_whatever_the_wall_says(tmp_path: Path) -> None:
    path = str(tmp_path / "board.db")
    offsets = [
        subprocess.run(
            [sys.executable, "-c", OFFSET, path, str(ahead)], capture_output=True, check=True, text=True, timeout=LONG
        ).stdout
        for ahead in (0, micros(YEAR), -micros(YEAR))
    ]
    assert len(set(offsets)) == 1


def test_threads_that_open_a_new_board_together_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "board.db"
    tiebreak.open(path, agent="x~1", project="demo").close()
    Machine(monkeypatch).reboot()
    seen: set[int] = set()
    barrier = threading.Barrier(8)
    walls = iter(range(100))
    monkeypatch.setattr(clock, "wall", lambda: micros(YEAR) * (60 + next(walls)))

    def come() -> None:
        barrier.wait()
        with tiebreak.open(path, agent="x~1", project="demo") as board:
            seen.add(now(board))

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert len(seen) == 1


def test_the_offset_is_stored_once_for_each_boot(machine: Machine, boards: Boards) -> None:
    def stored() -> list[Any]:
        connection = apsw.Connection(str(boards.path))
        try:
            return connection.execute("SELECT name, value FROM board WHERE name LIKE 'clock%' ORDER BY name").fetchall()
        finally:
            connection.close()

    boards()
    first = stored()
    assert first[0] == ("clock.boot", "boot-1")
    machine.wait(10.0)
    machine.turn(HOUR)
    boards("bob")
    assert stored() == first
    boards.close()
    machine.reboot()
    boards()
    assert [value for _, value in stored()] == ["boot-2", str(machine.wall - machine.uptime)]


# ── The real clocks ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(sys.platform != "linux", reason="CLOCK_BOOTTIME")
def test_time_counts_through_suspend() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    assert before <= clock.since_boot() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_boot_is_told_apart_by_the_kernels_own_name_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert opening._boot_id() == kernel

    def missing(*_: object) -> int:
        raise FileNotFoundError

    with monkeypatch.context() as patch:
        patch.setattr("os.open", missing)
        assert opening._boot_id() != ""


@pytest.mark.parametrize(
    ("seconds", "stored"),
    [(0.0, 0), (1.0, 1_000_000), (0.001, 1000), (1e-6, 1), (0.1 + 0.2, 300_000), (1.9999999, 2_000_000)],
)
def test_seconds_are_stored_as_whole_microseconds(seconds: float, stored: int) -> None:
    assert micros(seconds) == stored


# ── The machine's clock, not the process's ───────────────────────────────────────────────────────────────


def test_a_process_in_a_time_namespace_wins_no_live_claim(tmp_path: Path) -> None:
    tb = Tb(tmp_path)
    tb.ok("claim", "work", "--as", "alice")
    namespace = ["unshare", "--time", "--boottime", "86400", "--fork"]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.fail("this needs a time namespace, and making one is not allowed here: run the tests as root")
    answer = subprocess.run(
        [*namespace, TB, "claim", "work", "--as", "bob"],
        capture_output=True,
        text=True,
        env=tb.environment,
        check=False,
    )
    assert "the clock of this process is 1d00h ahead" in complaint(
        Answer(answer.returncode, answer.stdout, answer.stderr), 3
    )
    assert tb.json("tasks")[0]["holder"] == "alice"


@pytest.mark.parametrize("shift", [DAY, -DAY])
def test_a_process_with_a_faked_clock_is_refused(shift: float, tmp_path: Path) -> None:
    tb = Tb(tmp_path)
    tb.ok("claim", "work", "--as", "alice")
    faked = changed_command(
        tmp_path,
        "import time",
        "real = time.clock_gettime_ns",
        f"time.clock_gettime_ns = lambda clock: real(clock) + {int(shift * 1e9)}",
    )
    answer = subprocess.run(
        [faked, "claim", "work", "--as", "bob"], capture_output=True, text=True, env=tb.environment, check=False
    )
    complaint(Answer(answer.returncode, answer.stdout, answer.stderr), 3)
    assert tb.json("tasks")[0]["holder"] == "alice"


def test_a_container_that_shows_an_uptime_of_its_own_is_no_faked_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "since_boot", lambda: micros(500 * HOUR))
    assert clock.off_by() > HOUR
    real = os.stat

    def over_it(path: Any, *args: Any, **more: Any) -> Any:
        found = real(path, *args, **more)
        fields = list(found)
        fields[2] += path == "/proc/uptime"
        return os.stat_result(fields)

    monkeypatch.setattr(os, "stat", over_it)
    assert clock.off_by() == 0
