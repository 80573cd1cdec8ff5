"""The patch queue and its git tree: support/core-edit, core-patches and core-table."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

HEADER = "What: x\n\nWhy: y\n\nUpstream status: not sent\nHow to drop: on its own\n"
LINES = "".join(f"line {number}\n" for number in range(30))
#: What git would change if it went by the attributes of the source or left out what it ignores
SOURCE = {
    "src/a.cpp": LINES,
    "src/b.h": LINES,
    "src/windows.txt": "one\r\ntwo\r\n",
    "src/ignored.log": "kept\n",
    ".gitignore": "*.log\n",
    ".gitattributes": "* text=auto\n",
}
README = (
    "The last two columns: not measured yet.\n\n| Patch | Subject | Lines | Conflicts | Rest |\n"
    "|---|---|---|---|---|\n| 0000 | a: one |\n| 0000 | b: two |\n"
)


def git(folder: Path, *command: str) -> str:
    """Runs git as a user would, without this machine's settings; what it prints."""
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *command],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_EDITOR": "true"},
    ).stdout.strip()


def packed(files: dict[str, str], top: str) -> bytes:
    """A .tar.gz of the files below a folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


@dataclass
class Lab:
    """A copy of Cairn's scripts with a Core of a few files and an empty queue."""

    folder: Path

    @property
    def repo(self) -> Path:
        """The copy; its path has a space."""
        return self.folder / "a b/repo"

    @property
    def cache(self) -> Path:
        """CAIRN_CACHE, with the pinned source in it."""
        return self.folder / "cache"

    @property
    def clone(self) -> Path:
        """Upstream's repository."""
        return self.folder / "clone"

    @property
    def queue(self) -> Path:
        """The folder of patches."""
        return self.repo / "patches/bitcoind-chainstate"

    @property
    def tree(self) -> Path:
        """The git tree that core-edit makes."""
        return self.repo / "out/edit/core"

    def pin(self, files: dict[str, str]) -> None:
        """Makes these files a commit of upstream and the pinned source."""
        for name, text in files.items():
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            (self.clone / name).write_bytes(text.encode())
        git(self.clone, "add", "-f", "-A")
        git(self.clone, "commit", "-q", "--allow-empty", "-m", "upstream")
        commit = git(self.clone, "rev-parse", "HEAD")
        folder = self.repo / "package/bitcoind-chainstate"
        env = folder / "source.env"
        env.write_text(re.sub("CORE_COMMIT=.*", f"CORE_COMMIT={commit}", env.read_text()))
        archive = packed(files, f"bitcoind-chainstate-{commit}")
        (self.cache / "downloads").mkdir(parents=True, exist_ok=True)
        (self.cache / f"downloads/bitcoind-chainstate-{commit}.tar.gz").write_bytes(archive)
        (folder / "bitcoind-chainstate.hash").write_text(
            f"sha256  {hashlib.sha256(archive).hexdigest()}  bitcoind-chainstate-{commit}.tar.gz\n"
        )

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a script of support/."""
        return subprocess.run(
            [str(self.repo / "support" / command[0]), *command[1:]],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "CAIRN_CACHE": str(self.cache), **env},
        )

    def good(self, *command: str, **env: str) -> str:
        """Runs a script of support/ that has to succeed; its output."""
        result = self.run(*command, **env)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def refused(self, *command: str) -> str:
        """Runs a script of support/ that has to refuse; its last line."""
        before = self.patches()
        result = self.run(*command)
        assert result.returncode == 1, result.stdout + result.stderr
        assert self.patches() == before
        return result.stderr.strip().splitlines()[-1]

    def commit(self, subject: str, path: str, old: str, new: str, message: str = HEADER) -> None:
        """A commit in the tree that replaces a text of a file; an empty one makes a file."""
        file = self.tree / path
        file.write_text(file.read_text().replace(old, new, 1) if old else new)
        git(self.tree, "add", "-f", path)
        git(self.tree, "commit", "-q", "--date=@1700000000 +0000", "-m", subject, "-m", message)

    def patches(self) -> dict[str, bytes]:
        """The queue's files."""
        return {path.name: path.read_bytes() for path in self.queue.glob("*.patch")}


