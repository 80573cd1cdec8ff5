"""The forge's workflows: what they may do, what they run, and the linter that looks at them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import captured

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
LINT = str(ROOT / "support/workflow-lint")


def run_lines(text: str) -> str:
    """The shell of a workflow's steps."""
    found = re.findall(r"(?m)^ +(?:- )?run: (?:\|\n((?: {10,}.*\n|\n)+)|(.*)\n)", text)
    return "\n".join(block or line for block, line in found)


def test_there_are_two() -> None:
    """Every check on each change; a release for each tag."""
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]
    ci, release = (path.read_text() for path in WORKFLOWS)
    assert "- run: bash .ci/run\n" in ci
    assert re.search(r"(?m)^on:\n  push:\n  pull_request:\n", ci)
    assert re.search(r'(?m)^on:\n  push:\n    tags: \["v\[0-9\]\*"\]\n\n', release)
    assert re.findall(
        r'make release VERSION="\$\{GITHUB_REF_NAME#v\}" (.*)', run_lines(release)
    ) == [
        "STAGE=build",
        "STAGE=sign",
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_nothing_of_others_runs_unseen(path: Path) -> None:
    """Actions are pinned by commit, and no text of the forge's is put into a shell's line."""
    text = path.read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert "${{" not in run_lines(text)
    assert "pull_request_target" not in text


def test_least_permissions() -> None:
    """The job that builds has no keys, that with keys builds nothing; the third drafts only."""
    ci, release = (path.read_text() for path in WORKFLOWS)
    assert re.findall(r"(?m)^ *permissions:(.*)\n +(.*)$", ci) == [("", "contents: read")]
    assert "secrets." not in ci
    assert "persist-credentials: false" in ci
    top, build, sign, draft = re.split(r"(?m)^  (?:build|sign|draft):\n", release)
    assert "\npermissions: {}\n" in top
    for job in (build, sign):
        assert "permissions:\n      contents: read\n" in job
        assert "persist-credentials: false" in job
    assert "permissions:\n      contents: write\n" in draft
    assert "environment: release" in sign
    assert set(re.findall(r"secrets\.(\w+)", sign)) == {
        *("CAIRN_BUNDLE_KEY", "CAIRN_SUMS_KEY"),
        *("CAIRN_KEYRING", "CAIRN_BUNDLE_CERT"),
    }
    assert re.findall(r"secrets\.(\w+)", build + draft) == ["CAIRN_KEYRING"]
    assert "environment: release" not in build + draft
    assert "--draft" in draft


def test_what_signing_takes_of_the_build(tmp_path: Path) -> None:
    """Files that are published, and no program: the steps' own commands, on a small tree."""
    text = (ROOT / ".github/workflows/release.yml").read_text()
    pack = re.search(r"name: What signing needs of it\n +run: \|\n((?: {10}.*\n)+)", text)
    unpack = re.search(r"name: Unpack what was built\n +run: \|\n((?: {10}.*\n)+)", text)
    assert pack
    assert unpack
    work = tmp_path / "build/out/release-work"
    expected = {"built.json"}
    for board in ("rpi5", "x86_64"):
        out = f"cairn/out/{board}"
        for end in ("img", "img.xz", "img.bmap", "cdx.json", "raucb"):
            expected.add(f"{out}/cairn-{board}.{end}")
        expected.add(f"{out}/build/target/etc/rauc/keyring.pem")
    programs = ["cairn/support/bundle", "cairn/support/release", "cairn/out/rpi5/build/host/bin/x"]
    # Those of the release itself, which a build has no business with
    planted = ["lock", "result/x"]
    for name in (*expected, *programs, *planted):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).touch()
    env = {"PATH": "/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path)}
    done = captured("bash", "-ec", pack[1], folder=tmp_path / "build", env=env)
    assert done.returncode == 0, done.stderr
    (tmp_path / "sign").mkdir()
    done = captured("bash", "-ec", unpack[1], folder=tmp_path / "sign", env=env)
    assert done.returncode == 0, done.stderr
    there = tmp_path / "sign/out/release-work"
    found = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    assert found == expected


def test_shell_of_the_steps() -> None:
    """shellcheck, which actionlint asks where it is a program of its own, finds nothing."""
    for path in WORKFLOWS:
        text = "#!/bin/bash\n" + re.sub(r"(?m)^ +", "", run_lines(path.read_text()))
        done = subprocess.run(
            ["shellcheck", "-e", "SC2164", "-"],
            check=False,
            input=text,
            text=True,
            capture_output=True,
        )
        assert done.stdout == ""


def test_the_linter(tmp_path: Path) -> None:
    """It finds faults in each part of a workflow, and none in ours."""
    done = captured(LINT, *map(str, WORKFLOWS))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    bad = tmp_path / "bad.yml"
    bad.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    permissions:\n      content: read\n"
        "    steps:\n      - run: echo ${{ github.evnt.x }}\n      - use: x\n"
    )
    done = captured(LINT, str(bad))
    assert done.returncode == 1
    places = [line.split()[0].removeprefix(f"{bad}:") for line in done.stdout.splitlines()]
    assert {"6:7", "8:23", "9:9"} <= set(places)
    assert "ubuntu-24.04" not in done.stdout
    done = captured(LINT, str(tmp_path / "none.yml"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("workflow-lint: ")
