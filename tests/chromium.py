"""The system's Chromium, as tests, pictures and benchmarks start it: no sandbox, and no traffic of its own."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, Playwright

PROGRAM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def start(playwright: Playwright) -> Browser:
    """Start it, with a new and empty profile."""
    return playwright.chromium.launch(executable_path=PROGRAM, args=list(FLAGS))
