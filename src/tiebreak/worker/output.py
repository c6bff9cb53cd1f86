"""Buffers what a job writes until the board has taken it: in order, as text, in bounded memory.

The board keeps the beginning and the end of the output (`jobs.append`). If a job writes faster than the board accepts,
the middle is dropped here already. Offsets count everything that was written, so the gap is visible.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from ..limits import OUTPUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from codecs import IncrementalDecoder
    from typing import TypedDict

    class OutputChunk(TypedDict):
        """A piece of output: which stream, where it starts in all that was written, and the text."""

        stream: int
        start: int
        text: str


PIECE = 16 * 1024
"""Most characters in one chunk."""
ENOUGH = 64 * 1024
"""Bytes that are worth sending at once instead of with the next request."""
LAST = 2048
"""Characters at the end that are remembered, for the reason of a failure."""


class Output:
    """One attempt's output, both streams in the order in which they were read."""

    def __init__(self, cap: int | None = None) -> None:
        self.size = 0
        """Bytes written so far, as UTF-8."""
        self.waiting = 0
        """Bytes that `take` has not handed out yet."""
        self._cap = OUTPUT if cap is None else cap
        self._head = max(1, self._cap // 2)
        """Bytes at the beginning that are kept."""
        self._chunks: list[OutputChunk] = []
        self._decoders: dict[int, IncrementalDecoder] = {}
        self._last = ""

    def feed(self, stream: int, data: bytes, final: bool = False) -> None:
        """Add what was read from a stream; `final` when the stream has ended."""
        if stream not in self._decoders:
            if not data:
                return
            self._decoders[stream] = getincrementaldecoder("utf-8")("replace")
        # PostgreSQL stores no NUL in text.
        text = self._decoders[stream].decode(data, final).replace("\0", "\ufffd")
        for at in range(0, len(text), PIECE):
            self._add(stream, text[at : at + PIECE])
        self._last = (self._last + text)[-LAST:]

    def _add(self, stream: int, text: str) -> None:
        size = _size(text)
        last = self._chunks[-1] if self._chunks else None
        if last and last["stream"] == stream and len(last["text"]) + len(text) <= PIECE:
            last["text"] += text
        else:
            self._chunks.append({"stream": stream, "start": self.size, "text": text})
        self.size += size
        self.waiting += size
        while self.waiting > self._head + ENOUGH and self.size > self._cap and len(self._chunks) > 1:
            self._forget()

    def _forget(self) -> None:
        """Drop the oldest chunk that does not belong to the beginning."""
        at = next((i for i, chunk in enumerate(self._chunks) if chunk["start"] >= self._head), len(self._chunks) - 1)
        self.waiting -= _size(self._chunks.pop(at)["text"])

    def urgent(self) -> bool:
        """Whether to send at once: only for the beginning of the output; the rest goes with the next request."""
        return self.waiting >= ENOUGH and self.size - self.waiting < self._head

    def take(self, most: int = 4 * ENOUGH) -> list[OutputChunk]:
        """Hand out the next chunks for the board, about `most` bytes."""
        taken, size = 0, 0
        for chunk in self._chunks:
            taken += 1
            size += _size(chunk["text"])
            if size >= most:
                break
        out, self._chunks = self._chunks[:taken], self._chunks[taken:]
        self.waiting -= size
        return out

    def put_back(self, chunks: list[OutputChunk]) -> None:
        """Return chunks that could not be delivered, for the next `take`."""
        self._chunks[:0] = chunks
        self.waiting += sum(_size(chunk["text"]) for chunk in chunks)

    def last_line(self) -> str:
        """The last line that is not blank."""
        lines = [line.strip() for line in self._last.splitlines()]
        return next((line for line in reversed(lines) if line), "")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
