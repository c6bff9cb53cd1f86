"""Fixtures for tests in a real browser: the system's Chromium and a real daemon, one of each for a test process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

import tiebreak
from tests import chromium
from tests.cli.command import TB
from tests.daemons import PATIENCE, Serving, serving
from tiebreak import Board

SOON = PATIENCE * 1000
"""Milliseconds within which a page shows what it is going to show, also on a busy machine."""
REPORT = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""

expect.set_options(timeout=SOON)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser. While it is there an event loop runs, so it must be gone before tests that start one themselves."""
    with sync_playwright() as playwright:
        started = chromium.start(playwright)
        yield started
        started.close()


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The daemon. Each test has a project of its own on it."""
    with serving(tmp_path_factory.mktemp("pages")) as started:
        yield started


@pytest.fixture
def project(request: pytest.FixtureRequest) -> str:
    """The project of this test alone."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:60]


@pytest.fixture
def board(daemon: Serving, project: str) -> Iterator[Board]:
    """The board as an agent uses it: another process than the daemon, which opens the same file."""
    with tiebreak.open(str(daemon.board), agent="ann~1", project=project) as opened:
        yield opened


class Visitor:
    """A person with a browser. Everything that its pages complain about fails the test."""

    def __init__(self, context: BrowserContext, daemon: Serving, project: str) -> None:
        self.context, self.daemon, self.project = context, daemon, project
        self.complaints: list[str] = []
        self.expected: list[str] = []
        """Parts of complaints that this test provokes."""
        context.add_init_script(REPORT)

    def page(self) -> Page:
        """A new tab."""
        made = self.context.new_page()
        made.set_default_timeout(SOON)
        made.on("console", self._heard)
        made.on("pageerror", lambda error: self.complaints.append(str(error)))
        return made

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.complaints.append(said.text)

    def link(self, *options: str, person: str = "maria") -> str:
        """A link that `tb web` makes."""
        return str(self.tb("--json", "--as", person, "web", *options)["link"])

    def tb(self, *words: str) -> Any:
        """What a command answers."""
        done = subprocess.run(
            [TB, *words], env=self.daemon.environment, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        return json.loads(done.stdout)

    def sign_in(self, *options: str, person: str = "maria", at: str = "/") -> Page:
        """A tab that is signed in and shows a page of the test's project."""
        page = self.page()
        page.goto(self.link(*options, person=person))
        return self.go(page, at)

    def go(self, page: Page, path: str) -> Page:
        """Show a page of the test's project, and wait until its stream is open."""
        page.goto(f"{self.daemon.url}{path}{'&' if '?' in path else '?'}project={self.project}")
        expect(page.locator("#live-status")).to_have_text("Live")
        return page

    def unexpected(self) -> list[str]:
        """What the pages complained about without being provoked."""
        return [each for each in self.complaints if not any(part in each for part in self.expected)]


@pytest.fixture
def visitor(browser: Browser, daemon: Serving, project: str, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """A person with a browser of their own: no cookie, no storage."""
    options = getattr(request, "param", {})
    context = browser.new_context(**options)
    made = Visitor(context, daemon, project)
    yield made
    complaints = made.unexpected()
    context.close()
    assert complaints == []