@pytest.fixture(scope="module")
def made(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab whose queue has two patches, `a: one` and `b: two`, and its tree."""
    folder = tmp_path_factory.mktemp("queue")
    lab = Lab(folder)
    for name in ("support", "package"):
        shutil.copytree(root / name, lab.repo / name)
    lab.queue.mkdir(parents=True)
    (lab.queue / "README.md").write_text(README)
    lab.clone.mkdir()
    git(lab.clone, "init", "-q")
    lab.pin(SOURCE)
    lab.good("core-edit", "core")
    lab.commit("a: one", "src/a.cpp", "line 3\n", "line three\n")
    lab.commit("b: two", "src/b.h", "line 9\n", "line nine\nand a half\n")
    lab.good("core-patches", "core")
    return folder


@pytest.fixture
def lab(made: Path, tmp_path: Path) -> Lab:
    """A copy of that lab."""
    shutil.copytree(made, tmp_path / "lab")
    return Lab(tmp_path / "lab")


def test_tree_is_the_source(lab: Lab) -> None:
    """Every byte of the archive is in the commit `stock`, whatever its attributes say."""
    for name, text in SOURCE.items():
        blob = subprocess.run(
            ["git", "show", f"stock:{name}"], cwd=lab.tree, check=True, capture_output=True
        ).stdout
        assert blob == text.encode(), name
    stock = git(lab.tree, "rev-parse", "stock^{commit}")
    shutil.rmtree(lab.tree)
    lab.good("core-edit", "core")
    assert git(lab.tree, "rev-parse", "stock^{commit}") == stock


def test_changed_commit_changes_its_patch(lab: Lab) -> None:
    """An edit of the first commit comes out in its file; the other one is left alone."""
    names = ["0001-a-one.patch", "0002-b-two.patch"]
    assert sorted(lab.patches()) == names
    shutil.rmtree(lab.tree)
    lab.good("core-edit", "core")
    assert git(lab.tree, "log", "--format=%s", "--reverse", "stock..queue") == "a: one\nb: two"
    assert lab.good("core-patches", "core") == ""
    (lab.tree / "src/a.cpp").write_text(LINES.replace("line 3\n", "line III\n"))
    git(lab.tree, "commit", "-q", "-a", "--fixup=HEAD^")
    git(lab.tree, "rebase", "-q", "-i", "--autosquash", "stock")
    before = lab.patches()
    folder = "patches/bitcoind-chainstate"
    assert lab.good("core-patches", "core") == f"changed: {folder}/{names[0]}\n"
    assert b"+line III\n" in lab.patches()[names[0]]
    assert lab.patches()[names[1]] == before[names[1]]
    lab.good("core-patches", "--check", "core")


def test_added_and_dropped_commits(lab: Lab) -> None:
    """A commit more is a file more, a commit less a file less; a new file is one of them."""
    lab.commit("c: three", "src/new.cpp", "", "new\n")
    lab.commit("d: four", "src/new.cpp", "new\n", "newer\n")
    said = lab.good("core-patches", "core").splitlines()
    assert [line.split("/")[-1] for line in said] == ["0003-c-three.patch", "0004-d-four.patch"]
    lab.good("core-patches", "--check", "core")
    git(lab.tree, "rebase", "-q", "--onto", "stock", "stock~0", "queue")
    git(lab.tree, "reset", "-q", "--hard", "HEAD~3")
    said = lab.good("core-patches", "core").splitlines()
    assert [line.split(":")[0] for line in said] == ["removed"] * 3
    assert list(lab.patches()) == ["0001-a-one.patch"]


def test_settings_change_no_byte(lab: Lab, tmp_path: Path) -> None:
    """The user's and the tree's settings of git do not show in the patches."""
    before = lab.patches()
    settings = {
        "core.abbrev": "40",
        "core.autocrlf": "true",
        "core.quotePath": "false",
        "commit.gpgSign": "true",
        "diff.algorithm": "patience",
        "diff.context": "9",
        "diff.external": "false",
        "diff.mnemonicPrefix": "true",
        "diff.noprefix": "true",
        "diff.renames": "false",
        "diff.statGraphWidth": "1",
        "format.attach": "x",
        "format.from": "true",
        "format.signature": "mine",
        "format.subjectPrefix": "MINE",
        "format.suffix": ".txt",
        "format.thread": "deep",
        "format.numbered": "true",
        "i18n.logOutputEncoding": "UTF-16",
    }
    user = tmp_path / "gitconfig"
    for name, value in settings.items():
        git(tmp_path, "config", "--file", str(user), name, value)
        git(lab.tree, "config", name, value)
    env = {"GIT_CONFIG_GLOBAL": str(user), "GIT_DIFF_OPTS": "-u9", "GIT_DIR": "/nonexistent"}
    git(lab.tree, "update-ref", "refs/cairn/written", "stock")
    assert lab.good("core-patches", "core", **env) == ""
    shutil.rmtree(lab.tree)
    lab.good("core-edit", "core", **env)
    assert lab.good("core-patches", "core", **env) == ""
    lab.good("core-patches", "--check", "core", **env)
    assert lab.patches() == before


def test_short_ids_of_files_have_seven_digits(lab: Lab) -> None:
    """Git's own short ids are longer where another object in the repository begins like them."""
    found = re.search(rb"^index (\w+)\.\.(\w+) 100644$", lab.patches()["0001-a-one.patch"], re.M)
    assert found
    ids = [git(lab.tree, "rev-parse", f"{name}:src/a.cpp") for name in ("stock", "queue")]
    assert [word.decode() for word in found.groups()] == [whole[:7] for whole in ids]


def dirty(lab: Lab) -> None:
    """A change in no commit."""
    (lab.tree / "src/a.cpp").write_text("x")


def untracked(lab: Lab) -> None:
    """A file in no commit."""
    (lab.tree / "src/forgotten.cpp").write_text("x")


def merge(lab: Lab) -> None:
    """A merge on top."""
    git(lab.tree, "branch", "side", "HEAD^")
    lab.commit("c: three", "src/new.cpp", "", "x\n")
    git(lab.tree, "checkout", "-q", "side")
    lab.commit("d: four", "src/a.cpp", "line 20\n", "x\n")
    git(lab.tree, "checkout", "-q", "queue")
    git(lab.tree, "merge", "-q", "--no-edit", "side")


def no_word(lab: Lab) -> None:
    """A message that does not say how to drop the patch."""
    lab.commit("c: three", "src/a.cpp", "line 20\n", "x\n", HEADER.replace("How to drop", "How"))


def fixup(lab: Lab) -> None:
    """A fixup that was not squashed."""
    lab.commit("fixup! b: two", "src/a.cpp", "line 20\n", "x\n")


def empty(lab: Lab) -> None:
    """A commit without a change."""
    git(lab.tree, "commit", "-q", "--allow-empty", "-m", "c: three", "-m", HEADER)


def dashes(lab: Lab) -> None:
    """A message that ends early for git am."""
    lab.commit("c: three", "src/a.cpp", "line 20\n", "x\n", f"{HEADER}\n---\nlost\n")


def moved(lab: Lab) -> None:
    """The tag on another commit."""
    git(lab.tree, "tag", "-f", "stock", "queue^")


def aside(lab: Lab) -> None:
    """Commits on another root."""
    git(lab.tree, "checkout", "-q", "--orphan", "other")
    git(lab.tree, "commit", "-q", "-m", "other")


def other_pin(lab: Lab) -> None:
    """A new pin of which the tree knows nothing."""
    lab.pin(SOURCE | {"src/b.h": "other\n"})


def changed_folder(lab: Lab) -> None:
    """A patch that somebody changed in the folder, and a new commit in the tree."""
    lab.commit("c: three", "src/a.cpp", "line 20\n", "x\n")
    patch = lab.queue / "0002-b-two.patch"
    patch.write_text(patch.read_text().replace("What: x", "What: z"))


def rebasing(lab: Lab) -> None:
    """A rebase that has stopped at a conflict."""
    git(lab.tree, "checkout", "-q", "-b", "side", "stock")
    lab.commit("c: three", "src/a.cpp", "line 3\n", "x\n")
    git(lab.tree, "checkout", "-q", "queue")
    with pytest.raises(subprocess.CalledProcessError):
        git(lab.tree, "rebase", "side")


def no_tree(lab: Lab) -> None:
    """Nothing to write."""
    shutil.rmtree(lab.tree)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (dirty, "has changes that are in no commit"),
        (untracked, "has changes that are in no commit"),
        (merge, "there is a merge in out/edit/core"),
        (no_word, "c: three' in out/edit/core has no 'How to drop:' in its message"),
        (fixup, "fixup! b: two' in out/edit/core is not squashed yet"),
        (empty, "c: three' in out/edit/core changes nothing"),
        (dashes, "git does not make the same of its own patch (0003-c-three.patch"),
        (moved, "the tag stock in out/edit/core is not the pinned source"),
        (aside, "are not on top of the tag stock"),
        (other_pin, "'make core-edit' rebases the patches on it"),
        (changed_folder, "have changed since out/edit/core was made from them"),
        (rebasing, "a git rebase is under way in out/edit/core"),
        (no_tree, "there is no git tree out/edit/core"),
    ],
)
def test_nothing_is_written(lab: Lab, spoil: Callable[[Lab], None], sentence: str) -> None:
    """What is no queue of the house is refused in one sentence, and no patch is touched."""
    spoil(lab)
    assert sentence in lab.refused("core-patches", "core")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (dirty, "has changes that are in no commit"),
        (untracked, "has changes that are in no commit"),
        (fixup, "has commits that are not in patches/bitcoind-chainstate; write them there"),
        (rebasing, "a git rebase is under way in out/edit/core"),
    ],
)
def test_work_is_not_overwritten(lab: Lab, spoil: Callable[[Lab], None], sentence: str) -> None:
    """core-edit leaves work alone that is not in the patches, also when those have changed."""
    spoil(lab)
    head, files = git(lab.tree, "rev-parse", "HEAD"), git(lab.tree, "status", "--porcelain")
    assert sentence in lab.refused("core-edit", "core")
    (lab.queue / "0002-b-two.patch").unlink()
    assert sentence in lab.refused("core-edit", "core")
    assert git(lab.tree, "rev-parse", "HEAD") == head
    assert git(lab.tree, "status", "--porcelain") == files


