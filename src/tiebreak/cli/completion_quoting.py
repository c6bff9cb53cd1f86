"""Lines of bash: the words in them, and words as they have to be written into them.

Bash replaces only the end of a word: what follows an opening quote, or the last of COMP_WORDBREAKS that is not quoted
(`de` in `lock:de`). It inserts what it gets without quoting it.
"""

from __future__ import annotations

_BLANKS = " \t\n"
_HARMLESS = "_-./:=@%+,"
_SPECIAL_IN_QUOTES = '"\\$`'


class TypedLine:
    """The words of a line, without their quotes; the last one is the one to complete, and may be empty.

    `kept` is the part of the last word that stays as it was typed, `quote` the quote that is open at its end.
    """

    __slots__ = ("kept", "quote", "words")

    def __init__(self) -> None:
        self.words = [""]
        self.kept = ""
        self.quote = ""


def split_line(line: str, breaks: str) -> TypedLine:
    """Split a line that ends at the cursor."""
    typed, begun, escaped, kept_before = TypedLine(), False, False, ""
    for char in line:
        if escaped:
            special = not typed.quote or char in _SPECIAL_IN_QUOTES
            typed.words[-1] += char if special else f"\\{char}"
            escaped = False
        elif char == "\\" and typed.quote != "'":
            escaped = begun = True
        elif typed.quote and char == typed.quote:
            typed.quote, typed.kept = "", kept_before
        elif typed.quote:
            typed.words[-1] += char
        elif char in _BLANKS:
            typed.words += [""] if begun else []
            typed.kept, begun = "", False
        else:
            begun = True
            if char in "'\"":
                kept_before, typed.kept, typed.quote = typed.kept, typed.words[-1], char
                continue
            typed.words[-1] += char
            if char in breaks:
                typed.kept = typed.words[-1]
    return typed


def quoted(words: list[str], typed: TypedLine) -> list[str]:
    """Those words that begin as the last one typed, as bash has to insert them."""
    found = [word[len(typed.kept) :] for word in words if word.startswith(typed.words[-1])]
    if typed.quote == '"':
        found = [word for word in found if "!" not in word]  # nothing keeps it from calling up the history there
    written = [_quoted(word, typed.quote) for word in found]
    # Of several words bash inserts what their beginnings share: that must not be a backslash without its character.
    shared = _shared(written)
    if len(found) > 1 and (len(shared) - len(shared.rstrip("\\"))) % 2:
        end = len(_shared(found))
        first, char, rest = found[0][:end], found[0][end], found[0][end + 1 :]
        apart = f"'{char}'" if char != "'" else f'"{char}"'
        apart = f"{typed.quote}{apart}{typed.quote}"
        written[0] = f"{_quoted(first, typed.quote)}{apart}{_quoted(rest, typed.quote)}"
    # Bash closes the quote behind a single word, unless the word itself ends in such a character.
    if typed.quote and len(written) == 1 and written[0].endswith(typed.quote):
        written[0] += typed.quote
    return written


def _quoted(text: str, quote: str) -> str:
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return "".join(f"\\{char}" if char in _SPECIAL_IN_QUOTES else char for char in text)
    return "".join(char if char.isalnum() or char in _HARMLESS else f"\\{char}" for char in text)


def _shared(words: list[str]) -> str:
    """The beginning that all words share."""
    first, last = min(words, default=""), max(words, default="")
    end = next((place for place, char in enumerate(first) if char != last[place]), len(first))
    return first[:end]
