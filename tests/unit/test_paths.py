"""What could go wrong between the path that a user types and the file that is meant."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tiebreak import repository as repositories
from tiebreak.errors import Invalid
from tiebreak.globs import is_glob, matches, overlap
from tiebreak.limits import MAX_PATH_OF_FILE, MAX_RESOURCE
from tiebreak.names import resource
from tiebreak.paths import canonical, confine
from tiebreak.project_identity import project_names
from tiebreak.repository import repository


def git(where: Path, *args: str) -> None:
    # Git's own variables, as set inside a hook, would send it to another repository.
    mine = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *args], cwd=where, check=True, capture_output=True, env=mine)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A directory that looks like a repository with some files, resolved."""
    top = tmp_path.resolve() / "repo"
    (top / ".git").mkdir(parents=True)
    (top / "src" / "auth").mkdir(parents=True)
    (top / "src" / "a.py").touch()
    (top / "src" / "auth" / "login.py").touch()
    return top


@pytest.fixture
def cloned(tmp_path: Path) -> Path:
    """A real repository with one commit."""
    top = tmp_path.resolve() / "My Project"
    top.mkdir()
    git(top, "init", "-q")
    git(top, "commit", "-q", "--allow-empty", "-m", "first")
    return top


def at(repo: Path, path: str, *, base: str = "", literal: bool = False) -> str:
    return confine(path, root=str(repo), base=str(repo / base), literal=literal)


# --- One name for one file ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "base"),
    [
        ("src/a.py", ""),
        ("./src/a.py", ""),
        ("src//a.py", ""),
        ("src/./a.py", ""),
        ("src/auth/../a.py", ""),
        ("src/new/../a.py", ""),
        ("../repo/src/a.py", ""),
        ("a.py", "src"),
        ("../a.py", "src/auth"),
        ("../../src/a.py", "src/auth"),
        ("src/[a.py/../a.py", ""),
    ],
)
def test_two_spellings_of_one_path_are_one_resource(repo: Path, spelling: str, base: str) -> None:
    assert at(repo, spelling, base=base) == "src/a.py"
    assert at(repo, os.path.join(repo, base, spelling)) == "src/a.py"


def test_a_file_that_does_not_exist_yet_has_the_name_it_will_have(repo: Path) -> None:
    before = at(repo, "src/deep/er/../new.py")
    (repo / "src" / "deep").mkdir()
    (repo / "src" / "deep" / "new.py").touch()
    assert before == at(repo, "src/deep/new.py") == "src/deep/new.py"


def test_a_symlink_and_its_target_are_one_resource(repo: Path) -> None:
    (repo / "link.py").symlink_to("src/a.py")
    (repo / "here").symlink_to("src")
    assert at(repo, "link.py") == at(repo, "here/a.py") == at(repo, "here/../src/a.py") == "src/a.py"
    assert at(repo, "here/*.py") == "src/*.py"
    assert at(repo, "here/") == "src/**"


def test_a_glob_follows_no_symlink_but_what_stands_before_it_does(repo: Path) -> None:
    (repo / "src" / "link").symlink_to("auth")
    through = at(repo, "src/link/x.py")
    assert through == "src/auth/x.py"
    assert not overlap(at(repo, "src/l*/x.py"), through)
    assert overlap(at(repo, "src/link/*.py"), through)
    assert overlap(at(repo, "src/*/x.py"), through)


def test_dot_dot_after_a_symlink_leads_where_the_kernel_says(repo: Path) -> None:
    (repo / "short").symlink_to("src/auth")
    assert at(repo, "short/../a.py") == "src/a.py"


def test_a_repository_reached_through_a_symlink_is_the_same_repository(repo: Path) -> None:
    alias = repo.parent / "alias"
    alias.symlink_to(repo)
    assert confine("src/a.py", root=str(alias), base=str(alias)) == "src/a.py"
    assert confine(str(alias / "src/a.py"), root=str(repo), base="/") == "src/a.py"


@pytest.mark.parametrize("path", ["door", "door/x.py", "door/*.py", "door/../passwd", "file", "dangling"])
def test_a_symlink_is_no_way_out_of_the_repository(repo: Path, path: str) -> None:
    outside = repo.parent / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    (repo / "door").symlink_to(outside)
    (repo / "file").symlink_to(outside / "secret")
    (repo / "dangling").symlink_to(outside / "nothing")
    with pytest.raises(Invalid, match="is outside the repository"):
        at(repo, path)


