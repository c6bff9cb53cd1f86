"""Tasks, jobs and the board in a real browser: windows instead of long lists, filters in the address, actions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import apsw
import pytest
from playwright.sync_api import Browser, Page, expect

import tiebreak
from tests.daemons import PATIENCE, Serving, serving
from tiebreak import Board
from tiebreak.daemon.web.tasks import CARDS, ROWS
from tiebreak.daemon.web.timeline import MOST
from tiebreak.engine.sqlite.opening import allow_writing

from .conftest import Visitor

TASKS, EVENTS = 11_000, 100_000


def rows(page: Page) -> list[str]:
    return page.locator(".rows > li .first").all_text_contents()


def confirm(page: Page, name: str, *filled: str) -> None:
    """Press the button of an action, fill in what it asks for, and confirm it."""
    page.locator("main").get_by_role("button", name=name, exact=True).first.click()
    for field, text in zip(page.locator("#act textarea, #act input[type=text]").all(), filled, strict=False):
        field.fill(text)
    page.locator("#act .confirm").click()
    expect(page.locator("#act")).to_be_hidden()


# ── Filters ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def mixed(board: Board) -> None:
    board.tasks.post(name="Fix login", key="login", priority="urgent", tags=["bug"], queue="web")
    board.tasks.post(name="Fix logout", tags=["bug"])
    board.tasks.post(name="Review", after=["login"])
    board.tasks.post(name="Write docs", key="docs")
    board.tasks.claim(ref="docs")
    board.jobs.submit(command="true", name="Build")
    board.tasks.claim(ref="Deploy", create=True)
    board.tasks.fail(ref="Deploy", retry=False)


def test_filters_are_in_the_address_and_the_address_alone_shows_the_same(visitor: Visitor, mixed: None) -> None:
    page = visitor.sign_in(at="/tasks")
    page.get_by_label("In the name").fill("fix log")
    page.get_by_label("Priority").select_option("urgent")
    page.get_by_text("Kind, queue, tag, agent").click()
    page.get_by_label("Tag").fill("bug")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".rows > li")).to_have_count(1)
    assert "Fix login" in rows(page)[0]
    assert all(
        part in page.url for part in ("text=fix+log", "priority=urgent", "tag=bug", f"project={visitor.project}")
    )
    address = page.url
    page.get_by_role("link", name="Clear").click()
    expect(page.locator(".rows > li")).to_have_count(6)
    page.goto(address)
    assert [each.split(" ", 1)[1] for each in rows(page)] == ["Fix login"]
    expect(page.get_by_label("Tag")).to_have_value("bug")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("state=failed", ["Deploy"]),
        ("state=claimed&agent=ann", ["Write docs"]),
        ("kind=job", ["Build"]),
        ("queue=web", ["Fix login"]),
        ("state=blocked", ["Review"]),
    ],
)
def test_each_filter_finds_its_tasks(visitor: Visitor, mixed: None, query: str, names: list[str]) -> None:
    page = visitor.sign_in(at=f"/tasks?{query}")
    assert [each.split(" ", 1)[1] for each in rows(page)] == names


@pytest.mark.parametrize("query", ["state=asleep", "view=board&state=asleep", "view=cloud", "before=x", "colour=red"])
def test_a_filter_that_makes_no_sense_is_refused_in_words(daemon: Serving, query: str) -> None:
    reply = daemon.ask("GET", f"/tasks?{query}", headers={"Accept": "text/html"})
    assert reply.status == 400
    assert b"Traceback" not in reply.body


def test_the_board_has_a_column_for_each_state(visitor: Visitor, mixed: None) -> None:
    page = visitor.sign_in(at="/tasks?view=board")
    columns = {
        name: page.get_by_role("region", name=name, exact=True).locator("li").count()
        for name in ("Blocked", "Pending", "Claimed", "Done lately", "Failed")
    }
    assert columns == {"Blocked": 1, "Pending": 3, "Claimed": 1, "Done lately": 0, "Failed": 1}


@pytest.mark.parametrize(
    ("state", "title", "name"),
    [("failed", "Failed", "Deploy"), ("cancelled", "Cancelled", "Build"), ("claimed", "Claimed", "Write docs")],
)
def test_the_board_of_one_state_has_its_column_alone(
    visitor: Visitor, mixed: None, board: Board, state: str, title: str, name: str
) -> None:
    [job] = board.tasks.list(kind="job")
    board.tasks.cancel(job.number)
    page = visitor.sign_in(at=f"/tasks?view=board&state={state}")
    assert page.locator(".columns-of-tasks h2").all_text_contents() == [title]
    assert [each.split(" ", 1)[1] for each in rows(page)] == [name]


def test_the_graph_shows_what_comes_after_what(visitor: Visitor, mixed: None) -> None:
    page = visitor.sign_in(at="/tasks?view=graph")
    expect(page.locator(".task-graph a")).to_have_count(2)
    expect(page.locator(".task-graph path.edge")).to_have_count(1)
    page.locator(".task-graph a", has_text="Review").click()
    expect(page.locator("h1")).to_contain_text("Review")


# ── Acting ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_action_on_the_filtered_set_changes_these_and_no_others(visitor: Visitor, mixed: None, board: Board) -> None:
    page = visitor.sign_in("--write", at="/tasks?tag=bug")
    confirm(page, "Cancel all", "not needed")
    expect(page.locator(".rows .tag.cancelled")).to_have_count(2)
    left = {task.name: task.state for task in board.tasks.list()}
    assert left["Fix login"] == left["Fix logout"] == left["Review"] == "cancelled", "Review came after one of them"
    assert left["Write docs"] == "claimed"
    assert {each.agent for each in board.events.read(event="task.cancelled") if each.agent} == {"maria"}


def test_on_the_page_of_all_projects_a_set_is_changed_in_the_project_that_is_chosen(
    visitor: Visitor, mixed: None, board: Board, daemon: Serving
) -> None:
    with tiebreak.open(str(daemon.board), agent="bob~1", project=f"{board.project}-2") as other:
        other.tasks.post(name="Fix this, too", tags=["bug"])
        page = visitor.sign_in("--write")
        page.goto(f"{daemon.url}/tasks?tag=bug")
        cancel, until = page.get_by_role("button", name="Cancel all"), monotonic() + PATIENCE
        while f'"{board.project}"' not in str(cancel.get_attribute("data-action")) and monotonic() < until:
            page.reload()  # the daemon remembers the list of projects for a few seconds
        page.get_by_role("button", name="Cancel all").click()
        page.locator("#act .confirm").click()
        expect(page.locator("#act")).to_be_visible()  # none is chosen yet
        field = page.locator("#act [name=project]").first
        if field.evaluate("each => each.type") == "radio":
            page.locator(f"#act [name=project][value='{board.project}']").check()
        else:
            field.select_option(board.project)
        page.locator("#act .confirm").click()
        expect(page.locator("#act")).to_be_hidden()
        expect(page.locator("#told")).to_contain_text("2 of 2 tasks")
        assert {each.state for each in board.tasks.list(tag="bug")} == {"cancelled"}
        assert [each.state for each in other.tasks.list()] == ["pending"]


def test_without_a_filter_there_is_no_action_on_everything(visitor: Visitor, mixed: None) -> None:
    page = visitor.sign_in("--write", at="/tasks")
    expect(page.get_by_role("button", name="New task")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel all")).to_have_count(0)


def test_a_comment_and_a_claim_that_is_taken_away_show_on_the_tasks_page(visitor: Visitor, board: Board) -> None:
    task = board.tasks.claim(ref="login", create=True)
    page = visitor.sign_in("--write", at=f"/tasks/{task.number}")
    confirm(page, "Comment", "Look at the cookies first.")
    expect(page.get_by_role("region", name="Comments")).to_contain_text("Look at the cookies first.")
    confirm(page, "Take away", "ann is on holiday")
    expect(page.locator(".now-line")).to_contain_text("pending")
    expect(page.get_by_role("region", name="Attempts")).to_contain_text("lost it: taken away by maria")


def test_output_is_shown_only_to_those_who_may_act(visitor: Visitor, board: Board) -> None:
    board.jobs.submit(command="make", key="build")
    [job] = board.jobs.next()
    chunks = [{"start": 0, "stream": 1, "text": "hello <b>\x1b[31m\n"}]
    board.jobs.append(ref=str(job.number), epoch=job.epoch, chunks=chunks)
    reader = visitor.sign_in(at=f"/tasks/{job.number}")
    expect(reader.locator("#job-output")).to_contain_text("tb web --write")
    assert reader.evaluate("n => fetch(`/web/output?number=${n}`).then((a) => a.status)", job.number) == 401
    visitor.expected = ["401"]
    page = visitor.sign_in("--write", at=f"/tasks/{job.number}")
    expect(page.locator("#job-output pre")).to_have_text("hello <b>\\x1b[31m")


def test_a_queue_is_paused_and_resumed(visitor: Visitor, board: Board) -> None:
    board.tasks.post(name="a", queue="docs")
    page = visitor.sign_in("--write", at="/queues")
    row = page.locator("li.queue", has_text="docs")
    confirm(page, "Pause", "style guide first")
    expect(row).to_contain_text("style guide first")
    assert [(each.queue, each.reason) for each in board.queues.list()] == [("docs", "style guide first")]
    confirm(page, "Resume")
    expect(row).not_to_contain_text("paused")


def test_a_schedule_is_told_in_words_with_its_next_runs(visitor: Visitor, board: Board) -> None:
    board.schedules.add(name="reports", expression="0 9 * * MON-FRI", command="true", zone="Europe/Berlin")
    page = visitor.sign_in("--write", at="/queues")
    row = page.locator("li.schedule")
    expect(row).to_contain_text("At 09:00 on Monday through Friday (Europe/Berlin)")
    expect(row.locator(".coming li")).to_have_count(3)
    assert all("09:00" in each for each in row.locator(".coming time").all_text_contents())
    confirm(page, "Pause", "nobody reads them")
    expect(row).to_contain_text("nobody reads them")
    expect(row.locator(".coming li")).to_have_count(0)


def test_the_doctor_looks_only_when_asked(visitor: Visitor) -> None:
    page = visitor.sign_in(at="/board")
    expect(page.get_by_role("region", name="Who may ask")).to_contain_text("Without the token")
    expect(page.get_by_role("region", name="Daemons on this machine")).to_contain_text("this one")
    page.get_by_role("link", name="Check now").click()
    expect(page.get_by_role("region", name="Doctor")).to_contain_text("every page and index is sound")
    # A page fetches its own address again and again: the check must not be in it.
    assert page.url == f"{visitor.daemon.url}/board?project={visitor.project}"
    assert visitor.daemon.token not in page.content()


# ── A large board ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Serving]:
    """A daemon with many tasks and a long log."""
    with serving(tmp_path) as started:
        with tiebreak.open(str(started.board), agent="ann~1", project="large") as board:
            for begin in range(0, TASKS, 1000):
                board.tasks.import_(entries=[{"name": f"Task {begin + n}", "queue": f"q{n % 5}"} for n in range(1000)])
            for task in board.tasks.next(count=30):
                board.tasks.complete(ref=task.id)
            board.tasks.next(count=50)
        _lengthen_log(started.board)
        yield started


def _lengthen_log(path: Path) -> None:
    """Add old holds to the log. Nothing else has to be true about them than that they are many."""
    connection = apsw.Connection(str(path))
    allow_writing(connection)
    connection.set_busy_timeout(30_000)
    [[at]] = connection.execute("SELECT min(at) FROM events")
    sql = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO events (at, event, "
        "project, subject, name, kind, agent, epoch) SELECT ? + i, CASE i % 2 WHEN 1 THEN 'hold.taken' ELSE "
        "'hold.released' END, 'large', 'lock:' || (i / 2 % 300), 'lock:' || (i / 2 % 300), 'lock', 'ann~1', i FROM n"
    )
    connection.execute(sql, (EVENTS, at))
    connection.close()


def test_a_large_board_is_shown_in_windows(browser: Browser, large: Serving) -> None:
    context = browser.new_context()
    visitor = Visitor(context, large, "large")
    page = visitor.sign_in(at="/tasks")
    expect(page.locator(".rows > li")).to_have_count(ROWS)
    first = rows(page)
    page.get_by_role("link", name="Older").click()
    expect(page.locator(".rows > li")).to_have_count(ROWS)
    assert not set(first) & set(rows(page))
    page.get_by_role("link", name="Older").click()
    expect(page.locator(".rows > li")).to_have_count(ROWS)
    page.get_by_role("link", name="Newest").click()
    assert rows(page) == first

    visitor.go(page, "/")
    expect(page.locator("[data-key=ready] dd")).to_have_text("10,000+")  # the board does not count further

    visitor.go(page, "/tasks?view=board")
    for name in ("Pending", "Claimed", "Done lately"):
        assert page.get_by_role("region", name=name, exact=True).locator("li").count() == CARDS

    visitor.go(page, "/timeline")
    expect(page.locator("svg.timeline .names text")).to_have_count(40)
    found = json.loads(page.locator("[data-name=timeline]").text_content() or "")
    assert len(found["spans"]) + len(found["marks"]) <= MOST + 100, "a window of events, and what is live"
    page.get_by_role("link", name="Older").click()
    page.wait_for_url(f"**before={found['older']}*")
    expect(page.locator("svg.timeline .names text")).to_have_count(40)
    context.close()
    assert visitor.unexpected() == []
    _no_page_is_large(large)


def _no_page_is_large(large: Serving) -> None:
    for path in ("/timeline", "/tasks", "/tasks?view=board", "/tasks?view=graph", "/tasks/77", "/queues", "/board"):
        began = monotonic()
        reply = large.ask("GET", f"{path}{'&' if '?' in path else '?'}project=large", headers={"Accept": "text/html"})
        print(f"{path}: {len(reply.body) / 1000:.0f} kB in {(monotonic() - began) * 1000:.0f} ms")
        assert reply.status == 200
        assert len(reply.body) < 250_000, path
