"""Pictures in a real browser: they show what the log says, to the mouse, to the keyboard and to screen readers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

import tiebreak
from tests.daemons import PATIENCE, Serving, serving
from tiebreak import Board, Fenced, Lost
from tiebreak.engine.sqlite.opening import allow_writing

from .conftest import Visitor

HOSTILE = '<img src=x onerror="alert(1)">"\'><script>alert(2)</script>'


MODULE = "document.querySelector('script[src*=shell]').src.replace('shell.js', '%s')"
MANY = f"""async () => {{
  const {{ timeline }} = await import({MODULE % "timeline_drawing.js"});
  const many = (count, make) => Array.from({{ length: count }}, (_, n) => make(n));
  const lanes = many(200, (n) => (
    {{ project: "p", subject: `file:${{n}}`, slot: 0, name: `file:${{n}}`, kind: "file", number: 0,
      title: `${{n}}` }}));
  const spans = many(2000, (n) => (
    {{ lane: n % 200, agent: `a${{n % 20}}`, epoch: 1 + Math.floor(n / 200), from: 1e9 + Math.floor(n / 200) * 60,
      to: 1e9 + Math.floor(n / 200) * 60 + 50, until: 0, how: "released", said: "", renewed: 0, note: "" }}));
  const el = document.body.appendChild(document.createElement("div"));
  timeline(el, {{ now: 1e9 + 700, end: 1e9 + 700, older: null, newest: 1, legend: [], lanes, spans, marks: [] }});
  el.querySelector(".more").click();
  const began = performance.now();
  for (let n = 0; n < 10; n++) el.querySelector("[aria-label='Show all']").click();
  return [el.querySelectorAll(".names text").length, (performance.now() - began) / 10];
}}"""
"""Draws 2,000 grants: how many were drawn, and in how many milliseconds."""
SPARKS = f"""async (all) => {{
  const {{ draw, sparkline }} = await import({MODULE % "drawing.js"});
  return all.map((values) => {{
    const svg = draw("svg", {{ width: 100, height: 20 }});
    sparkline(svg, values);
    return [...svg.querySelectorAll("path.line")].map((each) => each.getAttribute("d"));
  }});
}}"""
"""Draws several rows of values: the lines of each."""
DOTS = f"""async (values) => {{
  const {{ draw, sparkline }} = await import({MODULE % "drawing.js"});
  const svg = draw("svg", {{ width: 100, height: 20 }});
  sparkline(svg, values);
  return [...svg.querySelectorAll("circle")].map((each) => Number(each.getAttribute("cx")));
}}"""
"""Draws values: where the dots are."""


def another(daemon: Serving, project: str, name: str) -> Board:
    return tiebreak.open(str(daemon.board), agent=f"{name}~1", project=project)


@pytest.fixture
def fenced(daemon: Serving, board: Board, project: str) -> int:
    """Ann is paused past her lease, Bob gets the next epoch, and Ann's late write is refused. The task's number."""
    task = board.tasks.post(name="Fix the login bug", key="login")
    with another(daemon, project, "bob") as bob:  # opened before the claim: opening may take longer than the lease
        board.tasks.claim(ref="login", lease=0.5)
        with pytest.raises(Lost):
            bob.tasks.claim(ref="login")
        bob.win("login", wait="20s", lease=600)
        with pytest.raises(Fenced):
            board.tasks.complete(ref="login", epoch=1)
        bob.tasks.extend(ref="login", lease=900)
        bob.holds.take(resources=["file:src/auth.py"])
    board.tasks.post(name="a change, with which the refusals are written")
    return task.number


@pytest.fixture
def busy(browser: Browser, project: str, tmp_path: Path) -> Iterator[Visitor]:
    """A person with a browser, and a daemon of their own: what happens on a busy board is no matter of other tests."""
    with serving(tmp_path) as daemon, closing(browser.new_context()) as context:
        made = Visitor(context, daemon, project)
        yield made
        assert made.unexpected() == []


def fill(daemon: Serving, count: int, event: str = "task.posted", project: str = "busy", subject: str = "none") -> None:
    """Write so many events into the log, as a very busy board does."""
    with closing(apsw.Connection(str(daemon.board))) as connection:
        connection.set_busy_timeout(int(PATIENCE * 1000))
        allow_writing(connection)
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO events (at, event, project, subject, name, kind, agent, epoch) "
            "SELECT (SELECT max(at) FROM events) + 1, ?, ?, ?, 'noise', 'task', 'bob~1', 1 FROM n",
            (count, event, project, subject),
        )


def value(page: Page, figure: str) -> Any:
    """The words beside a sparkline of the only queue."""
    return page.locator(".queue .figure", has_text=figure).locator(".value")


def drawn(page: Page, what: str) -> Any:
    return page.locator(f"svg.timeline {what}")


def test_a_late_write_is_explained_by_the_picture_alone(visitor: Visitor, fenced: int) -> None:
    page = visitor.sign_in(at="/timeline")
    expect(drawn(page, ".past")).to_have_count(1)
    expect(drawn(page, "rect.span.expired")).to_have_count(1)
    expect(drawn(page, "path.ghost")).to_have_count(1)
    expect(drawn(page, "text.why")).to_have_text("too late: writes epoch 1, but it is 2 now")
    expect(drawn(page, ".refused")).to_have_count(1)
    words = drawn(page, "[data-key]").evaluate_all("all => all.map((each) => each.getAttribute('aria-label'))")
    assert any("ann had #" in each and "epoch 1" in each and "lost it when the lease ran out" in each for each in words)
    assert any("bob had #" in each and "epoch 2" in each and "renewed once" in each for each in words)
    late = "ann wrote too late, was refused and changed nothing: #"
    assert any(each.startswith(late) and "epoch 1" in each and "it was claimed by then" in each for each in words)
    assert page.locator(".legend li").all_text_contents() == [
        "was refused: somebody else had it",
        "the lease ran out; hatched: nobody had noticed yet",
        "a late write with an old epoch: refused, nothing changed",
    ]


def test_the_next_grant_begins_where_the_lapse_was_written(visitor: Visitor, fenced: int) -> None:
    page = visitor.sign_in(at="/timeline")
    place = "e => ['x', 'width', 'y'].map((name) => Number(e.getAttribute(name)))"
    old, new = (drawn(page, f"rect.span.{how}").first.evaluate(place) for how in ("expired", "open"))
    assert old[0] + old[1] <= new[0] + 0.001, "two holders at once are never drawn"
    assert old[2] == new[2], "both are in the lane of the task"


def test_every_grant_can_be_reached_by_keyboard(visitor: Visitor, fenced: int) -> None:
    page = visitor.sign_in(at="/timeline")
    expect(drawn(page, "[data-key][tabindex='0']")).to_have_count(1)
    drawn(page, "[data-key][tabindex='0']").focus()
    seen = {page.locator(".chosen").text_content()}
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
        seen.add(page.locator(".chosen").text_content())
    assert len(seen) >= 5, seen
    expect(drawn(page, "[data-key][tabindex='0']")).to_be_focused()


@pytest.fixture
def whole(board: Board) -> str:
    """Where a grant is drawn that lasts from before everything else until now: no zoom leaves it out of the picture."""
    board.holds.take(resources=["lock:whole"], lease=600)
    return "[aria-label*='lock:whole'] rect.span"


def test_zooming_and_moving_by_keys_buttons_wheel_and_mouse(visitor: Visitor, whole: str, fenced: int) -> None:
    page = visitor.sign_in(at="/timeline")

    def wide() -> float:
        return float(drawn(page, whole).evaluate("e => e.getBBox().width"))

    def left() -> float:
        return float(drawn(page, whole).evaluate("e => e.getBBox().x"))

    def after(act: Any, value: Any, holds: str) -> float:
        before = value()
        act()
        name = "width" if value is wide else "x"
        found = f'document.querySelector("{whole}")?.getBBox().{name}'  # none while it is drawn anew
        page.wait_for_function(f"b => {{ const n = {found}; return {holds}; }}", arg=before)
        return float(value())

    all_of_it = wide()
    after(lambda: page.get_by_role("button", name="Zoom in").click(), wide, "n > b * 1.5")
    after(lambda: page.get_by_role("button", name="Zoom out").click(), wide, "n < b / 1.5")
    drawn(page, "[data-key][tabindex='0']").focus()
    after(lambda: page.keyboard.press("+"), wide, "n > b * 1.5")
    after(lambda: page.keyboard.press("Shift+ArrowLeft"), left, "n > b")
    page.get_by_role("button", name="Show all").click()
    assert wide() == pytest.approx(all_of_it, rel=0.01)
    box = drawn(page, whole).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 8)
    page.keyboard.down("Control")
    after(lambda: page.mouse.wheel(0, -300), wide, "n > b * 1.5")
    page.keyboard.up("Control")
    page.mouse.down()
    after(lambda: page.mouse.move(box["x"] + box["width"] / 2 + 80, box["y"] + 8, steps=4), left, "n > b + 40")
    page.mouse.up()


def test_the_same_by_agents(visitor: Visitor, fenced: int) -> None:
    page = visitor.sign_in(at="/timeline")
    page.get_by_role("button", name="Lanes for agents").click()
    names = page.locator("svg.timeline .names text > title")
    assert sorted(names.evaluate_all("all => all.map((each) => each.textContent)")) == ["ann", "bob"]
    expect(drawn(page, "path.ghost")).to_have_count(1)


def test_one_name_in_two_projects_is_two_agents_and_each_has_its_page(
    visitor: Visitor, daemon: Serving, board: Board, project: str
) -> None:
    projects = [f"{project}-{n}" for n in (1, 2)]
    for each in projects:
        with another(daemon, each, "zoe") as zoe:
            zoe.agents.announce()
            zoe.holds.take(resources=["file:src/pay.py"])
    page = visitor.sign_in()
    page.goto(f"{daemon.url}/timeline")
    page.get_by_role("button", name="Lanes for agents").click()
    if page.locator("button.more").is_visible():  # other tests have agents on this daemon, too
        page.locator("button.more").click()
    lanes = [page.locator("svg.timeline .names a", has_text=f"zoe · {each}") for each in projects]
    for lane, of in zip(lanes, projects, strict=True):
        expect(lane).to_have_count(1)
        answer = page.request.get(f"{daemon.url}{lane.get_attribute('href')}")
        assert answer.ok, (of, answer.status)
        assert f"project={of}" in (lane.get_attribute("href") or "")


def test_the_picture_and_its_list_use_the_same_words_and_say_who_took_a_hold_away(
    visitor: Visitor, daemon: Serving, board: Board, project: str
) -> None:
    board.holds.take(resources=["file:src/pay.py", "lock:deploy", "pool:gpu"], slots=2)
    with another(daemon, project, "bob") as bob:
        with pytest.raises(Lost):
            bob.holds.take(resources=["lock:deploy"])
        bob.holds.break_(resource="file:src/pay.py", reason="stuck")
        bob.holds.take(resources=["file:src/pay.py"])
    page = visitor.sign_in(at="/timeline")
    labels = drawn(page, "[data-key]").evaluate_all("all => all.map((each) => each.getAttribute('aria-label'))")
    page.locator(".list summary").click()
    lines = [" ".join(each.split()) for each in page.locator(".list li").all_inner_texts()]
    assert [each for each in lines if "still has it" in each and each.endswith(" ago")] == [], "it is not over"
    for agent, said, thing in (
        ("ann", "lost it: taken away by bob", "src/pay.py"),
        ("bob", "still has it", "src/pay.py"),
        ("ann", "still has it", "pool:gpu slot 0"),
        ("bob", "was refused", "lock:deploy"),
    ):
        assert any(each.startswith(f"{agent} {said}: {thing} ") for each in lines), (said, lines)
        told = [each for each in labels if each.startswith(f"{agent} ") and said in each and f" {thing}" in each]
        assert told, (said, labels)
    assert any(each.endswith(", lost it: taken away by bob: stuck.") for each in labels), labels
    assert page.locator(".legend li").all_text_contents() == ["was refused: somebody else had it", "taken away"]
    assert not [each for each in labels if "file:" in each]
    names = drawn(page, ".names text > title").evaluate_all("all => all.map((each) => each.textContent)")
    assert sorted(names) == ["lock:deploy", "pool:gpu slot 0", "src/pay.py"]


def test_the_first_grant_of_a_project_ends_the_sentence_that_there_is_none(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in(at="/timeline")
    expect(page.locator(".chosen")).to_have_text("Nobody has held anything yet.")
    board.holds.take(resources=["lock:deploy"])
    expect(drawn(page, "rect.span")).to_have_count(1)
    expect(page.locator(".chosen")).not_to_have_text("Nobody has held anything yet.")


def test_a_quiet_project_on_a_busy_board_is_not_said_to_have_no_past(busy: Visitor) -> None:
    with another(busy.daemon, busy.project, "ann") as ann:
        ann.agents.announce(doing="once")
        ann.holds.take(resources=["lock:once"])
        ann.holds.release(resources=["lock:once"])
    fill(busy.daemon, 20_001)
    page = busy.sign_in(at="/timeline")
    nobody = "Nobody held anything in this project during the latest 20,000 events of the board. There are older ones."
    expect(page.locator(".chosen")).to_have_text(nobody)
    page.locator(".list summary").click()
    expect(page.locator(".list .none")).to_have_text(nobody)
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_label("ann had lock:once as epoch 1")).to_have_count(1)
    busy.go(page, "/agent?name=ann")
    told = page.locator("section[aria-labelledby=latest]")
    expect(told).to_contain_text("None of the latest 20,000 events of the board is about this.")


def test_a_new_grant_appears_and_the_view_stays(visitor: Visitor, fenced: int, board: Board) -> None:
    page = visitor.sign_in(at="/timeline")
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Lanes for agents").click()
    labels = "all => all.map((each) => each.textContent).join()"
    expect(drawn(page, ".axis text").first).to_be_visible()
    before = drawn(page, ".axis text").evaluate_all(labels)
    board.holds.take(resources=["lock:deploy"])
    page.wait_for_function("() => document.querySelector('[data-name=timeline]').textContent.includes('lock:deploy')")
    assert drawn(page, ".axis text").evaluate_all(labels) == before
    expect(page.get_by_role("button", name="Lanes for agents")).to_have_attribute("aria-pressed", "true")


def test_a_picture_of_the_past_ends_with_its_window_and_says_how_grants_ended(
    visitor: Visitor, fenced: int, board: Board, project: str
) -> None:
    board.holds.take(resources=["lock:deploy"], lease=600)
    board.holds.take(resources=["lock:data"], lease=600)
    before = board.events.last() + 1
    board.holds.release(resources=["lock:deploy"])
    board.holds.take(resources=["lock:later"])
    page = visitor.sign_in(at=f"/timeline?before={before}")
    expect(page.get_by_label("ann had lock:deploy as epoch 1")).to_have_attribute(
        "aria-label", re.compile("gave it back")
    )
    expect(page.get_by_label("ann had lock:data as epoch 1")).to_have_attribute(
        "aria-label", re.compile("still has it")
    )
    expect(page.get_by_label("lock:later")).to_have_count(0)


def test_many_lanes_are_drawn_only_when_asked_for(visitor: Visitor, board: Board) -> None:
    board.holds.take(resources=[f"lock:l{n}" for n in range(60)])
    page = visitor.sign_in(at="/timeline")
    expect(drawn(page, ".names text")).to_have_count(40)
    page.get_by_role("button", name="Show 20 more").click()
    expect(drawn(page, ".names text")).to_have_count(60)
    assert drawn(page, "rect.span").count() < 60, "what nobody can see is not drawn"
    page.mouse.wheel(0, 5000)
    last = page.get_by_label("ann had lock:l9 as epoch 1")
    expect(last).to_be_visible()


def test_two_thousand_grants_are_drawn_again_within_a_few_frames(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in(at="/timeline")
    took = page.evaluate(MANY)
    print(f"2,000 grants are drawn in {took[1]:.0f} ms")
    assert took[0] == 200


def test_hostile_names_are_drawn_as_text(visitor: Visitor, board: Board) -> None:
    board.tasks.post(name=HOSTILE, key="bad", body=HOSTILE)
    board.tasks.claim(ref="bad")
    board.tasks.fail(ref="bad", reason=HOSTILE)
    number = board.tasks.get(ref="bad").number
    board.tasks.post(name="after it", after=["bad"])
    page = visitor.page()
    page.on("dialog", lambda dialog: visitor.complaints.append(f"a script ran: {dialog.message}"))
    page.goto(visitor.link())
    for path in ("/timeline", "/tasks", "/tasks?view=board", "/tasks?view=graph", f"/tasks/{number}", "/queues"):
        visitor.go(page, path)
        assert page.locator("main img, main script:not([type='application/json'])").count() == 0, path
    visitor.go(page, "/timeline")
    expect(drawn(page, ".names title").first).to_have_text(f"#{number} {HOSTILE}")


# ── A task's life ────────────────────────────────────────────────────────────────────────────────────


def test_the_life_of_a_task_has_a_branch_for_each_grant_and_the_late_write_never_comes_back(
    visitor: Visitor, fenced: int
) -> None:
    page = visitor.sign_in(at=f"/tasks/{fenced}")
    expect(page.locator(".branches path.branch")).to_have_count(2)
    expect(page.locator(".branches path.ghost")).to_have_count(1)
    expect(page.locator(".branches .fenced")).to_have_count(1)
    expect(page.locator(".branches .refused")).to_have_count(1)
    expect(page.locator(".life li", has_text="came too late with a write of epoch 1")).to_have_count(1)
    lines = page.locator(".life li").evaluate_all("all => all.map((e) => e.getBoundingClientRect().top)")
    svg = page.locator(".branches").bounding_box()
    assert svg is not None
    assert svg["height"] == pytest.approx(lines[-1] - lines[0] + 28, abs=8), "each line has its place in the picture"


def test_the_life_grows_while_it_is_looked_at(visitor: Visitor, fenced: int, board: Board) -> None:
    page = visitor.sign_in(at=f"/tasks/{fenced}")
    expect(page.locator(".branches path.branch")).to_have_count(2)
    board.tasks.break_(ref=str(fenced), reason="stuck")
    expect(page.locator(".branches .broken")).to_have_count(1)
    board.tasks.claim(ref=str(fenced))
    expect(page.locator(".branches path.branch")).to_have_count(3)


# ── Sparklines ───────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_known_is_a_gap_and_not_zero(visitor: Visitor, board: Board) -> None:
    board.tasks.post(name="x")
    page = visitor.sign_in(at="/queues")
    parts = page.evaluate(SPARKS, [[None, None, 1, 2, 0], [1, 2, None, 3, 4]])
    assert len(parts[0]) == 1
    assert parts[0][0].startswith("M50.0")
    assert len(parts[1]) == 2


def test_a_queue_that_does_much_in_a_moment_says_how_much_and_in_how_long(busy: Visitor) -> None:
    with another(busy.daemon, busy.project, "ann") as ann:
        task = ann.tasks.claim(ref="work")
    fill(busy.daemon, 6_000, "task.completed", busy.project, task.id)
    page = busy.sign_in(at="/queues")
    found = re.fullmatch(r"5,000 in the last (\d+ms|\d+(\.\d)?s|\d+m\d\ds)", value(page, "Done").inner_text())
    assert found, value(page, "Done").inner_text()
    assert value(page, "Failed").inner_text().startswith("0 in the last ")
    expect(page.locator("svg.spark:has(.last)")).to_have_count(2)  # of what is done and what is ready
    expect(page.locator("main")).to_contain_text("all figures are about what happened in the last ")
    assert "hour" not in page.locator("main").inner_html()


def test_an_hour_that_was_counted_whole_is_called_an_hour(visitor: Visitor, board: Board) -> None:
    board.tasks.claim(ref="t")
    board.tasks.complete(ref="t")
    expect(value(visitor.sign_in(at="/queues"), "Done")).to_have_text("1 in an hour")


def test_a_single_value_is_one_whole_dot(visitor: Visitor, board: Board) -> None:
    page = visitor.sign_in(at="/queues")
    for values in ([3], [None, 3], [3, None], [1, None, 3]):
        dots = page.evaluate(DOTS, values)
        assert len(dots) == len([each for each in values if each]), values
        assert all(1.8 <= each <= 98.2 for each in dots), "no half is cut off"
    assert len(page.evaluate(DOTS, [1, 2])) == 1, "where the line has arrived"


# ── For everybody ────────────────────────────────────────────────────────────────────────────────────

PAGES = ("/timeline", "/tasks", "/tasks?view=board", "/tasks?view=graph", "/tasks/{number}", "/queues", "/board")
PHONE = {"width": 390, "height": 844}


def faults(page: Page, *rules: str) -> list[str]:
    """What is a barrier to somebody, by the rules of axe: all, or these."""
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:120]} {each['nodes'][0]['failureSummary']}" for each in found]


@pytest.mark.parametrize("path", PAGES)
def test_no_page_is_a_barrier(visitor: Visitor, fenced: int, board: Board, path: str) -> None:
    board.tasks.post(name="after it", after=["login"], tags=["a", "b"], priority="urgent")
    board.jobs.submit_many(jobs=[{"command": "true", "limit": "ci=1", "queue": "builds"}] * 2)
    board.schedules.add(name="nightly", expression="0 3 * * *", command="true")
    board.queues.pause(queue="docs", reason="maintenance")
    page = visitor.sign_in("--write", at=path.format(number=fenced))
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    assert faults(page, "color-contrast") == []
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert faults(page, "target-size") == []


@pytest.mark.parametrize("visitor", [pytest.param({"java_script_enabled": False}, id="no scripts")], indirect=True)
def test_without_scripts_every_page_says_the_same_in_words(visitor: Visitor, fenced: int) -> None:
    page = visitor.page()
    page.goto(visitor.link())
    for path, words in {
        "/timeline": "lost it when the lease ran out",
        "/tasks": "Fix the login bug",
        f"/tasks/{fenced}": "came too late with a write of epoch 1",
        "/queues": "default",
    }.items():
        page.goto(f"{visitor.daemon.url}{path}?project={visitor.project}")
        assert words in (page.locator("main").text_content() or ""), path