@pytest.mark.parametrize(
    "path", ["..", "../x", "src/../../x", "/etc/passwd", "/", "/*", "../*", "**/../../x", "../repo-evil/x"]
)
def test_nothing_leads_out_of_the_repository(repo: Path, path: str) -> None:
    with pytest.raises(Invalid):
        at(repo, path)


def test_a_neighbour_whose_name_starts_the_same_is_outside(repo: Path) -> None:
    evil = repo.parent / "repo-evil"
    evil.mkdir()
    with pytest.raises(Invalid, match="is outside the repository"):
        at(repo, str(evil / "a.py"))


def test_a_symlink_that_leads_to_itself_is_only_a_name(repo: Path) -> None:
    (repo / "loop").symlink_to("loop")
    assert at(repo, "loop") == "loop"


@pytest.mark.parametrize("path", [".", "./", "src/..", "src/../", "../repo"])
def test_the_top_itself_is_refused_and_the_hint_names_everything(repo: Path, path: str) -> None:
    with pytest.raises(Invalid) as caught:
        at(repo, path)
    assert "'**'" in caught.value.hint


@pytest.mark.parametrize("path", ["*/../b", "src/*/../a.py", "src/**/x/../y", "src/[ab]/../a.py"])
def test_dot_dot_after_a_glob_is_refused(repo: Path, path: str) -> None:
    with pytest.raises(Invalid, match="after a glob"):
        at(repo, path)


@pytest.mark.parametrize("name", [canonical, lambda text: confine(text, root="/", base="/")])
@pytest.mark.parametrize("bad", ["", "a\0b", "a\nb", "a\x1b[2Jb", "a\x7f", "a\x85b", "a\u2028b", "a\udcff"])
def test_what_breaks_a_line_or_an_encoding_is_refused_in_one_safe_line(name: object, bad: str) -> None:
    assert callable(name)
    with pytest.raises(Invalid) as caught:
        name(bad)
    assert str(caught.value).isprintable()


def test_a_refusal_does_not_repeat_a_book(repo: Path) -> None:
    with pytest.raises(Invalid, match="5000 bytes, the limit is 2043") as caught:
        at(repo, "x" * 5000)
    assert len(str(caught.value)) < 200


def test_escaping_does_not_push_a_name_past_the_bound() -> None:
    with pytest.raises(Invalid, match="3000 bytes, the limit is 2043"):
        canonical("[" * 1000)


def test_composing_does_not_push_a_name_past_the_bound() -> None:
    """Unicode writes some letters as two, whatever was given: so this one becomes twice as long."""
    with pytest.raises(Invalid, match="2046 bytes, the limit is 2043"):
        canonical("\u0958" * 341)


