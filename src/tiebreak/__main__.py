"""`python -m tiebreak`: the same as `tb`."""

from tiebreak.program import main

raise SystemExit(main())
