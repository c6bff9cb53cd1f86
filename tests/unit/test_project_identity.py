"""The project of a repository: one name for all its worktrees and clones, however its remote is written."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tiebreak import Invalid
from tiebreak import repository as repositories
from tiebreak.names import BY_COMMIT, BY_PATH, project
from tiebreak.project_identity import PIN, ProjectIdentity, identify, old_name, spare_pin
from tiebreak.project_rules import origin_name
from tiebreak.repository import repository


def git(folder: Path, *words: str) -> str:
    """Run git with a name and an address, and without the user's configuration."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    options = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
    return subprocess.run(
        ["git", *options, *words], cwd=folder, env=environ, check=True, capture_output=True, text=True
    ).stdout.strip()


def identity(folder: Path) -> ProjectIdentity:
    """The identity of the project of a folder, which is in a repository."""
    found = repository(str(folder))
    assert found is not None
    return identify(found)


def name(folder: Path) -> str:
    """What its project is called."""
    return identity(folder).name


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, without settings for git or SSH."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / "state"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a commit and no remote."""
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    git(made, "commit", "-q", "--allow-empty", "-m", "first")
    git(made, "commit", "-q", "--allow-empty", "-m", "second")
    return made


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A repository with neither a commit nor a remote."""
    made = tmp_path / "empty"
    made.mkdir()
    git(made, "init", "-q")
    return made


# ── Remotes ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/shop",
        "https://github.com/acme/shop.git",
        "https://github.com/Acme/Shop.git/",
        "https://user:secret@github.com:443/acme/shop.git",
        "http://github.com//acme/./shop",
        "git@github.com:acme/shop.git",
        "github.com:acme/shop",
        "git@github.com:/acme/shop.git",
        "ssh://git@github.com/acme/shop.git",
        "ssh://git@github.com:22/acme/shop",
        "ssh://git@ssh.github.com:443/acme/shop.git",
        "git+ssh://git@github.com/acme/shop",
        "git://github.com/acme/shop.git",
        "https://www.github.com/acme/shop",
        "https://github.com/%61cme/shop",
    ],
)
def test_one_repository_has_one_name_however_its_address_is_written(url: str) -> None:
    assert origin_name(url) == "github.com/acme/shop"


def test_different_repositories_have_different_names() -> None:
    urls = [
        "https://github.com/acme/shop",
        "https://gitlab.com/acme/shop",
        "https://github.com/acme/shop2",
        "https://github.com/acme/sho/p",
        "https://github.com/fork/shop",
        "git@[::1]:acme/shop",
        "git@[::2]:acme/shop",
        "codecommit::eu-west-1://shop",
        "codecommit::eu-west-2://shop",
        "https://git.sr.ht/~acme/shop",
        "https://git.sr.ht/-acme/shop",
        f"https://example.org/{'x' * 80}/a",
        f"https://example.org/{'x' * 80}/b",
    ]
    names = [origin_name(url) for url in urls]
    assert len(set(names)) == len(urls)
    assert [project(each) for each in names] == names, "each can be the name of a project"


def test_both_addresses_of_azure_devops_have_one_name() -> None:
    ssh, https = "git@ssh.dev.azure.com:v3/acme/web/shop", "https://acme@dev.azure.com/acme/web/_git/shop"
    assert origin_name(ssh) == origin_name(https) == "dev.azure.com/acme/web/_git/shop"


def test_both_addresses_of_a_bitbucket_server_have_one_name() -> None:
    ssh, https = "ssh://git@bb.example.org:7999/prj/shop.git", "https://bb.example.org/scm/prj/shop.git"
    assert origin_name(ssh) == origin_name(https) == "bb.example.org/prj/shop"


@pytest.mark.parametrize("url", ["http://localhost:3000/a/shop", "git@127.0.0.1:a/shop", "ssh://git@[::1]:22/a/shop"])
def test_a_server_on_the_own_machine_means_nothing_to_others(repo: Path, url: str) -> None:
    git(repo, "remote", "add", "origin", url)
    assert name(repo).startswith(BY_COMMIT)


@pytest.mark.parametrize("url", ["local:shop", "commit:shop", "https://default"])
def test_no_host_is_taken_for_another_rule(url: str) -> None:
    assert not origin_name(url).startswith((BY_COMMIT, BY_PATH))
    assert origin_name(url) != "default"


def test_an_alias_in_the_ssh_configuration_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A stand-in: ssh reads the home folder of the password file, which a test must not write to.
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "ssh").write_text("#!/bin/sh\necho user git\necho hostname GitHub.com\n")
    (bin_ / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    assert origin_name("git@work:acme/shop.git") == "github.com/acme/shop"
    assert origin_name("git@github.com-work:acme/shop.git") == "github.com/acme/shop"
    (bin_ / "ssh").write_text("#!/bin/sh\necho hostname 10.0.0.1\n")
    assert origin_name("git@git.example.org:acme/shop.git") == "git.example.org/acme/shop"


def test_two_clones_of_a_server_are_one_project(repo: Path, tmp_path: Path) -> None:
    for each, url in (("x", "git@example.org:acme/shop.git"), ("y", "https://example.org/acme/shop")):
        git(tmp_path, "clone", "-q", str(repo), each)
        git(tmp_path / each, "remote", "set-url", "origin", url)
    assert name(tmp_path / "x") == name(tmp_path / "y") == "example.org/acme/shop"
    assert identity(tmp_path / "x").rule == "origin"


def test_a_fork_is_another_project(repo: Path, tmp_path: Path) -> None:
    git(repo, "remote", "add", "origin", "https://example.org/acme/shop")
    git(tmp_path, "clone", "-q", str(repo), "fork")
    git(tmp_path / "fork", "remote", "set-url", "origin", "https://example.org/ada/shop")
    assert name(tmp_path / "fork") == "example.org/ada/shop" != name(repo)


def test_insteadof_is_honoured(repo: Path, tmp_path: Path) -> None:
    git(repo, "remote", "add", "origin", "gh:acme/shop")
    (tmp_path / "home" / ".gitconfig").write_text(
        '[url "https://github.com/"]\n\tinsteadOf = gh:\n[url "https://no.example/"]\n\tinsteadOf = g\n'
    )
    assert name(repo) == "github.com/acme/shop", "the longest one counts"


def test_the_only_remote_counts_whatever_it_is_called(repo: Path, tmp_path: Path) -> None:
    git(repo, "remote", "add", "upstream", "https://example.org/acme/shop")
    assert name(repo) == "example.org/acme/shop"
    git(tmp_path, "clone", "-q", str(repo), "other")
    git(tmp_path / "other", "remote", "remove", "origin")
    for each in ("one", "two"):
        git(tmp_path / "other", "remote", "add", each, f"https://example.org/{each}/shop")
    assert name(tmp_path / "other").startswith(BY_COMMIT), "of two, neither counts"


def test_a_remote_on_this_machine_is_followed(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    git(tmp_path / "bare.git", "remote", "set-url", "origin", "https://example.org/acme/shop")
    for each, url in (
        ("path", str(tmp_path / "bare")),
        ("file", f"file://{tmp_path}/bare.git"),
        ("near", "../bare.git"),
    ):
        git(tmp_path, "clone", "-q", str(tmp_path / "bare.git"), each)
        git(tmp_path / each, "remote", "set-url", "origin", url)
        assert (each, name(tmp_path / each)) == (each, "example.org/acme/shop")
    git(tmp_path, "clone", "-q", str(tmp_path / "path"), "again")
    assert name(tmp_path / "again") == "example.org/acme/shop"


def test_remotes_in_a_circle_are_not_followed_for_ever(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repo), "other")
    git(repo, "remote", "add", "origin", str(tmp_path / "other"))
    assert name(repo) == name(tmp_path / "other")
    assert name(repo).startswith(BY_COMMIT)


def test_a_remote_that_is_gone_leaves_the_first_commit(repo: Path, tmp_path: Path) -> None:
    expected = BY_COMMIT + git(repo, "rev-list", "--max-parents=0", "HEAD")[:24]
    git(tmp_path, "clone", "-q", str(repo), "other")
    git(tmp_path / "other", "remote", "set-url", "origin", "/no/such/place")
    assert name(tmp_path / "other") == expected


# ── Commits and paths ────────────────────────────────────────────────────────────────────────────────


def test_copies_without_a_remote_are_known_by_their_first_commit(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repo), "copy")
    git(tmp_path / "copy", "remote", "remove", "origin")
    git(tmp_path / "copy", "checkout", "-q", "--orphan", "pages")
    git(tmp_path / "copy", "commit", "-q", "--allow-empty", "-m", "another beginning")
    assert name(repo) == name(tmp_path / "copy") == BY_COMMIT + git(repo, "rev-list", "--max-parents=0", "main")[:24]


def test_a_shallow_clone_without_a_remote_is_known_by_its_path_alone(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    git(tmp_path / "shallow", "remote", "remove", "origin")
    assert identity(tmp_path / "shallow").rule == "path"
    assert name(tmp_path / "shallow").startswith(f"{BY_PATH}shallow-")


def test_two_repositories_at_one_path_are_two_projects(empty: Path, tmp_path: Path) -> None:
    first = name(empty)
    empty.rename(tmp_path / "kept")  # it stays, so that its folder's number is not given again
    empty.mkdir()
    git(empty, "init", "-q")
    assert name(empty) != first
    assert name(tmp_path / "kept") == first, "it goes with the repository"


def test_names_of_paths_can_be_names_of_projects(tmp_path: Path) -> None:
    for each in ("Ü" * 60, ".hidden", "-x", "a b", "x" * 200):
        (tmp_path / each / ".git").mkdir(parents=True)
        assert project(name(tmp_path / each)).startswith(BY_PATH)
        for one in identity(tmp_path / each).names.split(" "):
            assert project(one) == one


def test_a_submodule_is_a_project_of_its_own(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repo), "lib")
    git(tmp_path / "lib", "remote", "set-url", "origin", "https://example.org/acme/lib")
    git(repo, "remote", "add", "origin", "https://example.org/acme/shop")
    git(repo, "submodule", "add", "-q", str(tmp_path / "lib"), "lib")
    assert name(repo / "lib") == "example.org/acme/lib"
    assert name(repo) == "example.org/acme/shop"


def test_all_worktrees_of_a_bare_repository_are_one_project(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "tool.git")
    git(tmp_path / "tool.git", "remote", "remove", "origin")
    for each in ("one", "two"):
        git(tmp_path / "tool.git", "worktree", "add", "-q", str(tmp_path / each), "-b", each)
    assert name(tmp_path / "one") == name(tmp_path / "two") == name(repo)


def test_a_repository_that_was_known_by_its_path_learns_more_and_says_what_it_was(empty: Path, tmp_path: Path) -> None:
    path = name(empty)
    assert path.startswith(BY_PATH)
    git(empty, "commit", "-q", "--allow-empty", "-m", "first")
    assert name(empty).startswith(BY_COMMIT)
    assert identity(empty).names.split(" ")[-1] == path
    git(tmp_path, "clone", "-q", str(empty), "clone")
    assert name(tmp_path / "clone") == name(empty)


def test_clones_of_a_hub_that_was_empty_agree(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "hub.git")
    for each in ("one", "two"):
        git(tmp_path, "clone", "-q", "hub.git", each)
        assert name(tmp_path / each).startswith(BY_PATH)
    git(tmp_path / "one", "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path / "one", "push", "-q", "origin", "HEAD")
    git(tmp_path, "clone", "-q", "hub.git", "three")
    git(tmp_path / "two", "pull", "-q")
    assert name(tmp_path / "one") == name(tmp_path / "two") == name(tmp_path / "three")
    assert name(tmp_path / "one").startswith(BY_COMMIT)


# ── Pins ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_remote_that_is_added_later_does_not_change_the_name(repo: Path) -> None:
    before = name(repo)
    git(repo, "remote", "add", "origin", "https://example.org/acme/shop")
    assert name(repo) == before


def test_git_runs_only_for_the_first_command(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_, log = tmp_path / "bin", tmp_path / "log"
    bin_.mkdir()
    real = shutil.which("git")
    (bin_ / "git").write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    (bin_ / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    first = name(repo)
    ran = log.read_text()
    assert ran
    assert [name(repo) for _ in range(3)] == [first] * 3
    assert log.read_text() == ran


def test_a_repository_that_cannot_be_written_is_pinned_in_the_users_folder(repo: Path) -> None:
    (repo / ".git" / PIN).mkdir()  # nobody can write a file there, not even root
    first = name(repo)
    assert Path(spare_pin(str(repo / ".git"))).is_file()
    git(repo, "remote", "add", "origin", "https://example.org/acme/shop")
    assert name(repo) == first


@pytest.mark.parametrize(
    "content", ["", "tiebreak 1\n", "tiebreak 1\nA b\norigin\n\n\n", "\0" * 5000, "nonsense\n" * 9]
)
def test_a_damaged_pin_is_made_again(repo: Path, content: str) -> None:
    first = name(repo)
    (repo / ".git" / PIN).write_text(content)
    assert name(repo) == first
    assert (repo / ".git" / PIN).read_text().split("\n")[1] == first


def test_a_machine_without_git_pins_no_path(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert name(repo).startswith(BY_PATH)
        git_config = (repo / ".git" / "config").read_text()
        (repo / ".git" / "config").write_text(git_config + '[remote "origin"]\n\turl = git@example.org:acme/shop.git\n')
        assert name(repo) == "example.org/acme/shop", "the remote can be read without git"
        (repo / ".git" / PIN).unlink()
        (repo / ".git" / "config").write_text(git_config)
    assert name(repo).startswith(BY_COMMIT)


def test_a_pipe_in_place_of_a_pin_blocks_nobody(repo: Path) -> None:
    os.mkfifo(repo / ".git" / PIN)
    assert name(repo).startswith(BY_COMMIT)


def test_a_password_in_the_address_is_not_stored(repo: Path) -> None:
    git(repo, "remote", "add", "origin", "https://ada:secret@example.org/acme/shop")
    assert name(repo) == "example.org/acme/shop"
    assert "secret" not in (repo / ".git" / PIN).read_text()
    assert "secret" not in identity(repo).source


def test_processes_that_come_at_once_agree(repo: Path) -> None:
    with ProcessPoolExecutor(6, mp_context=get_context("forkserver")) as pool:
        assert len(set(pool.map(name, [repo] * 12))) == 1
    assert [each.name for each in (repo / ".git").glob(f"{PIN}*")] == [PIN], "nothing is left beside it"


def test_a_clone_says_what_older_versions_called_it(repo: Path) -> None:
    old = old_name(str(repo / ".git"))
    assert old.startswith("repo-")
    assert len(old) == len("repo-") + 6
    assert identity(repo).names == f"{name(repo)} {old}"


# ── git config ───────────────────────────────────────────────────────────────────────────────────────


def test_several_machines_agree_on_a_name_through_git_config(repo: Path) -> None:
    git(repo, "config", "tiebreak.project", "team/App-1")
    assert name(repo) == "team/App-1"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('[Tiebreak]\n\tProject = "one"\n', "one"),
        ("[tiebreak] project=two ; why\n", "two"),
        ("[tiebreak]\nproject = a\n[core]\nproject = b\n[tiebreak]\nproject = three # why\n", "three"),
        ("[core]\nproject = no\n", BY_COMMIT),
        ('[tiebreak "sub"]\nproject = no\n', BY_COMMIT),
        ("[tiebreak]\nproject\nprojects = no\n", BY_COMMIT),
        ("[tiebreak]\nproject =\n", BY_COMMIT),
        ("[tiebreak\n\xff=\n]]=[\n", BY_PATH),
    ],
)
def test_only_our_own_line_of_the_git_config_is_read(repo: Path, config: str, expected: str) -> None:
    (repo / ".git" / "config").write_text(config, encoding="latin-1")
    chosen = name(repo)
    assert chosen == expected or (expected in (BY_COMMIT, BY_PATH) and chosen.startswith(expected))


@pytest.mark.parametrize("chosen", ["a b", "a:b", "x" * 65, "é", "a\x1b[2J"])
def test_a_project_name_that_cannot_be_used_is_refused(repo: Path, chosen: str) -> None:
    (repo / ".git" / "config").write_text(f"[tiebreak]\nproject = {chosen}\n", encoding="utf-8")
    with pytest.raises(Invalid, match="git config") as caught:
        name(repo)
    assert str(caught.value).isprintable()


def test_a_git_config_that_may_not_be_read_is_no_config(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = name(repo)
    (repo / ".git" / "config").write_text("[tiebreak]\nproject = x\n")
    open_now = repositories._open_now

    def denied(path: str, flags: int) -> int:
        if path.endswith("config"):
            raise PermissionError(13, "denied", path)
        return open_now(path, flags)

    monkeypatch.setattr(repositories, "_open_now", denied)
    assert name(repo) == expected