def test_a_file_with_the_longest_path_is_a_resource() -> None:
    assert len("file:") + MAX_PATH_OF_FILE == MAX_RESOURCE
    longest = "é" * (MAX_PATH_OF_FILE // 2) + "x"
    assert resource(f"file:{longest}") == f"file:{longest}"
    with pytest.raises(Invalid, match="2049 bytes, the limit is 2048"):
        resource(f"file:{longest}x")


def test_composed_and_decomposed_unicode_are_one_resource(repo: Path) -> None:
    assert canonical("cafe\u0301.py") == canonical("caf\u00e9.py") == "caf\u00e9.py"
    (repo / "cafe\u0301").mkdir()
    assert at(repo, "cafe\u0301/*.py") == at(repo, "caf\u00e9/*.py") == "caf\u00e9/*.py"


def test_a_backslash_is_an_ordinary_character() -> None:
    assert canonical("a\\b") == "a\\b"
    assert not is_glob("a\\b")
    assert matches("a\\*", "a\\b")
    assert not matches("a\\*", "a*")


def test_one_file_in_two_cases_is_one_resource_where_the_disk_folds_case(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(a: str, b: str) -> bool:
        return a.lower() == b.lower()

    monkeypatch.setattr("tiebreak.paths._FOLDS_CASE", True)
    monkeypatch.setattr(os.path, "samefile", same)
    assert at(repo, "SRC/Auth/LOGIN.py") == at(repo, "src/auth/login.py") == "src/auth/login.py"
    assert at(repo, "SRC/New/File.py") == "src/New/File.py"


def test_a_directory_that_was_deleted_under_the_caller_is_a_refusal(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = repo / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Invalid, match="gone"):
        confine("a.py", root=str(repo), base="")
    assert repository("") is None


# --- Files whose names look like globs ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["[id].tsx", "[...slug].tsx", "[[lang]].tsx", "a*b.txt", "why?.md", "[!x]"])
def test_a_file_named_like_a_glob_is_held_alone(repo: Path, name: str) -> None:
    (repo / name).touch()
    held = at(repo, name)
    assert not is_glob(held)
    assert matches(held, held)
    assert matches(held, name)
    assert not overlap(held, "i.tsx")
    assert overlap(held, "**")


def test_an_escaped_name_means_the_same_file_whatever_is_on_disk(repo: Path) -> None:
    (repo / "[id].tsx").symlink_to("src/a.py")
    (repo / "[[]id].tsx").touch()
    (repo / "[x].tsx").touch()
    assert at(repo, "[[]id].tsx") == "src/a.py"
    assert at(repo, "[x].tsx") == at(repo, "[[]x].tsx") == at(repo, "src/../[x].tsx") == "[[]x].tsx"
    assert at(repo, "[[]new].tsx") == "[[]new].tsx"


def test_a_new_file_or_glob_below_a_directory_named_like_a_glob(repo: Path) -> None:
    (repo / "app" / "[id]").mkdir(parents=True)
    assert at(repo, "app/[id]/new.tsx") == "app/[[]id]/new.tsx"
    assert at(repo, "app/[id]/*.tsx") == "app/[[]id]/*.tsx"
    assert at(repo, "app/[id]/") == "app/[[]id]/**"


def test_a_repository_below_a_directory_named_like_a_glob(tmp_path: Path) -> None:
    top = tmp_path.resolve() / "[work]*"
    top.mkdir()
    assert at(top, "a.py") == at(top, str(top / "a.py")) == "a.py"
    assert at(top, "*.py") == at(top, str(top / "*.py")) == "*.py"


def test_the_same_words_before_and_after_the_file_exists_have_one_winner(repo: Path) -> None:
    before = at(repo, "app/[slug]/page.tsx")
    (repo / "app" / "[slug]").mkdir(parents=True)
    (repo / "app" / "[slug]" / "page.tsx").touch()
    after = at(repo, "app/[slug]/page.tsx")
    assert after == "app/[[]slug]/page.tsx"
    assert overlap(before, after)


def test_a_stray_file_called_star_does_not_narrow_a_glob(repo: Path) -> None:
    (repo / "src" / "*").touch()
    (repo / "src" / "**").touch()
    assert at(repo, "src/*") == "src/*"
    assert at(repo, "src/**") == "src/**"
    assert at(repo, "src/[*]") == "src/[*]"


def test_a_caller_with_one_file_is_never_taken_to_mean_a_glob(repo: Path) -> None:
    assert at(repo, "app/[slug]/*.tsx", literal=True) == "app/[[]slug]/[*].tsx"
    assert at(repo, "*", literal=True) == "[*]"


# --- The text alone -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/../b", "b"),
        ("a//b/./c", "a/b/c"),
        ("src/", "src/**"),
        ("src/./", "src/**"),
        ("src/.", "src"),
        ("**/", "**"),
        ("**/**/a", "**/a"),
        ("***/a", "**/a"),
        ("a**b", "a*b"),
        ("a[b", "a[[]b"),
        ("a[b/c]d", "a[[]b/c]d"),
        ("[!]", "[[]!]"),
        ("[]]x", "[]]x"),
        ("...", "..."),
        ("[[]id]/../b", "b"),
    ],
)
def test_every_name_has_one_spelling(text: str, expected: str) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize("text", ["/a", "//a", "..", "../a", "a/../../b", ".", "./", "a/..", "*/../a"])
def test_text_that_names_nothing_in_the_repository_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        canonical(text)


@settings(deadline=None)
@given(st.text(st.sampled_from("ab/.*?[]!^-\\\u00e9e\u0301\u0323")))
@example("[\u0301e]")
@example("[e]\u0301")
def test_canonical_changes_nothing_the_second_time(text: str) -> None:
    try:
        once = canonical(text)
    except Invalid:
        assume(False)
    assert canonical(once) == once


