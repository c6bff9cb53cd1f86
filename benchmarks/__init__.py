"""Benchmarks: how fast tiebreak is, next to something that anybody can run on the same machine.

Absolute figures move by a factor of two between machines and between two hours on the same one. So each benchmark
measures its yardstick (the bare interpreter, the bare SQL statement, a small board) in turns with tiebreak, in the
same run, and reports the ratio of the medians. An aim is something to look at; no benchmark fails for being slow.

`python -m benchmarks` runs all of them, `python -m benchmarks claims race` some, and `--write` puts what was measured
into `RESULTS.md`.
"""
