"""`python -m tiebreak`: the same as `tb`."""

from tiebreak.cli import main

raise SystemExit(main())