@settings(deadline=None)
@given(st.text(st.sampled_from("ab/*?[]!-"), min_size=1))
def test_a_name_as_a_pattern_covers_the_same_name_as_a_file(text: str) -> None:
    assume(not any(escape in text for escape in ("[[]", "[*]", "[?]")))
    parts = [part for part in text.split("/") if part]
    assume(parts and not text.startswith("/"))
    escaped = "/".join(re.sub(r"[*?[]", r"[\g<0>]", part) for part in parts)
    assert not is_glob(escaped)
    assert canonical(escaped) == escaped
    assert overlap(canonical(text), escaped)
    assert matches(canonical(text), escaped)


# --- What matches, what overlaps ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/auth/a.py", False),
        ("src/*", "src", False),
        ("src/**", "src", True),
        ("src/**", "src/a/b/c", True),
        ("src/**", "srcs/a", False),
        ("**/a.py", "a.py", True),
        ("**/a.py", "x/y/a.py", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/b/c", False),
        ("**", ".github/x.yml", True),
        ("*", ".env", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a[!x]c", "a/c", False),
        ("a[.-0]c", "a/c", False),
        ("a[.-0]c", "a.c", True),
        ("[a-c]", "b", True),
        ("[a-c]", "d", False),
        ("[!a-c]", "d", True),
        ("[^a-c]", "b", False),
        ("[]a]", "]", True),
        ("[a-]", "-", True),
        ("[post-id]", "p", True),
        ("[post-id]", "q", False),
        ("[post-id]", "[[]post-id]", True),
        ("[[]a]", "[a]", True),
        ("[[]a]", "a", False),
    ],
)
def test_a_pattern_matches_what_the_documentation_says(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("src/**", "src/auth/login.py", True),
        ("src/**", "src", True),
        ("src/**", "srcs", False),
        ("src/**", "lib/**", False),
        ("src/*.py", "src/a*", True),
        ("src/*.py", "src/*.js", False),
        ("*a", "b*", True),
        ("a*", "b*", False),
        ("**/test_*.py", "src/**", True),
        ("**/a/**", "**/b/**", True),
        ("*/a", "b/*", True),
        ("*/a", "b", False),
        ("?", "??", False),
        ("[a-c]", "[c-e]", True),
        ("[a-c]", "[d-f]", False),
        ("[!a]", "a", False),
        ("[!a]", "[!b]", True),
        ("[!a-c]", "[b-d]", True),
        ("[!a-d]", "[b-d]", False),
        ("[.-0]", "[!.0]", False),
        ("x[!é]", "x[é-ê]", True),
        ("[[]a]", "[a]", True),
        ("[[]ab]", "a", False),
    ],
)
def test_patterns_overlap_exactly_when_a_path_could_be_in_both(a: str, b: str, expected: bool) -> None:
    assert overlap(a, b) is expected
    assert overlap(b, a) is expected


def accepts(pattern: str, path: str) -> bool:
    """The same language by other means: a regular expression over components closed by `/`."""
    tokens = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}
    out = ""
    for token in re.findall(r"\*\*/|\[.[^]]*\]|.", pattern + "/"):
        brackets = f"(?:(?=[^/]){token.replace('!', '^')}|{re.escape(token)})"
        out += tokens.get(token) or (brackets if len(token) > 1 else re.escape(token))
    return re.fullmatch(out, path + "/") is not None


def joined(parts: str | list[str], most: int, by: str = "/") -> list[str]:
    """All ways to join one up to `most` of the parts."""
    return [by.join(some) for n in range(1, most + 1) for some in itertools.product(parts, repeat=n)]


# In a shortest common path every component is read by a component other than `**` on one side or the other,
# else it could be left out; so it has no more components than both patterns together. For the same
# reason a component has no more characters than both have besides `*`. The paths below reach that bound.
@pytest.mark.parametrize(
    ("patterns", "candidates"),
    [
        (joined(["a", "b", "*", "**"], 3), joined("ab", 6)),
        (joined(["a", "?b", "*", "a*", "**"], 2), joined(["a", "b", "ab", "bb", "aa"], 4)),
        ([p for p in joined("ab?*", 3, by="") if "**" not in p], joined("ab", 6, by="")),
    ],
)
def test_overlap_says_yes_exactly_when_a_witness_exists(patterns: list[str], candidates: list[str]) -> None:
    matched = {p: {c for c in candidates if accepts(p, c)} for p in patterns}
    wrong = [(a, b) for a, b in itertools.product(patterns, repeat=2) if overlap(a, b) != bool(matched[a] & matched[b])]
    assert wrong == []


