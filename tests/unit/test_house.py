"""What holds the house together: one version, `make help`, and the times of the stages."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import run as runner
from tests import stage_times
from tests.shared.commands import captured, program


@pytest.mark.parametrize("release", [False, True])
def test_version(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: bool
) -> None:
    """One line in VERSION, which os-release on the image has; a release says that it is one."""
    version = (root / "VERSION").read_text()
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+\n", version)
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/share/cairn").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    if release:
        monkeypatch.setenv("CAIRN_RELEASE", "1")
    else:
        monkeypatch.delenv("CAIRN_RELEASE", raising=False)
    script = root / "board/common/post-build.sh"
    subprocess.run([str(script), str(tmp_path), "rpi5"], check=True)
    lines = (tmp_path / "etc/os-release").read_text().splitlines()
    words = dict(line.replace('"', "").split("=", 1) for line in lines)
    assert words["VERSION"] == words["VERSION_ID"] == words["IMAGE_VERSION"] == version.strip()
    assert words["PRETTY_NAME"] == f"Cairn {version.strip()}"
    assert (words["IMAGE_ID"], words["VARIANT_ID"]) == ("cairn", "rpi5")
    assert words["RELEASE_TYPE"] == ("stable" if release else "development")


def test_commit_of_an_image(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BUILD_ID is the commit, says whether files differ from it, and is left out without git."""
    (tmp_path / "support").mkdir()
    (tmp_path / "VERSION").write_text("1.2.3\n")
    for name in ("os-release", "version"):
        shutil.copy(root / "support" / name, tmp_path / "support")

    def build_id() -> str:
        command = [str(tmp_path / "support/os-release"), "x86_64"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return "".join(re.findall(r"(?m)^BUILD_ID=(.*)$", said))

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    # As in Buildroot, whose environment keeps git inside its own folder
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert build_id() == ""
    git("init", "-q")
    assert build_id() == ""
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    commit = git("rev-parse", "HEAD").strip()
    assert build_id() == commit
    (tmp_path / "VERSION").write_text("1.2.4\n")
    assert build_id() == f"{commit}-changed"


def test_version_of_the_development_image(root: Path) -> None:
    """Its other lines are its distribution's; screen and page read only these."""
    command = [str(root / "support/os-release"), "--image"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    version = (root / "VERSION").read_text().strip()
    assert said == f"IMAGE_ID=cairn\nIMAGE_VERSION={version}\n"
    customize = (root / "support/devimage-customize").read_text()
    assert '"$release" >>"$rootfs/usr/lib/os-release"' in customize


def test_unwanted_files_go(root: Path, tmp_path: Path) -> None:
    """What board/common/unwanted names goes, with the links that asked for it; the rest stays."""
    units = tmp_path / "usr/lib/systemd/system"
    gone = ["usr/bin/dbus-launch", "etc/ssh/sshd_config", "usr/lib/libstdc++.so.6.0.34-gdb.py"]
    gone += [f"usr/lib/systemd/system/systemd-report{end}" for end in (".socket", "@.service")]
    gone += ["usr/lib/systemd/catalog/systemd.fr.catalog", "usr/share/zoneinfo/right/UTC"]
    kept = ["usr/bin/dbus-send", "usr/lib/systemd/system/systemd-repart.service"]
    kept += ["usr/lib/systemd/system/systemd-journald.socket", "usr/share/zoneinfo/Etc/UTC"]
    kept += ["usr/lib/systemd/catalog/systemd.catalog", "usr/lib/libstdc++.so.6.0.34"]
    for name in (*gone, *kept, "usr/share/cairn/node"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    wants = units / "sockets.target.wants"
    wants.mkdir()
    for name in ("systemd-report.socket", "systemd-journald.socket"):
        (wants / name).symlink_to(f"../{name}")
    script = root / "board/common/post-build.sh"
    subprocess.run([str(script), str(tmp_path), "rpi5"], check=True)
    assert [name for name in gone if (tmp_path / name).exists()] == []
    assert [name for name in kept if not (tmp_path / name).exists()] == []
    assert [path.name for path in wants.iterdir()] == ["systemd-journald.socket"]


def test_unwanted_stays_inside(root: Path) -> None:
    """Each pattern names something below the root file system, and not a whole top folder."""
    lines = (root / "board/common/unwanted").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert len(patterns) == len(set(patterns)) > 50
    for pattern in patterns:
        assert re.fullmatch(r"(?:etc|usr)(?:/[A-Za-z0-9_.+@*-]+)+", pattern), pattern
        assert ".." not in pattern.split("/"), pattern
        assert not re.fullmatch(r"usr/(bin|lib|share|libexec)(/\*)?", pattern), pattern


def test_names_of_programs(root: Path) -> None:
    """Owners run node-…, units run cairn-…, and neither has its prefix from the environment."""
    programs = [path for path in (root / "overlay/usr").rglob("*") if os.access(path, os.X_OK)]
    files = [path for path in programs if path.is_file()]
    assert len(files) > 10
    for path in files:
        prefix = {"bin": "node-", "cairn": "cairn-"}[path.parent.name]
        assert path.name.startswith(prefix), path
        assert "CAIRN_ROOT" not in path.read_text(), path


def test_help_is_grouped(root: Path) -> None:
    """Each target that has a description is below one of four headings."""
    command = ["make", "-C", str(root), "--no-print-directory", "help"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    heading, groups = "", dict[str, list[str]]()
    for line in said.splitlines():
        if line.startswith("  "):
            groups[heading].append(line.split()[0])
        elif line:
            heading = line.split(":")[0]
            groups[heading] = []
    assert list(groups) == ["Use", "Test", "Measure", "Build"]
    assert {"run", "flash"} <= set(groups["Use"])
    assert groups["Test"][:2] == ["check", "test"]
    assert "bench" in groups["Measure"]
    assert {"core", "devimage"} <= set(groups["Build"])
    described = re.findall(r"(?m)^([a-z0-9_-]+):.*## ", (root / "Makefile").read_text())
    described += [path.parent.name for path in root.glob("board/*/meta")]
    assert sorted(described) == sorted(name for names in groups.values() for name in names)


def test_words_are_taken_as_they_are(root: Path, tmp_path: Path) -> None:
    """What is said to make is text: a function in it is not carried out, whichever word it is."""
    words = re.findall(r": override export (\w+) := ", (root / "Makefile").read_text())
    assert {"DEV", "STAGE", "VERSION"} <= set(words)
    said = [f"{word}=$(shell touch {tmp_path}/{word})" for word in words]
    command = ["make", "-C", str(root), "--dry-run", "release", *said]
    subprocess.run(command, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_times_are_kept_by_kind_of_run(tmp_path: Path) -> None:
    """`make check` does not overwrite what `make test` measured."""
    path = tmp_path / "times.json"
    stage_times.keep(path, "test", {"lint": 12.34, "unit": 851.0})
    stage_times.keep(path, "check", {"unit": 200.0})
    assert stage_times.read(path, "test") == {"lint": 12.3, "unit": 851.0}
    assert stage_times.read(path, "check") == {"unit": 200.0}
    stage_times.keep(path, "check", {"lint": 5.0})
    assert stage_times.read(path, "check") == {"lint": 5.0}


def test_announcement() -> None:
    """A figure only where there is one; that of all only if each stage has one."""
    times = {"lint": 12.3, "unit": 851.0, "all": 870.0}
    line = stage_times.announce(["lint", "unit"], times)
    assert line == "stages: lint (12 s), unit (14 min); 14 min in all in the last whole run here"
    assert stage_times.announce(["lint"], times) == "stages: lint (12 s)"
    times = {"lint": 12.3, "all": 870.0}
    assert stage_times.announce(["lint", "unit"], times) == "stages: lint (12 s), unit"
    assert stage_times.announce(["lint"], {}) == "stages: lint"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "7",
        '{"test": 7}',
        '{"test": {"lint": "x"}}',
        '{"test": {"lint": null}}',
        '{"test": {"lint": NaN, "unit": -1}}',
    ],
)
def test_times_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    """Give no figure and no error, and are replaced by the next whole run."""
    path = tmp_path / "times.json"
    if text is not None:
        path.write_text(text)
    assert stage_times.read(path, "test") == {}
    stage_times.keep(path, "test", {"lint": 3.0})
    assert stage_times.read(path, "test") == {"lint": 3.0}


def test_times_that_cannot_be_written(tmp_path: Path) -> None:
    """Do not cost the results of the run."""
    stage_times.keep(tmp_path, "test", {"lint": 3.0})
    assert stage_times.read(tmp_path, "test") == {}


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """run.py with stages that only note that they were run; core cannot be carried out."""
    done: list[str] = []

    def stage(name: str) -> runner.Tally:
        done.append(name)
        if name == "core":
            raise runner.StageError("no compiler")
        return runner.Tally(passed=1)

    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setattr(runner, "TIMES", tmp_path / "times.json")
    made = {name: lambda _, name=name: stage(name) for name in runner.STAGES}
    monkeypatch.setattr(runner, "STAGES", made)
    return done


@pytest.mark.parametrize(
    ("arguments", "ran", "kept"),
    [
        (["--check"], ["lint", "unit", "hostile"], {"check": {"lint", "unit", "hostile", "all"}}),
        (["--only", "unit"], ["unit"], None),
        (["--suite", "boot"], list(runner.STAGES), None),
        ([], list(runner.STAGES), {"test": {*runner.STAGES, "all"} - {"core"}}),
    ],
)
def test_stages(
    stages: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    ran: list[str],
    kept: dict[str, set[str]] | None,
) -> None:
    """The first line names what is run; only a whole run is remembered, without what failed."""
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    monkeypatch.setenv("PATH", os.environ["PATH"])
    assert runner.main() == (1 if "core" in ran else 0)
    assert stages[0] == ran[0]
    assert sorted(stages) == sorted(ran) if "--check" in arguments else stages == ran
    assert capsys.readouterr().out.splitlines()[0] == f"stages: {', '.join(ran)}"
    path = tmp_path / "times.json"
    times = json.loads(path.read_text()) if path.exists() else None
    assert (times and {kind: set(of) for kind, of in times.items()}) == kept


@pytest.mark.parametrize(
    ("check", "selection"), [(True, "not slow and not long"), (False, "not long")]
)
def test_marked_tests(monkeypatch: pytest.MonkeyPatch, check: bool, selection: str) -> None:
    """`make check` runs neither slow nor long tests, `make test` the slow ones, too."""
    asked: list[str] = []
    monkeypatch.setattr(runner, "build", lambda *_: None)
    monkeypatch.setattr(runner, "junit", lambda _: runner.Tally(passed=1))

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.extend(command)
        return subprocess.CompletedProcess(command, 0, "1 passed\n")

    monkeypatch.setattr(subprocess, "run", run)
    runner.unit(argparse.Namespace(check=check, only=None, image=None))
    assert asked[asked.index("-m") + 1] == selection
    assert asked[-1] == "tests/unit"


PASSED = '<testcase classname="a" name="b"/>'
FAILED = '<testcase classname="a" name="c"><failure/></testcase>'


@pytest.mark.parametrize(
    ("status", "written", "counted"),
    [
        (0, PASSED, runner.Tally(passed=1)),
        (1, PASSED + FAILED, runner.Tally(passed=1, failed=1)),
        (1, PASSED, None),  # which one failed is not known
        (2, PASSED, None),  # interrupted
        (3, PASSED + FAILED, None),  # an error of pytest's own
        (4, None, None),  # wrong usage: it wrote nothing
        (0, "", None),
        (5, "", None),  # no test
    ],
)
def test_a_stage_counts_its_own_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    written: str | None,
    counted: runner.Tally | None,
) -> None:
    """A green report of an earlier run, or half a report, does not make a stage green."""
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    report = tmp_path / "browser.xml"
    report.write_text(f"<testsuites>{PASSED * 9}</testsuites>")

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if written is not None:
            report.write_text(f"<testsuites>{written}</testsuites>")
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(subprocess, "run", run)
    options = argparse.Namespace(check=False, image=None)
    if counted is None:
        with pytest.raises(runner.StageError):
            runner.browser(options)
    else:
        assert runner.browser(options) == counted


@pytest.mark.parametrize(
    ("tests", "counted"),
    [
        ("add_test(a true)\n", runner.Tally(passed=1)),
        ("add_test(a true)\nadd_test(b false)\n", runner.Tally(passed=1, failed=1)),
        ("add_test(a true)\nadd_test(b /nowhere/program)\n", None),
        ("", None),
        (None, None),
    ],
)
def test_the_core_stage_counts_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: str | None, counted: runner.Tally | None
) -> None:
    """Likewise with the real ctest, which lists a program that is not there among the skipped."""
    monkeypatch.setenv("BOOST_TEST_COLOR_OUTPUT", "no")
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "OUT", tmp_path)
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setattr(runner, "build", lambda *_: None)
    monkeypatch.setattr(runner, "unit_suites", lambda _: runner.Tally())
    monkeypatch.setattr(runner, "thread_sanitizer", runner.Tally)
    (tmp_path / "core.xml").write_text(f"<testsuite>{PASSED}</testsuite>")
    if tests is not None:
        (tmp_path / "core/build").mkdir(parents=True)
        (tmp_path / "core/build/CTestTestfile.cmake").write_text(tests)
    options = argparse.Namespace(check=False)
    if counted is None:
        with pytest.raises(runner.StageError):
            runner.core(options)
    else:
        assert runner.core(options) == counted


