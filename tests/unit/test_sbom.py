"""support/sbom: whole or not at all, and without a network."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import ROOT
from tests.shared.commands import captured

#: Buildroot's program as far as support/sbom relies on it: it fetches a list that is not there.
PROGRAM = """
CYCLONEDX_VERSION = "1.6"
import json, os, sys
path = os.environ["BR2_DL_DIR"] + "/cyclonedx/spdx-1.6.schema.json"
if not os.path.exists(path):
    sys.exit("fetching")
names = json.load(open(path))["enum"]
{body}
"""
GOOD = """
info = json.load(sys.stdin)
json.dump({"components": [{"name": name, "known": "MIT" in names} for name in info]}, sys.stdout)
"""
OLD = '{"components": ["the last build\'s"]}\n'


def sbom(tmp_path: Path, body: str, info: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Runs it in a small repository with a build of a board; the file, which was there before."""
    repo = tmp_path / "repo"
    shutil.copytree(ROOT / "support", repo / "support")
    shutil.copytree(ROOT / "board", repo / "board")
    shutil.copy(ROOT / "VERSION", repo)
    (repo / ".venv").symlink_to(ROOT / ".venv")
    (repo / "out/buildroot/utils").mkdir(parents=True)
    program = PROGRAM.format(body=body)
    if body.startswith("# as another"):
        program = program.replace('= "1.6"', "= (1, 6)")
    (repo / "out/buildroot/utils/generate-cyclonedx").write_text(program)
    (repo / "out/x/build").mkdir(parents=True)
    (repo / "out/x/build/show-info.json").write_text(info)
    file = repo / "x.cdx.json"
    file.write_text(OLD)
    return captured(str(repo / "support/sbom"), "x", str(file)), file


def test_the_licences_come_with_the_tools(tmp_path: Path) -> None:
    """The list that Buildroot would fetch is there before it looks."""
    done, file = sbom(tmp_path, GOOD, '{"zlib": {}}')
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["components"] == [{"name": "zlib", "known": True}]


@pytest.mark.parametrize(
    ("body", "info", "words"),
    [
        ("sys.exit('broken')", '{"zlib": {}}', "could not read out/x/build/show-info.json"),
        ("print('{\"compo')", '{"zlib": {}}', "names no components"),
        ("print('{\"components\": []}')", '{"zlib": {}}', "names no components"),
        (GOOD, "{}", "names no components"),
        (GOOD, "", "is empty; build x first"),
        (f"# as another release writes it{GOOD}", "{}", "the version of CycloneDX is not found"),
    ],
)
def test_a_failure_leaves_the_old_one(tmp_path: Path, body: str, info: str, words: str) -> None:
    """One sentence, and no empty file that looks like a bill of nothing."""
    done, file = sbom(tmp_path, body, info)
    assert done.returncode == 1
    assert words in done.stderr.splitlines()[-1]
    assert file.read_text() == OLD
    assert not file.with_name("x.cdx.json.new").exists()
