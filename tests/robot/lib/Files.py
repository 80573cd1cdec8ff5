"""Robot Framework library: files, file systems and accounts of the guest.

Paths are absolute ones of the guest; where a keyword says so, they may be patterns of its shell.
Times are in seconds; time-outs are multiplied by TIMEOUT_FACTOR, as in the library CairnVM.
"""

from __future__ import annotations

import shlex

from robot.api.deco import keyword, library

from lab import command_words
from lab.parsing import (
    file_system_mebibytes,
    is_mounted,
    lines_without,
    login_shell,
    open_accounts,
    user_options,
)
from lab.paths import ROOT
from tests.robot.lib.session import session


def existing(paths: tuple[str, ...], test: str) -> str:
    """A script that prints those of the paths for which a test is true; patterns are expanded."""
    return f'for f in {" ".join(paths)}; do if {test}; then echo "$f"; fi; done'


@library(scope="GLOBAL", auto_keywords=False)
class Files:
    """What the guest has on its disk and in /run."""

    # -- files -----------------------------------------------------------------------

    @keyword
    def write_file(self, path: str, line: str) -> None:
        """Writes a file of one line in the guest, and has the disk keep it.

        Fails if the file cannot be written.

        Example:
        | Write File    /var/lib/cairn/marker    kept
        """
        session.run(f"printf '%s\\n' {shlex.quote(line)} >{shlex.quote(path)} && sync")

    @keyword
    def file_should_be(self, path: str, text: str) -> None:
        """A file of the guest has this text; white space at its end does not count.

        Fails if it has another one, or if there is no such file.

        Example:
        | File Should Be    /proc/sys/kernel/hostname    attic
        """
        found = session.run(f"cat {shlex.quote(path)}")
        if found.rstrip() != text.rstrip():
            raise AssertionError(f"{path} has '{found}', not '{text}'")

    @keyword
    def file_number(self, path: str) -> int:
        """The number that a file has in its file system; one that replaces it has another.

        Fails if there is no such file.

        Example:
        | ${before}=    File Number    /var/lib/cairn/probe/result
        """
        return int(session.run(f"stat -c %i {shlex.quote(path)}"))

    @keyword
    def file_should_contain(self, path: str, words: str) -> None:
        """A file of the guest has these words.

        Fails if not, or if there is no such file.

        Example:
        | File Should Contain    /sys/block/vda/queue/scheduler    [none]
        """
        found = session.run(f"cat {shlex.quote(path)}")
        if words not in found:
            raise AssertionError(f"{path} has no '{words}', but '{found}'")

    @keyword
    def wait_for_file(self, path: str, timeout: float = 60) -> None:
        """Waits until there is such a file; ``timeout``: seconds, default 60.

        Example:
        | Wait For File    /run/cairn/bitcoind.hold    timeout=120
        """
        session.until(f"test -e {shlex.quote(path)}", timeout)

    @keyword
    def files_should_exist_with_content(self, *paths: str) -> None:
        """All of these files are there, and none is empty.

        Example:
        | Files Should Exist With Content    /var/lib/cairn/rebuild
        """
        for path in paths:
            if session.result(f"test -s {shlex.quote(path)}").status:
                raise AssertionError(f"{path} is missing or empty")

    @keyword
    def files_should_exist(self, *paths: str) -> None:
        """All of these files are there.

        Example:
        | Files Should Exist    /run/cairn/bitcoind.hold
        """
        for path in paths:
            if session.result(f"test -e {shlex.quote(path)}").status:
                raise AssertionError(f"there is no {path}")

    @keyword
    def files_should_not_exist(self, *paths: str) -> None:
        """None of these files is there, not even as a link that leads nowhere. Patterns, too.

        Fails with those that are.

        Example:
        | Files Should Not Exist    /run/cairn/bitcoind.hold    /var/lib/cairn/reindex-done*
        """
        if found := session.run(existing(paths, '[ -e "$f" ] || [ -L "$f" ]')):
            raise AssertionError(f"there should not be: {' '.join(found.splitlines())}")

    @keyword
    def programs_of_scripts_should_exist(self) -> None:
        """The guest has every program that a script of Cairn's calls (lab/command_words.py).

        Fails with those that it does not have.

        Example:
        | Programs Of Scripts Should Exist
        """
        words = command_words.of_overlay(ROOT / "overlay")
        script = f"for p in {' '.join(sorted(words))}; do command -v $p >/dev/null || echo $p; done"
        if found := session.run(script):
            raise AssertionError(f"no such program: {' '.join(found.splitlines())}")

    @keyword
    def shell_should_read_after_a_signal(self) -> None:
        """The guest's shell, when it has run a trap, still reads a line.

        BusyBox 1.38.0 without patches/busybox/0001 tries for ever. Fails if the line is not read.

        Example:
        | Shell Should Read After A Signal
        """
        script = "trap 'read -r line </proc/uptime && echo read' TERM; kill -TERM $$; exit 0"
        said = session.run(f"timeout 30 sh -c {shlex.quote(script)} || true").strip()
        if said != "read":
            raise AssertionError(f"after a trap the shell reads nothing: '{said}'")

    @keyword
    def files_should_be_empty_or_missing(self, *paths: str) -> None:
        """None of these files has content. Fails with those that have.

        Example:
        | Files Should Be Empty Or Missing    /run/bitcoind/once.conf
        """
        if found := session.run(existing(paths, '[ -s "$f" ]')):
            raise AssertionError(f"these should be empty: {' '.join(found.splitlines())}")

    @keyword
    def file_should_be_hidden_from(self, program: str, path: str) -> None:
        """A running program has no such file in its view of the file system.

        Fails if it has, or if the program's view cannot be looked into.

        Example:
        | File Should Be Hidden From    bitcoind    /proc/sys/vm/overcommit_memory
        """
        look = f"test -e /proc/$(pidof {shlex.quote(program)})/root"
        session.run(f"{look}/ && ! {look}{shlex.quote(path)}")

    # -- node.conf -------------------------------------------------------------------

    @keyword
    def node_conf_without(self, *names: str) -> list[str]:
        """The lines of node.conf but for the settings of these names.

        Fails if there is no node.conf.

        Example:
        | ${settings}=    Node Conf Without    dbbackend    reindex
        """
        return lines_without(session.run("cat /boot/node.conf"), names)

    @keyword("User's Options Should Be")
    def users_options_should_be(self, *options: str) -> None:
        """What bitcoind got from node.conf is this, in this order, and nothing else.

        ``options``: as lines of bitcoin.conf; the chain and options with the value 0 do not count.

        Example:
        | User's Options Should Be    maxconnections=12
        """
        found = user_options(session.run("cat /run/bitcoind/bitcoin.conf"))
        if found != list(options):
            raise AssertionError(f"bitcoind has the options {found}, not {list(options)}")

    # -- file systems ----------------------------------------------------------------

    @keyword
    def should_be_mounted(self, path: str, mode: str, kind: str = "") -> None:
        """A file system is mounted on this path.

        ``mode``: rw or ro. ``kind``: such as ext4, default any of a disk.

        Example:
        | Should Be Mounted    /var    rw    f2fs
        """
        if not is_mounted(session.run("cat /proc/mounts"), path, mode, kind):
            raise AssertionError(f"no file system {kind} is mounted on {path} as {mode}")

    @keyword
    def file_system_should_have_more_than(self, mebibytes: int, path: str) -> None:
        """The file system on which a path lies has more than so many MiB in all.

        Example:
        | File System Should Have More Than    6000    /var
        """
        found = file_system_mebibytes(session.run(f"df -Pm {shlex.quote(path)}"))
        if found <= mebibytes:
            raise AssertionError(f"the file system of {path} has {found} MiB")

    # -- modes and accounts ----------------------------------------------------------

    @keyword
    def mode_should_be(self, path: str, mode: str) -> None:
        """A file has this mode, owner and group, as `stat -c '%a %U %G'` writes them.

        Example:
        | Mode Should Be    /run/bitcoind    750 root bitcoin
        """
        found = session.run(f"stat -c '%a %U %G' {shlex.quote(path)}")
        if found != mode:
            raise AssertionError(f"{path} has the mode {found}, not {mode}")

    @keyword
    def nothing_should_be_writable_for_all(self, *folders: str) -> None:
        """Nobody but their owners can write files in these folders, of one file system each.

        Links, and folders such as /tmp, with the sticky bit, do not count. Fails with those found.

        Example:
        | Nothing Should Be Writable For All    /etc    /usr
        """
        names = " ".join(shlex.quote(folder) for folder in folders)
        found = session.run(f"find {names} -xdev ! -type l -perm -0002 ! -perm -1000")
        if found:
            raise AssertionError(f"anybody can write {found}")

    @keyword
    def accounts_should_be_locked(self) -> None:
        """No account of the guest has a password, and none can be used without one.

        Fails with those that can be logged into.

        Example:
        | Accounts Should Be Locked
        """
        if found := open_accounts(session.run("cat /etc/shadow")):
            raise AssertionError(f"these accounts are not locked: {', '.join(found)}")

    @keyword
    def login_shell_of(self, user: str) -> str:
        """The program that a user's login would run.

        Fails if there is no such user.

        Example:
        | ${shell}=    Login Shell Of    bitcoin
        """
        return login_shell(session.run("cat /etc/passwd"), user)