def test_skipped_tests_say_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each reason once, with a test and the number of the others, as pytest and ctest write it."""
    cases = [
        '<testcase name="a"><skipped message="needs root&#10;and loop devices">x</skipped>',
        '<testcase name="b" status="notrun"><skipped message="OTHER"/>',
        '<testcase name="c"><skipped message="needs root and loop devices"/>',
        '<testcase name="d" status="disabled">',
        '<testcase name="e"><skipped type="pytest.xfail" message=""/>',
    ]
    report = tmp_path / "x.xml"
    report.write_text(f"<testsuite>{'</testcase>'.join([*cases, ''])}{PASSED}</testsuite>")
    assert runner.junit(report) == runner.Tally(passed=1, skipped=5)
    assert capsys.readouterr().out.splitlines() == [
        "skipped: a and 1 more: needs root and loop devices",
        "skipped: b: OTHER",
        "skipped: d and 1 more: no reason given",
    ]


def test_why_a_test_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """What Core's functional tests waited for in vain is among it, though it is other lines."""
    why = [
        "AssertionError: Predicate ''''",
        "        self.wait_until(lambda: node.getblockcount() == NUM_BLOCKS)",
        "''' not true after 60.0 seconds",
    ]
    log = ["begin", "Traceback (most recent call last):", *why, "Stopping nodes", "OSError: no", ""]
    runner.say_why("\n".join(log))
    assert capsys.readouterr().out.splitlines() == [f"    {line}" for line in [*why, "OSError: no"]]
    runner.say_why("\n".join("abcdefg"))
    assert capsys.readouterr().out.split() == [*"cdefg"]


