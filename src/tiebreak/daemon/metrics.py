"""The metrics of the daemon, and their output in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Histogram:
    """Counts values in buckets by their upper bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str) -> list[str]:
        """The histogram in the format of Prometheus, where each bucket includes all smaller ones."""
        out, total = [], 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            total += count
            out.append(f'{name}_bucket{{le="{bound:g}"}} {total}')
        total += self.counts[-1]
        return [*out, f'{name}_bucket{{le="+Inf"}} {total}', f"{name}_sum {self.sum:.6f}", f"{name}_count {total}"]


class Metrics:
    """All counters. Only the thread of the event loop changes them, so they need no lock."""

    def __init__(self) -> None:
        self.operations: dict[tuple[str, str], int] = {}
        self.requests: dict[int, int] = {}
        self.batch_size = Histogram(SIZES)
        self.commit = Histogram(SECONDS)

    def operation(self, name: str, outcome: str) -> None:
        """Count one operation by its outcome: `ok`, or a word of `service.outcome`."""
        key = (name, outcome)
        self.operations[key] = self.operations.get(key, 0) + 1

    def outcome(self, outcome: str) -> int:
        """The number of operations with this outcome."""
        return sum(count for (_, ended), count in self.operations.items() if ended == outcome)

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """All metrics as text. `gauges` has the current values: name, then help text and value."""
        out = _head("operations_total", "counter", "Operations by name and outcome.")
        for (name, outcome), count in sorted(self.operations.items()):
            out.append(f'tiebreak_operations_total{{operation="{name}",outcome="{outcome}"}} {count}')
        out += _head("lost_races_total", "counter", "Claims and holds refused because another agent had them.")
        out.append(f"tiebreak_lost_races_total {self.outcome('lost')}")
        out += _head("fenced_writes_total", "counter", "Writes refused because their epoch was not the current one.")
        out.append(f"tiebreak_fenced_writes_total {self.outcome('fenced')}")
        out += _head("http_requests_total", "counter", "HTTP requests by status.")
        out += [f'tiebreak_http_requests_total{{status="{s}"}} {n}' for s, n in sorted(self.requests.items())]
        out += _head("batch_size", "histogram", "Operations committed together.")
        out += self.batch_size.lines("tiebreak_batch_size")
        out += _head("commit_seconds", "histogram", "Seconds from the start of a batch until it is synced to disk.")
        out += self.commit.lines("tiebreak_commit_seconds")
        for name, (text, value) in gauges.items():
            out += _head(name, "counter" if name.endswith("_total") else "gauge", text)
            out.append(f"tiebreak_{name} {value:.15g}")
        return "\n".join(out) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP tiebreak_{name} {text}", f"# TYPE tiebreak_{name} {kind}"]
