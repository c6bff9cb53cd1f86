"""Output on its way to the board: in order, nothing lost within the cap, never more in memory than that allows."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tiebreak.errors import Unavailable
from tiebreak.model import Job, record
from tiebreak.worker.attempt import Attempt
from tiebreak.worker.output import ENOUGH, Output
from tiebreak.worker.pending_reports import LARGEST, PendingReports
from tiebreak.worker.request_sender import RequestBatch


def taken(output: Output) -> list[Any]:
    chunks: list[Any] = []
    while more := output.take():
        chunks += more
    return chunks


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=30))
def test_whatever_is_written_arrives_in_order_and_without_a_gap(written: list[tuple[int, bytes]]) -> None:
    output = Output()
    for stream, data in written:
        output.feed(stream, data)
    for stream in (1, 2):
        output.feed(stream, b"", final=True)
    chunks, at = taken(output), 0
    for chunk in chunks:
        assert chunk["start"] == at
        at += len(chunk["text"].encode())
    assert at == output.size
    for stream in (1, 2):
        text = b"".join(data for which, data in written if which == stream).decode("utf-8", "replace")
        assert "".join(c["text"] for c in chunks if c["stream"] == stream) == text.replace("\0", "\ufffd")


def test_what_nobody_takes_is_bounded_and_the_middle_goes_first() -> None:
    output = Output(cap=100_000)
    for n in range(200_000):
        output.feed(1, b"%09d\n" % n)
    assert output.waiting <= 50_000 + 2 * ENOUGH
    chunks = taken(output)
    text = "".join(chunk["text"] for chunk in chunks)
    assert text.startswith("000000000\n")
    assert text.endswith("000199999\n")
    assert chunks[-1]["start"] + len(chunks[-1]["text"]) == output.size == 2_000_000


def test_what_could_not_be_delivered_comes_first_the_next_time() -> None:
    output = Output()
    output.feed(1, b"one ")
    chunks = output.take()
    output.feed(2, b"two")
    output.put_back(chunks)
    assert [(chunk["stream"], chunk["text"]) for chunk in taken(output)] == [(1, "one "), (2, "two")]
    assert output.waiting == 0


def test_the_last_line_is_the_last_with_anything_in_it() -> None:
    output = Output()
    output.feed(2, b"first\nlast \n\n  \n")
    assert output.last_line() == "last"
    assert Output().last_line() == ""


def attempt() -> Attempt:
    row = (1, "id", "demo", "name", "default", "me~1", 1, 0, 1, 3, json.dumps("true"), None, 0)
    return Attempt(record(Job, row), 1e9)


def test_a_report_waits_for_the_last_of_the_output() -> None:
    """After the report nothing more is taken."""
    job, said = attempt(), PendingReports(lambda *_: None)
    job.output.feed(1, b"x" * (LARGEST * 2))
    said.done(job, job.outcome(True))
    names: list[list[str]] = []
    while said:
        mail = RequestBatch()
        said.add_to(mail, 0.0)
        names.append([name for name, _ in mail.calls])
    assert len(names) > 1
    assert [name for name in names if "jobs.report" in name] == [["jobs.append", "jobs.report"]] == names[-1:]


def test_what_was_not_delivered_is_told_again_in_the_same_order() -> None:
    jobs, said = [attempt(), attempt()], PendingReports(lambda *_: None)
    for each in jobs:
        said.done(each, each.outcome(True))
    lost = RequestBatch()
    assert said.add_to(lost, 0.0)
    assert not said.outcomes
    lost.error = Unavailable("gone")
    lost.handle_answers()
    assert [whose for _, whose in said.outcomes] == jobs


def test_one_result_that_cannot_be_stored_does_not_take_others_along() -> None:
    jobs, said = [attempt(), attempt()], PendingReports(lambda *_: None)
    for each in jobs:
        said.done(each, each.outcome(True, "fine"))
    first = RequestBatch()
    said.add_to(first, 0.0)
    first.answers = [ValueError("too large")]
    first.handle_answers()
    for expected in ("fine", "fine"):
        one = RequestBatch()
        said.add_to(one, 0.0)
        assert [outcome["result"] for outcome in one.calls[0][1]["outcomes"]] == [expected]
        one.answers = [[{"accepted": True, "state": "completed", "reason": None}]]
        one.handle_answers()
    assert not said
    said.done(jobs[0], jobs[0].outcome(True, "huge"))
    wrong = RequestBatch()
    said.add_to(wrong, 0.0)
    wrong.answers = [ValueError("too large")]
    wrong.handle_answers()
    assert [(outcome["ok"], outcome["reason"]) for outcome, _ in said.outcomes] == [
        (False, "its result cannot be stored (too large)")
    ]
