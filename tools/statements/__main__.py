"""`python -m tools.statements`: print docs/statements.sql."""

from __future__ import annotations

import sys

from .page import page

if __name__ == "__main__":
    sys.stdout.write(page())