def test_tree_without_its_patches(lab: Lab) -> None:
    """core-edit was ended when it had unpacked the source: the next run applies the patches."""
    git(lab.tree, "reset", "-q", "--hard", "stock")
    git(lab.tree, "update-ref", "refs/cairn/written", "stock")
    git(lab.tree, "config", "--unset", "cairn.queue")
    lab.good("core-edit", "core")
    assert git(lab.tree, "log", "--format=%s", "stock..queue") == "b: two\na: one"


def test_detached_commits_are_not_lost(lab: Lab) -> None:
    """Commits that no branch has: refused, until a branch has them."""
    git(lab.tree, "checkout", "-q", "--detach")
    fixup(lab)
    assert "keep them with 'git branch mine'" in lab.refused("core-edit", "core")
    git(lab.tree, "branch", "mine")
    lab.good("core-edit", "core")


@pytest.mark.parametrize("where", [("--detach", "HEAD^"), ("-b", "old", "stock")])
def test_older_commits_take_no_patch_away(lab: Lab, where: tuple[str, ...]) -> None:
    """Somebody looked at an older commit: nothing is written, and the queue stays."""
    before = lab.patches()
    git(lab.tree, "checkout", "-q", *where)
    assert "patches would be lost" in lab.refused("core-patches", "core")
    assert lab.patches() == before
    git(lab.tree, "checkout", "-q", "queue")
    lab.good("core-patches", "core")


