"""The programs that a shell script calls: the first word of each of its commands.

A small reader of POSIX sh, for the scripts of overlay/: quotes, $(…), ${…:-…}, here documents,
`case`, functions. What is only known when the script runs (`$program`) is left out, but for its
default (`${PROGRAM:-rauc}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

#: Words of the shell's own: reserved ones, and what dash and busybox have built in
RESERVED = "! { } case do done elif else esac fi for if in then until while"
BUILT_IN = (
    ". : [ alias bg break cd command continue echo eval exec exit export false fg getopts hash jobs"
    " kill local printf pwd read readonly return set shift test times trap true type ulimit umask"
    " unalias unset wait"
)
OWN = {*RESERVED.split(), *BUILT_IN.split()}
#: After these a command begins
BEGINS = ("!", "{", "do", "elif", "else", "if", "then", "until", "while")
#: Programs that start another one, behind options and so many words: timeout's is the time
STARTS = {"exec": 0, "command": 0, "setsid": 0, "nice": 0, "timeout": 1}
#: Options of theirs that have the next word, too
WITH_WORD = ("-k", "-n", "-s")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
#: A quoted variable with a default that says all
DEFAULT = re.compile(r"\$\{\w+:-([^$}]+)\}")
FUNCTION = re.compile(r"(?m)^\s*([A-Za-z_][A-Za-z0-9_]*)\(\)")


class Reader:
    """Goes through one script; ``words`` are the commands that it found."""

    def __init__(self, text: str) -> None:
        """``text``: of the script."""
        self.text, self.at = text, 0
        self.words: set[str] = set()
        self.left = 0  # words before the program that another one starts
        self.here: list[tuple[str, bool]] = []

    def rest(self, length: int = 1) -> str:
        """The next characters."""
        return self.text[self.at : self.at + length]

    def quoted(self) -> None:
        """Behind a double quote, to its end; what is substituted there is read."""
        while (char := self.rest()) and char != '"':
            if char == "\\":
                self.at += 2
            elif char == "$":
                self.dollar()
            else:
                self.at += 1
        self.at += 1

    def dollar(self) -> str:
        """What begins with $; returns the default of ``${NAME:-default}``, else ""."""
        if self.rest(3) == "$((":
            depth = 0
            self.at += 1
            while self.at < len(self.text):
                char = self.rest()
                if char == "$" and self.rest(2) == "$(":
                    self.dollar()
                    continue
                depth += {"(": 1, ")": -1}.get(char, 0)
                self.at += 1
                if not depth:
                    break
            return ""
        if self.rest(2) == "$(":
            self.at += 2
            self.commands(")")
            return ""
        if self.rest(2) == "${":
            begin = self.at
            self.at += 2
            while (char := self.rest()) and char != "}":
                if char == "\\":
                    self.at += 2
                elif char == '"':
                    self.at += 1
                    self.quoted()
                elif char == "$":
                    self.dollar()
                else:
                    self.at += 1
            self.at += 1
            inside = self.text[begin + 2 : self.at - 1]
            return inside.partition(":-")[2]
        self.at += 1
        return ""

    def word(self) -> str:
        """The next word, without quotes; what is only known at run time is a NUL in it."""
        found = ""
        while (char := self.rest()) and char not in " \t\n;&|()<>":
            if char == "\\":
                found += self.rest(2)[1:]
                self.at += 2
            elif char == "'":
                end = self.text.index("'", self.at + 1)
                found += self.text[self.at + 1 : end]
                self.at = end + 1
            elif char == '"':
                begin = self.at
                self.at += 1
                self.quoted()
                inside = self.text[begin + 1 : self.at - 1]
                whole = DEFAULT.fullmatch(inside)
                found += whole[1] if whole else "\0" if "$" in inside else inside
            elif char == "$":
                default = self.dollar()
                found += default if not found else "\0"
                found = found or "\0"
            else:
                found += char
                self.at += 1
        return found

    def documents(self) -> None:
        """At the end of a line: here documents that begin there."""
        for mark, plain in self.here:
            end = re.compile(rf"(?m)^\t*{re.escape(mark)}$").search(self.text, self.at)
            assert end, f"here document {mark} has no end"
            while plain and self.at < end.start():
                if self.rest() == "$":
                    self.dollar()
                else:
                    self.at += 1
            self.at = end.end()
        self.here = []

    def redirection(self) -> None:
        """< or >, and what it names."""
        if self.rest(2) == "<<":
            self.at += 3 if self.rest(3) == "<<-" else 2
            plain = self.rest() not in "'\""
            self.here.append((self.word(), plain))
            return
        while self.rest() in "<>&|" and self.rest():
            self.at += 1
        while self.rest() in " \t" and self.rest():
            self.at += 1
        self.word()

    def commands(self, end: str) -> None:
        """Commands up to ``end``, which is ")" or the end of the text."""
        first, starts, pattern = True, "", False
        cases: list[bool] = []
        while char := self.rest():
            if char in " \t" or self.rest(2) == "\\\n":
                self.at += 1 if char in " \t" else 2
            elif char == "#":
                self.at = self.text.find("\n", self.at) % (len(self.text) + 1)
            elif char == "\n":
                self.at += 1
                self.documents()
                first = True
            elif pattern:
                # of a case, up to its )
                if char == ")":
                    pattern, first = False, True
                    self.at += 1
                elif char in "(|":
                    self.at += 1
                elif self.word() == "esac":
                    pattern, first = False, False
                    cases.pop()
            elif self.rest(2) == ";;":
                pattern = True
                self.at += 2
            elif char == ")" and end == ")":
                self.at += 1
                return
            elif char in ";&|()":
                first = True
                self.at += 1
            elif char in "<>":
                self.redirection()
            else:
                word = self.word()
                if self.rest() in "<>" and self.rest() and word.isdigit():
                    continue
                if self.rest(2) == "()":
                    self.at += 2
                elif cases and cases[-1] and word == "in":
                    cases[-1], pattern = False, True
                elif first:
                    first, starts = self.command(word, cases, starts)

    def command(self, word: str, cases: list[bool], starts: str) -> tuple[bool, str]:
        """A word where a command begins, or behind one that ``starts`` another.

        Returns whether the next one is a command, and what starts it.
        """
        if starts and word[:1] == "-":
            self.left += word in WITH_WORD
            return True, starts
        if starts and self.left:
            self.left -= 1
            return True, starts
        if ASSIGNMENT.match(word) or word in BEGINS:
            return True, ""
        if word == "case":
            cases.append(True)
        elif word == "esac" and cases:
            cases.pop()
        elif word and word not in RESERVED.split():
            name = word.split()[0] if "\0" not in word else ""
            if NAME.fullmatch(name):
                self.words.add(name)
            if name in STARTS:
                self.left = STARTS[name]
                return True, name
        return False, ""


def commands(text: str) -> set[str]:
    """The programs that a script calls; no words of the shell's own, no functions of its own."""
    reader = Reader(text)
    reader.commands("")
    return reader.words - OWN - set(FUNCTION.findall(text))


def of_overlay(overlay: Path) -> dict[str, set[str]]:
    """Each program that a shell script of an overlay calls, and the scripts that call it."""
    texts = {path: path.read_text() for path in scripts(overlay)}
    functions = {name for text in texts.values() for name in FUNCTION.findall(text)}
    found: dict[str, set[str]] = {}
    for path, text in texts.items():
        for word in commands(text) - functions:
            found.setdefault(word, set()).add(path.name)
    return found


def scripts(overlay: Path) -> Iterable[Path]:
    """The shell scripts of an overlay, also those that are only sourced."""
    for path in sorted(overlay.rglob("*")):
        if path.is_file() and not path.is_symlink():
            begin = path.read_bytes()[:40]
            if begin.startswith((b"#!/bin/sh", b"# shellcheck shell=sh")):
                yield path
