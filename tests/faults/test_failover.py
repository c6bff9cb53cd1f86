"""The primary dies, and its standby takes over: what a synchronous one keeps, and what an asynchronous one may lose."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tiebreak
from tests.cli.command import Tb, until
from tests.races import checkers
from tests.races.checkers import Broken
from tests.races.scenarios import open_board
from tiebreak import Event, Fenced

from .standby import pair
from .toil import judge, toiling

PATIENCE = 90.0


@pytest.mark.usefixtures("patient")
def test_a_synchronous_standby_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    with pair(synchronous=True) as servers, toiling(servers.address, tmp_path) as toil:
        heard: list[Event] = []
        waiter = threading.Thread(target=listen, args=(servers.address, heard), daemon=True)
        waiter.start()
        toil.go_on(200)
        servers.kill_primary()
        servers.standby.promote()
        toil.go_on(200)
        diary = toil.stop()
        with open_board(servers.address) as board:
            board.tasks.post(name="the end")
            waiter.join(PATIENCE)
            assert heard == checkers.read_log(board), "a waiter missed something or heard it twice"
        judge(servers.address, diary)
        assert Tb(tmp_path)("--board", servers.address, "claim", "anew").code == 0


def listen(address: str, heard: list[Event]) -> None:
    """Hear everything until the end."""
    with open_board(address, "listener") as board:
        for event in board.follow(after=0, timeout=250.0, project=None):
            heard.append(event)
            if event.name == "the end":
                return


@pytest.mark.usefixtures("patient")
def test_what_an_asynchronous_standby_never_got_is_lost_but_the_board_agrees_with_itself(tmp_path: Path) -> None:
    """The price of not waiting for the standby: acknowledged writes, and with them epochs, may be forgotten.

    What the new primary has is whole: its epochs have no gap and no repeat among themselves, and whoever was granted
    something that it never heard of is stopped by the fence.
    """
    with pair(synchronous=False) as servers, open_board(servers.address, "early") as early:
        first = early.tasks.claim(ref="t")
        early.tasks.release(ref="t", epoch=first.epoch)
        until(servers.caught_up, "the standby has it all")
        servers.cut_off()
        second = early.tasks.claim(ref="t")
        lost = early.tasks.post(name="never seen again")
        servers.kill_primary()
        servers.standby.promote()
        with open_board(servers.address, "later") as later:
            with pytest.raises(tiebreak.NotFound):
                later.tasks.get(ref=lost.id)
            again = later.tasks.claim(ref="t")
            assert (first.epoch, second.epoch, again.epoch) == (1, 2, 2), "an epoch that was forgotten is given again"
            with pytest.raises(Fenced):
                early.tasks.complete(ref="t", epoch=second.epoch, result="early")
            later.tasks.complete(ref="t", epoch=again.epoch, result="later")
            events = checkers.read_log(later)
            checkers.epochs_count_grants(checkers.grants_in(events))
            checkers.one_holder_at_a_time(events)
            assert later.tasks.get(ref="t").result == "later"


def test_the_judge_sees_what_an_asynchronous_standby_loses(tmp_path: Path) -> None:
    """The same writers and the same judge as above: if nothing could be lost here, they would prove nothing there."""
    with pair(synchronous=False) as servers, toiling(servers.address, tmp_path) as toil:
        toil.go_on(50)
        servers.cut_off()
        toil.go_on(50)
        servers.kill_primary()
        diary = toil.diary()
        servers.standby.promote()
        with open_board(servers.address) as board:
            checkers.nothing_issued_twice(checkers.grants_in(checkers.read_log(board)))
        with pytest.raises(Broken, match="acknowledged and lost"):
            judge(servers.address, diary)