def test_changed_folder_is_merged(lab: Lab) -> None:
    """The way that core-patches names out of changes on both sides ends with both of them."""
    changed_folder(lab)
    assert "git rebase queue mine" in lab.refused("core-patches", "core")
    git(lab.tree, "branch", "-m", "mine")
    lab.good("core-edit", "core")
    git(lab.tree, "rebase", "-q", "queue", "mine")
    said = lab.good("core-patches", "core")
    assert said == "new: patches/bitcoind-chainstate/0003-c-three.patch\n"
    assert b"What: z" in lab.patches()["0002-b-two.patch"]


def test_changed_folder_without_work_is_applied(lab: Lab) -> None:
    """After a pull, say, core-edit applies the patches anew."""
    patch = lab.queue / "0002-b-two.patch"
    patch.write_text(patch.read_text().replace("What: x", "What: z"))
    lab.good("core-edit", "core")
    assert "What: z" in git(lab.tree, "log", "-1", "--format=%B", "queue")


def test_check_names_what_git_would_write_otherwise(lab: Lab) -> None:
    """A patch that applies, though not as git would write it; and one that does not apply."""
    lab.good("core-patches", "--check", "core")
    patch = lab.queue / "0001-a-one.patch"
    text = patch.read_text()
    patch.write_text(text.replace("@@ -1,7 +1,7 @@", "@@ -2,7 +2,7 @@"))
    assert patch.read_text() != text
    result = lab.run("core-patches", "--check", "core")
    assert result.returncode == 1
    assert result.stderr.startswith("changed: 0001-a-one.patch\n")
    patch.write_text(text.replace("line 4", "line 44"))
    assert "the patch 0001-a-one.patch does not apply" in lab.refused(
        "core-patches", "--check", "core"
    )