@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize(("user", "rights"), [("0", ""), ("1000", "sudo ")])
def test_ci_without_make(root: Path, tmp_path: Path, shell: str, user: str, rights: str) -> None:
    """It is installed, with sudo where that is needed; lists that cannot be updated may do."""
    tools, log = tmp_path / "bin", tmp_path / "log"
    tools.mkdir()
    for name in ("date", "dirname", "chmod"):
        (tools / name).symlink_to(str(shutil.which(name)))
    program(tools / "id", f"echo {user}")
    program(tools / "sudo", 'rights="sudo " "$@"')
    make = f"printf '#!/bin/sh\\necho make \"$*\"\\n' >{tools}/make; chmod 755 {tools}/make"
    program(
        tools / "apt-get",
        f'[ "$rights" = "{rights}" ] || exit 100\necho "$rights$1" >>{log}\n'
        f"case $1 in install) {make} ;; *) exit 1 ;; esac",
    )
    script = tmp_path / "clone/.ci/run"
    script.parent.mkdir(parents=True)
    shutil.copy(root / ".ci/run", script)
    done = captured(str(shutil.which(shell)), str(script), env={"PATH": str(tools), "rights": ""})
    assert (done.returncode, done.stdout, done.stderr) == (0, "make test\n", "")
    assert log.read_text() == f"{rights}update\n{rights}install\n"


@pytest.mark.parametrize(
    ("line", "shell"),
    [
        ("#!/bin/sh", True),
        ("#!/usr/bin/env bash", True),
        ("#!/bin/bash -e", True),
        ("#!/bin/busybox sh", True),
        ("#!/usr/bin/env python3", False),
        ("# shell", False),
    ],
)
def test_scripts_that_lint_looks_at(tmp_path: Path, line: str, shell: bool) -> None:
    """Of whichever shell: one of bash's would otherwise pass by."""
    path = tmp_path / "run"
    path.write_text(f"{line}\nx\n")
    assert runner.is_shell(path) == shell
