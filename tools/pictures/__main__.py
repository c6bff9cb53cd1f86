"""`python -m tools.pictures [NAME…]`: make the pictures anew, into docs/pictures."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright
from tests import chromium
from tests.daemons import Serving, serving

from .recording import Said, animated, record
from .scene import PROJECT, SELECTED, checkout, tell

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

PLACE = Path(__file__).parents[2] / "docs" / "pictures"
TB = os.path.join(os.path.dirname(sys.executable), "tb")
SIZE: ViewportSize = {"width": 1200, "height": 800}
PAGES = {"now": "/", "timeline": "/timeline", "task": "/tasks/3", "tasks": "/tasks", "jobs": "/queues"}
NAMES = (*PAGES, "top", "demo")


def main() -> None:
    """Make the pictures that are asked for."""
    parser = argparse.ArgumentParser(prog="make pictures", description="Make the pictures of the README and the docs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all): {', '.join(NAMES)}")
    wanted = parser.parse_args().names or list(NAMES)
    if unknown := set(wanted) - set(NAMES):
        parser.error(f"no picture {min(unknown)!r}; there are {', '.join(NAMES)}")
    PLACE.mkdir(exist_ok=True)
    if pages := [name for name in PAGES if name in wanted]:
        _pages(pages)
    if "top" in wanted:
        _top()
    if "demo" in wanted:
        _demo()


# ── Pages ────────────────────────────────────────────────────────────────────────────────────────────────────


def _pages(names: list[str]) -> None:
    """Pages of a daemon that serves the board with the story, as a browser shows them."""
    with tempfile.TemporaryDirectory() as folder:
        tell(str(Path(folder) / "board.db"))
        with serving(Path(folder)) as daemon, sync_playwright() as playwright:
            browser = chromium.start(playwright)
            page = browser.new_page(viewport=SIZE)
            page.goto(_link(daemon))
            for name in names:
                _page(page, daemon.url, name)
            browser.close()


def _link(daemon: Serving) -> str:
    words = [TB, "--json", "--as", "maria", "web", "--print", "--write"]
    made = subprocess.run(words, env=daemon.environment, capture_output=True, text=True, check=True)
    return str(json.loads(made.stdout)["link"])


def _page(page: Page, url: str, name: str) -> None:
    page.goto(f"{url}{PAGES[name]}?project={PROJECT}")
    page.wait_for_function("document.getElementById('live-status')?.textContent === 'Live'")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        _capture(page, PLACE / f"{name}-{scheme}.webp")


def _capture(page: Page, path: Path) -> None:
    """A picture in a format that is a third as large as a PNG, which only the browser's own protocol offers."""
    browser = page.context.new_cdp_session(page)
    taken = browser.send("Page.captureScreenshot", {"format": "webp", "quality": 82})
    path.write_bytes(b64decode(taken["data"]))
    print(path.name)


# ── The terminal ─────────────────────────────────────────────────────────────────────────────────────────────


def _top() -> None:
    """`tb top` on the same board, as the picture that Textual draws of it: with the agent that took a task over."""
    import asyncio

    import tiebreak
    from tiebreak.cli.top import entries
    from tiebreak.top.keys import TopApp

    async def drawn(board: tiebreak.Board) -> str:
        app = TopApp(board, program=[TB], commands=entries, explain=str)
        async with app.run_test(size=(156, 55)) as pilot:
            while not app.frames_drawn:
                await pilot.pause(0.05)
            for _ in range(40):
                found = app._target()
                if found is not None and found.kind == "agent" and found.agent == SELECTED:
                    break
                await pilot.press("down")
            await pilot.pause(1.0)
            return app.export_screenshot(title="tb top")

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(checkout(folder)):
        tell("board.db")
        with tiebreak.open("board.db", agent="maria~screen", project=PROJECT) as board:
            board.engine.address = "~/shop/board.db"  # not the folder of this run
            svg = asyncio.run(drawn(board))
    # Fonts would be loaded from another host.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "ui-monospace")
    (PLACE / "top.svg").write_text(svg, encoding="utf-8")
    print("top.svg")


# ── The demo ─────────────────────────────────────────────────────────────────────────────────────────────────


def _demo() -> None:
    """The demo's own words, as they appear to a person who answers its question."""
    said = [Said(0.0, "$ tb demo"), *record([TB, "demo"], {"your answer": "yes"})]
    said = [Said(each.at, re.sub(r"code=\S+", "code=…", each.text)) for each in said]
    (PLACE / "demo.svg").write_text(animated("tb demo", said), encoding="utf-8")
    print("demo.svg")


main()
