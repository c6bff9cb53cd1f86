"""`python -m benchmarks [NAME…]`: measure, print, and with `--write` keep the figures in RESULTS.md."""

from __future__ import annotations

import argparse
import os
import time
from importlib import import_module

from .measure import Report, Settings, machine, progress

NAMES = (
    *(
        "startup",
        "first_hour",
        "claims",
        "race",
        "growth",
        "contention",
        "waiting",
        "daemon",
        "dashboard",
        "hooks",
        "guard",
        "postgres",
        "scale",
        "jobs",
        "versions",
        "endurance",
    ),
)
HEAD = """# Results

Written by `make bench ARGS=--write`; the line under each table says how to make that one alone, when and where it was
made. Ratios hold from machine to machine; absolute figures do not. Noise is half the distance between the quartiles of
the rounds, as a share of their median: a difference smaller than the noise is none, and a disk that is busy with
something else moves everything that commits.

"""
RESULTS = os.path.join(os.path.dirname(__file__), "RESULTS.md")


def main() -> None:
    """Run the benchmarks that are asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure tiebreak against its yardsticks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all): {', '.join(NAMES)}")
    parser.add_argument("--write", action="store_true", help="put the figures into benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: to see that it works, not how fast it is")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="for how long endurance and first_hour go on (default: 10)"
    )
    parser.add_argument("--verbose", action="store_true", help="tell details")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    if args.write and args.quick:
        parser.error("--write keeps figures, and those of --quick mean nothing")
    settings = Settings(quick=args.quick, verbose=args.verbose, write=args.write, minutes=args.minutes)
    facts, reports = machine(), []
    for name in args.names or NAMES:
        progress(f"{name} …")
        report = import_module(f"{__package__}.{name}").run(settings)
        print(report.text(), end="\n\n", flush=True)
        reports.append(report)
    if args.write:
        write(facts, reports)
    if any(report.failures for report in reports):
        raise SystemExit(1)


def write(facts: list[tuple[str, str]], reports: list[Report]) -> None:
    """Replace the sections of what was measured; the others stay as they are."""
    sections = _sections()
    for report in reports:
        made = f"`make bench ARGS='{report.name}'` on {time.strftime('%Y-%m-%d')}: "
        made += "; ".join(f"{what} {value}" for what, value in facts)
        sections[report.name] = f"{report.markdown()}\n{made}.\n"
    text = HEAD + "\n".join(sections[name] for name in NAMES if name in sections)
    with open(RESULTS + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(RESULTS + ".new", RESULTS)


def _sections() -> dict[str, str]:
    try:
        with open(RESULTS, encoding="utf-8") as file:
            parts = file.read().split("\n## ")[1:]
    except FileNotFoundError:
        return {}
    return {part.partition("\n")[0]: f"## {part.strip()}\n" for part in parts}


if __name__ == "__main__":
    main()