COMPONENTS = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[a-c]", "[b]"]), min_size=1, max_size=3)
PATTERNS = st.lists(st.just("**") | COMPONENTS.map("".join), min_size=1, max_size=3).map(
    lambda parts: canonical("/".join(parts))
)
NAMES = ["a", "b", "c", "d", "ab", "ba", "cc", "abc", "[b]", "[!a]", "[ab]a"]
CANDIDATES = joined(NAMES, 2) + joined(["a", "bc"], 4)


@settings(deadline=None, max_examples=150)
@given(PATTERNS, PATTERNS)
def test_no_two_patterns_that_share_a_path_are_kept_apart(a: str, b: str) -> None:
    shared = [path for path in CANDIDATES if accepts(a, path) and accepts(b, path)]
    assert overlap(a, b) == overlap(b, a)
    assert overlap(a, b) or not shared
    assert all(matches(a, path) and matches(b, path) for path in shared[:5])


@settings(deadline=None, max_examples=150)
@given(PATTERNS, st.sampled_from(CANDIDATES))
def test_matching_agrees_with_a_regular_expression(pattern: str, path: str) -> None:
    assert matches(pattern, path) == accepts(pattern, path)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("**/**/**/*a*a*a*a*a*a*a*a*b", "/".join(["a" * 60] * 8)),
        ("**/a/" * 12 + "b", "a/" * 100 + "c"),
        ("*a" * 60 + "b", "a*" * 60 + "c"),
        ("[!b]*" * 50 + "x", "*[!c]" * 50 + "y"),
    ],
)
def test_a_hostile_pattern_costs_no_exponential_time(a: str, b: str) -> None:
    started = time.process_time()
    assert not overlap(a, b)
    assert not matches(a, b)
    assert time.process_time() - started < 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", False),
        ("a*", True),
        ("?", True),
        ("[ab]", True),
        ("[[]ab]", False),
        ("[*]", False),
        ("[a]", True),
    ],
)
def test_only_an_active_wildcard_makes_a_glob(text: str, expected: bool) -> None:
    assert is_glob(text) is expected


# --- The repository ---------------------------------------------------------------------


def test_all_worktrees_share_one_common_directory(cloned: Path) -> None:
    other = cloned.parent / "elsewhere"
    git(cloned, "worktree", "add", "-q", str(other))
    (other / "deep").mkdir()
    here, there = repository(str(cloned)), repository(str(other / "deep"))
    assert here is not None
    assert there is not None
    assert (here.root, there.root) == (str(cloned), str(other))
    assert here.common == there.common == str(cloned / ".git")


def test_a_submodule_is_its_own_repository(repo: Path) -> None:
    module = repo / ".git" / "modules" / "lib"
    module.mkdir(parents=True)
    (repo / "lib").mkdir()
    (repo / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n")
    found = repository(str(repo / "lib"))
    assert found is not None
    assert (found.root, found.common) == (str(repo / "lib"), str(module))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"gitdir:", b"gitdir: /no/such", b"\xff\0\xfe", b"gitdir: a\nb"])
def test_a_broken_git_file_does_not_hide_the_repository_around_it(repo: Path, content: bytes) -> None:
    (repo / "src" / ".git").write_bytes(content)
    found = repository(str(repo / "src"))
    assert found is not None
    assert found.root == str(repo)


def test_a_pipe_named_like_git_blocks_nobody(repo: Path) -> None:
    os.mkfifo(repo / "src" / ".git")
    assert repository(str(repo / "src")) is not None


def test_being_denied_is_none_and_not_the_repository_around_it(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str, flags: int) -> int:
        raise PermissionError(13, "denied", path)

    monkeypatch.setattr(repositories, "_open_now", denied)
    assert repository(str(repo / "src")) is None


def test_outside_of_any_repository_the_project_is_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repositories, "_git_dirs", lambda top: ("", ""))
    assert repository(str(tmp_path)) is None
    assert repository("a\0b") is None
    assert project_names(str(tmp_path)) == "default"


def test_start_up_imports_nothing_that_costs_time() -> None:
    code = """
import os, sys
before = set(sys.modules)
import tiebreak.paths
print(*sorted(m for m in set(sys.modules) - before if not m.startswith("tiebreak")))
"""
    out = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert set(out.split()) <= {"__future__"}
