"""What notes link to, and what they must not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.engines import Place
from tiebreak import Lost

from .vaults import rebuilt, snapshot, write_vault


def notes(folder: Path) -> dict[str, str]:
    return {name: note.decode() for name, note in snapshot(folder).generated.items()}


def test_a_bug_links_to_its_fix_and_the_fix_to_its_acknowledgement(place: Place, tmp_path: Path) -> None:
    ada = place.open("ada")
    ada.tasks.post("login fails", kind="bug")
    ada.tasks.post("repair login", about=1, after=[])
    ada.tasks.claim(2)
    ada.tasks.complete(2, ack=True, ack_name="login works")
    write_vault(ada, tmp_path / "vault")
    found = notes(tmp_path / "vault")
    assert "**See also:** task [[Tasks/2 repair login|#2 repair login]]" in found["Tasks/1 login fails.md"]
    assert "**About:** [[Tasks/1 login fails|#1 login fails]]" in found["Tasks/2 repair login.md"]
    ack = "**See also:** ack [[Acknowledgements/3 login works|#3 login works]]"
    assert ack in found["Tasks/2 repair login.md"]
    assert "**About:** [[Tasks/2 repair login|" in found["Acknowledgements/3 login works.md"]
    assert "## Acknowledged\n\n- [[Acknowledgements/3 login works|" in found["Board.md"]


def test_a_claimer_links_to_each_task_that_it_abandoned(place: Place, tmp_path: Path) -> None:
    ada, ben = place.open("ada"), place.open("ben")
    for name in ("given back", "run out", "taken away", "cancelled", "finished"):
        ada.tasks.post(name)
    ben.tasks.claim(1)
    ben.tasks.release(1)
    ben.tasks.claim(2, lease=1)
    place.advance(2)
    ada.tasks.sweep()
    for number in (3, 4, 5):
        ben.tasks.claim(number)
    ada.tasks.break_(3, reason="needed")
    ada.tasks.cancel(4)
    ben.tasks.complete(5)
    write_vault(ada, tmp_path / "vault")
    abandoned, _, finished = notes(tmp_path / "vault")["Agents/ben.md"].partition("## Abandoned")[2].partition("\n## ")
    assert [line.partition("]]: ")[2].partition(",")[0] for line in abandoned.strip().splitlines()] == [
        *("taken away", "the lease ran out", "given back")
    ]
    assert "#4 cancelled]]: cancelled while it worked" in finished
    assert "#5 finished]]: completed" in finished
    assert "abandoned by [[Agents/ben|ben]] (epoch 1)" in notes(tmp_path / "vault")["Tasks/2 run out.md"]


def test_a_task_that_is_renamed_is_renamed_in_every_note_that_shows_it(place: Place, tmp_path: Path) -> None:
    ada, ben = place.open("ada"), place.open("ben")
    ada.tasks.post("old name")
    ada.tasks.post("part", parent=1)
    ada.tasks.post("later", after=[1])
    ada.tasks.post("decided", kind="decision", about=1)
    ben.tasks.claim(1)
    write_vault(ada, tmp_path / "vault")
    ada.tasks.edit(1, name="new name")
    write_vault(ada, tmp_path / "vault")
    found = notes(tmp_path / "vault")
    assert [name for name, note in found.items() if "old name" in note] == []
    linked = {name for name, note in found.items() if "[[Tasks/1 new name|#1 new name]]" in note}
    assert linked == {
        *("Agents/ben.md", "Board.md", "Decisions/4 decided.md"),
        *("Tasks/2 part.md", "Tasks/3 later.md"),
    }


def test_a_note_does_not_change_by_time_alone(place: Place, tmp_path: Path) -> None:
    ada = place.open("ada")
    ada.tasks.post("work")
    ada.tasks.claim(1, lease=10)
    write_vault(ada, tmp_path / "vault")
    place.advance(3600)
    assert ada.tasks.get(1).state == "pending"  # to whoever wants it; no event says so yet
    assert rebuilt(ada, tmp_path / "anew").generated == snapshot(tmp_path / "vault").generated
    assert 'holder: "[[Agents/ada|ada]]"' in notes(tmp_path / "anew")["Tasks/1 work.md"]


def test_other_projects_are_in_a_vault_only_if_it_has_all(place: Place, tmp_path: Path) -> None:
    here, there = place.open("ada"), place.open("ada", project="other")
    here.tasks.post("here")
    there.tasks.post("there")
    there.messages.send("hello there")
    write_vault(here, tmp_path / "one")
    write_vault(here, tmp_path / "all", project=None)
    assert sorted(notes(tmp_path / "one")) == ["Agents/ada.md", "Board.md", "Tasks/1 here.md"]
    agents = [name for name in notes(tmp_path / "all") if name.startswith("Agents/")]
    assert len(agents) == 2
    titles = {note.partition("\n# ")[2].partition("\n")[0] for name, note in notes(tmp_path / "all").items()}
    assert {"ada in demo", "ada in other"} <= titles, "the names of the files do not tell which is which"
    assert {"Tasks/1 here.md", "Tasks/2 there.md", "Messages/1 hello there.md"} < set(notes(tmp_path / "all"))


def test_an_agent_that_has_left_does_nothing_any_more(place: Place, tmp_path: Path) -> None:
    ada, ben = place.open("ada"), place.open("ben")
    for board in (ada, ben):
        board.agents.announce(doing="the login")
    ben.agents.leave()
    write_vault(ada, tmp_path / "vault")
    found = notes(tmp_path / "vault")
    assert "**Doing:** the login" in found["Agents/ada.md"]
    assert "Doing" not in found["Agents/ben.md"]
    ben.agents.announce(doing="the logout")
    write_vault(ada, tmp_path / "vault")
    assert "**Doing:** the logout" in notes(tmp_path / "vault")["Agents/ben.md"]


def test_the_reason_of_an_earlier_attempt_is_no_reason_of_the_present_one(place: Place, tmp_path: Path) -> None:
    ada, ben = place.open("ada"), place.open("ben")
    ada.tasks.post("work")
    ada.tasks.claim(1, lease=1)
    place.advance(2)
    ben.tasks.sweep()
    write_vault(ada, tmp_path / "vault")
    assert "**Reason:** " in notes(tmp_path / "vault")["Tasks/1 work.md"]
    ben.tasks.claim(1)
    write_vault(ada, tmp_path / "vault")
    assert "**Reason:** " not in notes(tmp_path / "vault")["Tasks/1 work.md"]


def test_a_refusal_that_was_written_late_stands_where_it_happened(place: Place, tmp_path: Path) -> None:
    ada, ben = place.open("ada"), place.open("ben")
    ada.tasks.post("work")
    ada.tasks.claim(1)
    place.advance(60)
    with pytest.raises(Lost):
        ben.tasks.claim(1)
    place.advance(60)
    ada.tasks.complete(1)
    ben.tasks.post("another change")
    write_vault(ada, tmp_path / "vault")
    history = notes(tmp_path / "vault")["Tasks/1 work.md"].partition("## History\n\n")[2].strip().splitlines()
    assert [line.split("[[")[0].split(maxsplit=3)[3].strip() for line in history if line.startswith("-")] == [
        *("posted by", "claimed by", "refused to", "completed by")
    ]