def test_patch_that_does_not_apply_is_finished_by_hand(lab: Lab) -> None:
    """Without a tree core-edit stops at the patch; git am goes on, and the queue is mended."""
    shutil.rmtree(lab.tree)
    patch = lab.queue / "0001-a-one.patch"
    patch.write_text(patch.read_text().replace(" line 4", " line 44"))
    assert "the patch 0001-a-one.patch does not apply" in lab.refused("core-edit", "core")
    assert "a git am is under way" in lab.refused("core-edit", "core")
    (lab.tree / "src/a.cpp").write_text(LINES.replace("line 3\n", "line three\n"))
    git(lab.tree, "add", "src/a.cpp")
    git(lab.tree, "am", "--continue")
    said = lab.good("core-patches", "core")
    assert said == "changed: patches/bitcoind-chainstate/0001-a-one.patch\n"
    assert b" line 4\n" in lab.patches()["0001-a-one.patch"]


def test_new_pin_rebases_the_patches(lab: Lab) -> None:
    """Lines that moved are found; a conflict stops in one sentence and is resolved in the tree."""
    moved_lines = "first\n" + LINES
    lab.pin(SOURCE | {"src/a.cpp": moved_lines})
    lab.good("core-edit", "core")
    said = lab.good("core-patches", "core")
    assert said == "changed: patches/bitcoind-chainstate/0001-a-one.patch\n"
    lab.pin(SOURCE | {"src/a.cpp": moved_lines, "src/b.h": LINES.replace("line 9", "line IX")})
    said = lab.refused("core-edit", "core")
    assert "a patch conflicts with the new source" in said
    git(lab.tree, "rebase", "--abort")
    assert "not on top of the tag stock" in lab.refused("core-patches", "core")
    assert "a patch conflicts with the new source" in lab.refused("core-edit", "core")
    (lab.tree / "src/b.h").write_text(LINES.replace("line 9\n", "line nine\n"))
    git(lab.tree, "add", "src/b.h")
    git(lab.tree, "rebase", "--continue")
    said = lab.good("core-patches", "core")
    assert said == "changed: patches/bitcoind-chainstate/0002-b-two.patch\n"
    lab.good("core-patches", "--check", "core")


def test_pin_and_patches_that_changed_together(lab: Lab) -> None:
    """A newer commit of Cairn's may bring both: its patches are applied to its source."""
    other_pin(lab)
    patch = lab.queue / "0002-b-two.patch"
    patch.unlink()
    lab.good("core-edit", "core")
    assert git(lab.tree, "show", "queue:src/b.h") == "other"
    assert git(lab.tree, "log", "--format=%s", "stock..queue") == "a: one"
    assert lab.good("core-patches", "core") == ""


def test_patch_that_the_new_pin_has_is_dropped(lab: Lab) -> None:
    """What upstream has merged goes away in the rebase."""
    lab.pin(SOURCE | {"src/a.cpp": LINES.replace("line 3\n", "line three\n")})
    lab.good("core-edit", "core")
    lab.good("core-patches", "core")
    assert list(lab.patches()) == ["0001-b-two.patch"]


def test_queue_of_lmdb(lab: Lab) -> None:
    """LMDB's files are those of lib1/ in its sdist; a new sdist rebases its patches, too."""
    env = lab.repo / "package/liblmdb/source.env"
    (lab.repo / "patches/liblmdb").mkdir()

    def pin(text: str) -> None:
        sdist = packed({"lib1/mdb.c": text, "lib1/py-lmdb/x.patch": "x\n"}, "lmdb-3.0.0")
        (lab.cache / "downloads/lmdb-3.0.0.tar.gz").write_bytes(sdist)
        digest = hashlib.sha256(sdist).hexdigest()
        env.write_text(re.sub("SHA256=.*", f"SHA256={digest}", env.read_text()))

    pin(LINES)
    lab.good("core-edit")
    tree = lab.repo / "out/edit/lmdb"
    assert git(tree, "ls-files") == "mdb.c"
    (tree / "mdb.c").write_text(LINES.replace("line 3\n", "line three\n"))
    git(tree, "commit", "-q", "-a", "-m", "Three", "-m", HEADER)
    assert lab.good("core-patches") == "new: patches/liblmdb/0001-Three.patch\n"
    pin(f"first\n{LINES}")
    lab.good("core-edit", "lmdb")
    assert lab.good("core-patches", "lmdb") == "changed: patches/liblmdb/0001-Three.patch\n"
    lab.good("core-patches", "--check")


def test_table(lab: Lab) -> None:
    """Numbers and lines of each patch; what conflicts, and what upstream has only changed."""
    text = LINES.replace("line 9\n", "line IX\n")
    (lab.clone / "src/b.h").write_text(text)
    (lab.clone / "src/a.cpp").write_text(LINES.replace("line 20", "line XX"))
    git(lab.clone, "commit", "-q", "-a", "-m", "later")
    later = git(lab.clone, "rev-parse", "HEAD")
    assert "numbers in patches/bitcoind-chainstate/README.md" in lab.refused(
        "core-table", "--check"
    )
    lab.good("core-table", "--lines")
    lab.good("core-table", "--check")
    assert "| 0001 | a: one | +1 -1 | ? | ? |\n" in (lab.queue / "README.md").read_text()
    lab.good("core-table", str(lab.clone))
    readme = (lab.queue / "README.md").read_text()
    assert "| 0001 | a: one | +1 -1 | - | `src/a.cpp` |\n" in readme
    assert "| 0002 | b: two | +2 -1 | `src/b.h` | - |\n" in readme
    assert f"The last two columns: upstream's commit `{later}` of 20" in readme
    lab.good("core-table", "--check")
    below = [str(lab.repo / "support/core-table"), "--check"]
    subprocess.run(below, cwd=lab.repo / "support", check=True)
    lab.good("core-table", "--lines")
    assert (lab.queue / "README.md").read_text() == readme
    # Measured again with the pinned commit itself: nothing has changed there.
    lab.good("core-table", str(lab.clone), f"{later}^")
    assert "| 0002 | b: two | +2 -1 | - | - |\n" in (lab.queue / "README.md").read_text()


def test_table_has_one_row_for_each_patch(lab: Lab) -> None:
    """A row too many or too few is named; no clone, or one without the pin, is refused."""
    readme = lab.queue / "README.md"
    readme.write_text(README.replace("| 0000 | b: two |", "| 0000 | c: three |"))
    result = lab.run("core-table", "--check")
    assert result.returncode == 1
    assert 'the row "c: three" of the README is of no patch' in result.stderr
    assert 'the patch 0002, "b: two", has no row in the README' in result.stderr
    assert "no clone given" in lab.refused("core-table")
    assert "is no git clone with the commit" in lab.refused("core-table", str(lab.repo))
