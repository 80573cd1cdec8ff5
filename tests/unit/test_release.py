"""support/release, from the first check to the signed sums, with a builder that embeds its path.

The releases of this file are made by the real program in small clones; only what takes an hour,
the build of a board, is a script here. What owners do by hand (docs/develop/release.md) is run on
one of them as it stands in the page.
"""

from __future__ import annotations

import contextlib
import os
import pty
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.paths import ROOT
from support import release_inputs
from tests.shared.certificates import new_authority, new_certificate, new_request, sign_request
from tests.shared.commands import captured, program

#: What could make two builds differ: the folder, its name's length, host, user's home, times.
BUILDER = r"""
set -eu
board=$1
mkdir -p "out/$board/build/images" "out/$board/build/target/etc/rauc"
cp "$CAIRN_KEYRING" "out/$board/build/target/etc/rauc/keyring.pem"
cd "out/$board"
{
	echo "$board in $(pwd) ($(pwd -P)) on $(hostname) with HOME=$HOME, umask $(umask)"
	echo "epoch $SOURCE_DATE_EPOCH, release ${CAIRN_RELEASE:-no}, cache $CAIRN_CACHE"
	stat -c '%n %Y %a' ../../VERSION ../../support/release
	env | sed '/^_=/d; /^FORCE_UNSAFE/d; /_proxy=/d; /^PIP_/d; /^npm_/d' | LC_ALL=C sort
	../../support/os-release "$board"
	ls /mnt
} >"cairn-$board.img"
cp "cairn-$board.img" build/images/
xz -k -T2 -6 "cairn-$board.img"
bmaptool -q create -o "cairn-$board.img.bmap" "cairn-$board.img"
printf '{"components": ["%s"]}\n' "$board" >"cairn-$board.cdx.json"
"""
#: As support/bundle: signed with the clone's development key, for it is told of no other.
BUNDLE = r"""
set -eu
[ -z "${CAIRN_BUNDLE_KEY-}${CAIRN_BUNDLE_CERT-}${CAIRN_SUMS_KEY-}" ]
printf '[update]\ncompatible=cairn-%s\nversion=%s\n[bundle]\nformat=verity\n' \
	"$1" "$(cat VERSION)" >manifest
openssl cms -sign -binary -nodetach -outform DER -in manifest -out signature \
	-signer out/keys/dev-bundle.pem -inkey out/keys/dev-bundle.key
python3 -c 'import sys
image, signature = (open(name, "rb").read() for name in sys.argv[1:3])
open(sys.argv[3], "wb").write(image + signature + len(signature).to_bytes(8, "big"))
' "$2/cairn-$1.img" signature "$3"
"""
NEWS = """# News

## 1.2.3, 3 December 2026

- **Something new.**

## 1.2.2, 1 December 2026

- Old.
"""


def git(repo: Path, *words: str) -> str:
    """Runs git as somebody; its output."""
    command = ["git", "-C", str(repo), "-c", "user.name=x", "-c", "user.email=x", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release's keys: an authority, what it signed, and an OpenSSH key."""
    folder = tmp_path_factory.mktemp("keys")
    authorities = [new_authority(folder, name, days=3000) for name in ("ca", "other")]
    request = new_request(folder)
    for authority in authorities:
        sign_request(request, authority, folder / f"bundle-{authority.name}")
    sign_request(request, authorities[0], folder / "bundle-short.pem", days=1)
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "sums")]
    subprocess.run(make, check=True)
    make[-1] += "-other"
    subprocess.run(make, check=True)
    return folder


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Path:
    """A repository of version 1.2.3 with its tag, from which the clones are made."""
    repo = tmp_path_factory.mktemp("origin") / "cairn"
    for name in ("support", "board", "lab"):
        shutil.copytree(ROOT / name, repo / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".gitignore", repo)
    (repo / "VERSION").write_text("1.2.3\n")
    (repo / "NEWS.md").write_text(NEWS)
    (repo / "builder").write_text(BUILDER)
    program(repo / "support/bundle", BUNDLE)
    key = (keys / "sums.pub").read_text()
    (repo / "support/release-signers").write_text(f'cairn-release namespaces="cairn-release" {key}')
    git(repo.parent, "init", "-q", str(repo))
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "1.2.3")
    git(repo, "tag", "v1.2.3")
    return repo


@pytest.fixture
def clone(origin: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes a clone in a folder of that name."""

    def make(name: str) -> Path:
        git(tmp_path, "clone", "-q", str(origin), str(tmp_path / name))
        return tmp_path / name

    return make


def names(keys: Path) -> dict[str, str]:
    """The environment that names a release's keys."""
    return {
        "CAIRN_KEYRING": f"{keys}/ca.pem",
        "CAIRN_BUNDLE_KEY": f"{keys}/bundle.key",
        "CAIRN_BUNDLE_CERT": f"{keys}/bundle-ca.pem",
        "CAIRN_SUMS_KEY": f"{keys}/sums",
    }


def release(
    repo: Path, *options: str, env: dict[str, str] | None = None, version: str = "1.2.3"
) -> subprocess.CompletedProcess[str]:
    """Runs it; of the environment's keys only those of `env` are there."""
    base = {name: word for name, word in os.environ.items() if not name.startswith("CAIRN_")}
    base |= {"PYTHONPATH": str(repo), "CAIRN_CACHE": str(repo.parent / "cache")} | (env or {})
    base.pop("BUILDROOT", None)
    command = [sys.executable, str(repo / "support/release"), "--build", "sh builder", *options]
    return captured(*command, version, folder=repo, env=base)


def refused(done: subprocess.CompletedProcess[str], repo: Path) -> str:
    """The sentence of a release that was refused before anything was built."""
    assert done.returncode == 1, done.stderr
    assert not (repo / "out/release").exists()
    assert not (repo / "out/release-work/cairn").exists()
    (line,) = done.stderr.splitlines()
    assert line.startswith("release: ")
    return line


def test_two_folders_one_release(clone: Callable[[str], Path], keys: Path) -> None:
    """Clones whose paths have other names and lengths make the same bytes, bundles included."""
    found = []
    for name in ("a", "a much longer name, with blanks"):
        repo = clone(name)
        # Nothing of whoever builds gets in.
        env = names(keys) | {"CFLAGS": f"-D{name}", "HOME": str(repo.parent), "TZ": "Asia/Tokyo"}
        done = release(repo, env=env)
        assert done.returncode == 0, done.stderr
        assert "--> building rpi5 (1 of 2) at /mnt/cairn" in done.stderr
        result = repo / "out/release/1.2.3"
        found.append({path.name: path.read_bytes() for path in result.iterdir()})
        assert captured(
            sys.executable, str(repo / "support/release-compare"), str(result), str(result)
        ).stdout.startswith("the same: ")
    assert found[0] == found[1]
    board = [f"cairn-1.2.3-{board}" for board in ("rpi5", "x86_64")]
    ends = (".img.xz", ".img.bmap", ".img.sha256", ".cdx.json", ".raucb")
    expected = {f"{name}{end}" for name in board for end in ends}
    expected |= {"SHA256SUMS", "SHA256SUMS.sig", "release-notes.md", "cairn-1.2.3-keyring.pem"}
    assert set(found[0]) == expected
    assert found[0]["release-notes.md"] == b"# Cairn 1.2.3\n\n- **Something new.**\n"
    xz = ["xz", "-dc"]
    image = subprocess.run(
        xz, input=found[0]["cairn-1.2.3-rpi5.img.xz"], check=True, capture_output=True
    ).stdout.decode()
    assert image.startswith("rpi5 in /mnt/cairn/out/rpi5 (/mnt/cairn/out/rpi5) on cairn with")
    assert "RELEASE_TYPE=stable\n" in image
    epoch = git(clone("third"), "log", "-1", "--format=%ct")
    assert f"epoch {epoch}, release 1, cache /mnt/cache\n" in image
    assert f"../../VERSION {epoch} 644\n" in image
    assert image.splitlines()[-4:] == ["cache", "cairn", "home", "keyring.pem"]


def test_as_an_ordinary_user(origin: Path, keys: Path) -> None:
    """Makes the same release as root does, in a namespace of the user's own."""
    users = (0, pwd.getpwnam("nobody").pw_uid) if os.geteuid() == 0 else (os.geteuid(),)
    made = []
    # Not below pytest's folder, which is its user's alone
    with tempfile.TemporaryDirectory(prefix="cairn-") as top:
        Path(top).chmod(0o755)
        for user in users:
            folder = Path(top) / str(user)
            shutil.copytree(keys, folder / "keys")
            git(folder, "clone", "-q", str(origin), str(folder / "cairn"))
            for path in (folder, *folder.rglob("*")):
                os.chown(path, user, -1, follow_symlinks=False)
            become = ["setpriv", f"--reuid={user}"] if os.geteuid() == 0 else []
            env = names(folder / "keys") | {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
            env |= {"PYTHONPATH": str(folder / "cairn"), "PYTHONDONTWRITEBYTECODE": "1"}
            words = ["python3", "support/release", "--boards", "rpi5", "--build", "sh builder"]
            done = captured(*become, *words, "1.2.3", folder=folder / "cairn", env=env)
            if "lets no ordinary user make a mount namespace" in done.stderr:
                # Of such a machine nothing else can be seen here; all others go on.
                assert done.returncode == 1
                assert captured(*become, "unshare", "-rmu", "true").returncode != 0
                return
            assert done.returncode == 0, done.stderr
            result = folder / "cairn/out/release/1.2.3"
            assert {path.stat().st_uid for path in result.iterdir()} == {user}
            made.append({path.name: path.read_bytes() for path in result.iterdir()})
    assert all(found == made[0] for found in made)


def test_a_rehearsal_is_no_release(clone: Callable[[str], Path]) -> None:
    """It needs no tag, no date and no keys; its images say what they are, and it is elsewhere."""
    repo = clone("rehearsal")
    git(repo, "tag", "-d", "v1.2.3")
    (repo / "NEWS.md").write_text(NEWS.replace("3 December 2026", "not released yet"))
    git(repo, "commit", "-q", "-a", "-m", "not yet")
    done = release(repo, "--rehearse", "--boards", "x86_64")
    assert done.returncode == 0, done.stderr
    assert not (repo / "out/release").exists()
    result = repo / "out/rehearsal/1.2.3"
    image = captured("xz", "-dc", str(result / "cairn-1.2.3-x86_64.img.xz")).stdout
    assert "RELEASE_TYPE=development" in image
    assert "release no," in image
    again = release(repo, "--rehearse", "--boards", "x86_64")
    assert again.returncode == 1
    assert "out/rehearsal/1.2.3 is there already and stays as it is" in again.stderr


@pytest.mark.parametrize("stage", ["", "build", "sign"])
def test_a_rehearsal_has_no_release_keys(
    clone: Callable[[str], Path], keys: Path, stage: str
) -> None:
    """Any that is named stops it, in each stage; this clone's own may be named."""
    repo = clone("rehearsal")
    for env in (
        names(keys),
        *({name: word} for name, word in names(keys).items()),
        {"CAIRN_BUNDLE_KEY": "pkcs11:token=cairn;object=bundles"},
        {"CAIRN_SUMS_KEY": f"{keys}/sums.pub", "CAIRN_KEYRING": f"{keys}/missing"},
    ):
        line = refused(release(repo, "--rehearse", "--stage", stage, env=env), repo)
        assert "nodes in use would take what a release's keys sign" in line
        (unset,) = re.findall(r"unset ([A-Z_, ]+)\. Nothing was built$", line)
        assert set(unset.split(", ")) == set(env)
    assert not (repo / "out/rehearsal").exists()
    shutil.copytree(repo / "out/keys", repo.parent / "copy")
    for folder in (repo / "out/keys", repo.parent / "copy"):
        own = {name: f"{folder}/{file}" for name, (file, _) in release_inputs.NAMED.items()}
        found = release_inputs.keys_of(repo, own, rehearsal=True)
        assert found == release_inputs.keys_of(repo, {}, rehearsal=True)
        assert release_inputs.keyring_alone(repo, own, rehearsal=True).keyring == found.keyring


def test_without_keys_to_compare(clone: Callable[[str], Path], keys: Path) -> None:
    """Whoever has the published keyring makes the same images; what differs is what is signed."""
    repo = clone("signed")
    done = release(repo, "--boards", "x86_64", env=names(keys))
    assert done.returncode == 0, done.stderr
    other = clone("somebody else's")
    assert "CAIRN_KEYRING is not set" in refused(release(other, "--unsigned"), other)
    env = {"CAIRN_KEYRING": str(keys / "ca.pem")}
    done = release(other, "--unsigned", "--boards", "x86_64", env=env)
    assert done.returncode == 0, done.stderr
    a, b = repo / "out/release/1.2.3", other / "out/unsigned/1.2.3"
    done = captured(sys.executable, str(ROOT / "support/release-compare"), str(a), str(b))
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "SHA256SUMS",
        "SHA256SUMS.sig",
        "cairn-1.2.3-x86_64.raucb",
    ]
    assert captured("sha256sum", "-c", "SHA256SUMS", folder=b).returncode == 0


def test_keys_after_the_build(clone: Callable[[str], Path], keys: Path) -> None:
    """Built where no key is; signed later, which builds nothing, and makes the same release."""
    whole = clone("whole")
    done = release(whole, env=names(keys))
    assert done.returncode == 0, done.stderr
    repo = clone("stages")
    assert "was not built completely" in refused(
        release(repo, "--stage", "sign", env=names(keys)), repo
    )
    keyring = {"CAIRN_KEYRING": str(keys / "ca.pem")}
    done = release(repo, "--stage", "build", env=keyring)
    assert done.returncode == 0, done.stderr
    assert not (repo / "out/release").exists()
    for env, options, words in (
        (names(keys), ["--boards", "rpi5"], "with another boards"),
        ({}, ["--rehearse"], "with another rehearsal"),
        (keyring, [], "CAIRN_BUNDLE_KEY is not set"),
    ):
        done = release(repo, "--stage", "sign", *options, env=env)
        assert done.returncode == 1
        assert words in done.stderr
        assert not (repo / "out/release").exists()
    done = release(repo, "--stage", "sign", "--build", "false", env=names(keys))
    assert done.returncode == 0, done.stderr
    made = [
        {path.name: path.read_bytes() for path in (folder / "out/release/1.2.3").iterdir()}
        for folder in (whole, repo)
    ]
    assert made[0] == made[1]


def test_a_build_that_failed_is_not_signed(clone: Callable[[str], Path], keys: Path) -> None:
    """Nor one before it, of which a part may be there."""
    repo = clone("c")
    keyring = {"CAIRN_KEYRING": str(keys / "ca.pem")}
    assert release(repo, "--stage", "build", env=keyring).returncode == 0
    assert release(repo, "--stage", "build", "--build", "false", env=keyring).returncode == 1
    done = release(repo, "--stage", "sign", env=names(keys))
    assert "was not built completely" in done.stderr
    assert not (repo / "out/release").exists()


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.2.4", "the file VERSION says 1.2.3, not 1.2.4"),
        ("v1.2.3", "VERSION=v1.2.3 is no version"),
        ("1.2", "is no version"),
        ("1.2.3/../x", "is no version"),
        ("01.2.3", "is no version"),
    ],
)
def test_another_version(
    clone: Callable[[str], Path], keys: Path, version: str, words: str
) -> None:
    """What is asked for is what the clone is."""
    repo = clone("c")
    assert words in refused(release(repo, env=names(keys), version=version), repo)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("changed", "changes that are in no commit, VERSION among them"),
        ("odd version", "VERSION says '1.2.3?', and nodes take no bundle of such a version"),
        ("new file", "changes that are in no commit, extra among them"),
        ("no tag", "the tag v1.2.3 does not exist"),
        ("old tag", "the tag v1.2.3 is another commit"),
        ("no date", "NEWS.md says '1.2.3, not released yet'"),
        ("no section", "NEWS.md has no section '## 1.2.3, DATE' with text"),
        ("empty section", "NEWS.md has no section '## 1.2.3, DATE' with text"),
        ("no git", "is no git clone"),
        ("board", "there is no board 'rpi4'; boards: rpi5 x86_64"),
    ],
)
def test_a_clone_that_is_not_ready(
    clone: Callable[[str], Path], keys: Path, fault: str, words: str
) -> None:
    """Each is one sentence, and nothing is built."""
    repo = clone("c")
    texts = {
        "no date": NEWS.replace("3 December 2026", "not released yet"),
        "no section": NEWS.replace("## 1.2.3", "## 1.2.30"),
        "empty section": NEWS.replace("- **Something new.**\n", ""),
        "old tag": NEWS + "\n",
    }
    options = ["--boards", "rpi4"] if fault == "board" else []
    if fault == "changed":
        (repo / "VERSION").write_text("1.2.4\n")
    elif fault == "odd version":
        (repo / "VERSION").write_bytes(b"1.2.3\r\n")
        git(repo, "commit", "-q", "-a", "-m", "version")
        git(repo, "tag", "-f", "v1.2.3")
    elif fault == "new file":
        (repo / "extra").touch()
    elif fault == "no tag":
        git(repo, "tag", "-d", "v1.2.3")
    elif fault == "no git":
        shutil.rmtree(repo / ".git")
    elif fault in texts:
        (repo / "NEWS.md").write_text(texts[fault])
        git(repo, "commit", "-q", "-a", "-m", "news")
        if fault != "old tag":
            git(repo, "tag", "-f", "v1.2.3")
    assert words in refused(release(repo, *options, env=names(keys)), repo)


@pytest.mark.parametrize(
    ("variable", "word", "words"),
    [
        ("CAIRN_KEYRING", "", "CAIRN_KEYRING is not set"),
        ("CAIRN_BUNDLE_KEY", "", "CAIRN_BUNDLE_KEY is not set"),
        ("CAIRN_BUNDLE_CERT", "", "CAIRN_BUNDLE_CERT is not set"),
        ("CAIRN_SUMS_KEY", "", "CAIRN_SUMS_KEY is not set"),
        ("CAIRN_SUMS_KEY", "{keys}/missing", "cannot be read (No such file or directory)"),
        ("CAIRN_SUMS_KEY", "{keys}", "cannot be read (Is a directory)"),
        ("CAIRN_SUMS_KEY", "{keys}/ca.key", "could not sign"),
        ("CAIRN_SUMS_KEY", "{keys}/sums-other", "users could not verify the sums"),
        ("CAIRN_SUMS_KEY", "pkcs11:object=x", "has to be a file"),
        ("CAIRN_BUNDLE_CERT", "pkcs11:object=x", "has to be a file"),
        ("CAIRN_KEYRING", "{keys}/other.pem", "would refuse the bundles"),
        ("CAIRN_KEYRING", "{keys}/bundle-ca.pem", "is of no certificate authority"),
        ("CAIRN_KEYRING", "{keys}/ca.key", "has a private key in it"),
        ("CAIRN_BUNDLE_CERT", "{keys}/bundle-other.pem", "would refuse the bundles"),
        ("CAIRN_BUNDLE_CERT", "{keys}/bundle-short.pem", "ends within 180 days; sign with one"),
        ("CAIRN_BUNDLE_KEY", "{keys}/other.key", "belongs to another key"),
        ("CAIRN_BUNDLE_KEY", "{keys}/ca.pem", "is no private key"),
        ("CAIRN_BUNDLE_KEY", "{repo}/out/bundle.key", "lies in this clone"),
        ("CAIRN_SUMS_KEY", "{repo}/out/sums", "lies in this clone"),
    ],
)
def test_keys_that_do_not_fit(
    clone: Callable[[str], Path], keys: Path, variable: str, word: str, words: str
) -> None:
    """They are tried before the hours of the build, as those who update and verify will."""
    repo = clone("c")
    (repo / "out").mkdir()
    for name in ("bundle.key", "sums"):
        shutil.copy(keys / name, repo / "out")
    env = names(keys) | {variable: word.format(keys=keys, repo=repo)}
    assert words in refused(release(repo, env=env), repo)


@pytest.fixture
def token(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The bundle key in a token of files; its URI. The PIN is in the environment."""
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm.conf").write_text(f"directories.tokendir = {tmp_path}/tokens\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm.conf"))
    (library,) = Path("/usr/lib").glob("*/softhsm/libsofthsm2.so")
    monkeypatch.setenv("RAUC_PKCS11_MODULE", str(library))
    monkeypatch.setenv("RAUC_PKCS11_PIN", "1234")
    words = ["--init-token", "--free", "--label", "cairn", "--pin", "1234", "--so-pin", "5678"]
    object_words = ["--label", "bundles", "--id", "01", "--pin", "1234"]
    for command in (
        words,
        ["--import", str(keys / "bundle.key"), "--token", "cairn", *object_words],
    ):
        subprocess.run(["softhsm2-util", *command], check=True, capture_output=True)
    return "pkcs11:token=cairn;object=bundles;type=private"


def test_a_token(
    origin: Path, keys: Path, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signs before anything is built; a wrong PIN, object or certificate is noticed then."""
    env = names(keys) | {"CAIRN_BUNDLE_KEY": token}
    assert release_inputs.keys_of(origin, env, rehearsal=False).bundle_key == token
    # one that nodes would take, of another key
    more = ["-CA", str(keys / "ca.pem"), "-CAkey", str(keys / "ca.key")]
    more += ["-addext", "basicConstraints=critical,CA:false"]
    more += ["-addext", "extendedKeyUsage=codeSigning,emailProtection"]
    another = new_certificate(tmp_path, "another", *more)
    for name, word, words in (
        ("CAIRN_BUNDLE_KEY", f"{token};pin-value=1234", "give it as RAUC_PKCS11_PIN"),
        ("CAIRN_BUNDLE_KEY", f"{token}?pin-value=1234", "give it as RAUC_PKCS11_PIN"),
        ("CAIRN_BUNDLE_KEY", "pkcs11:token=cairn;object=no", "the token's key could not sign"),
        ("CAIRN_BUNDLE_CERT", str(another), "the token's key could not sign"),
    ):
        with pytest.raises(release_inputs.ReleaseError, match=words):
            release_inputs.keys_of(origin, env | {name: word}, rehearsal=False)
    monkeypatch.setenv("RAUC_PKCS11_PIN", "4321")
    with pytest.raises(release_inputs.ReleaseError, match="the token's key could not sign"):
        release_inputs.keys_of(origin, env, rehearsal=False)


def test_no_pin_on_a_command_line(tmp_path: Path) -> None:
    """support/bundle refuses it, too."""
    images = tmp_path / "boot/slot-a"
    images.mkdir(parents=True)
    for name in ("rootfs.erofs", "boot/slot-a/release", "boot/slot-a/cmdline", "cert"):
        (tmp_path / name).touch()
    env = dict(os.environ) | {"CAIRN_BUNDLE_KEY": "pkcs11:object=x?pin-value=1234"}
    env |= {name: str(tmp_path / "cert") for name in ("CAIRN_BUNDLE_CERT", "CAIRN_KEYRING")}
    bundle = str(ROOT / "support/bundle")
    done = captured(bundle, "rpi5", str(tmp_path), str(tmp_path / "out"), env=env)
    assert done.returncode == 1
    assert "give it as RAUC_PKCS11_PIN" in done.stderr


def test_development_keys_are_refused(clone: Callable[[str], Path], keys: Path) -> None:
    """Alone, and as one certificate of a release's keyring."""
    repo = clone("c")
    subprocess.run([str(repo / "support/dev-keys")], check=True, capture_output=True)
    own = repo / "out/keys"
    outside = repo.parent / "outside"
    shutil.copytree(own, outside)
    env = names(keys) | {
        "CAIRN_KEYRING": str(outside / "dev-ca.pem"),
        "CAIRN_BUNDLE_KEY": str(outside / "dev-bundle.key"),
        "CAIRN_BUNDLE_CERT": str(outside / "dev-bundle.pem"),
    }
    assert "has a development certificate" in refused(release(repo, env=env), repo)
    both = outside / "both.pem"
    both.write_text((keys / "ca.pem").read_text() + (own / "dev-ca.pem").read_text())
    env = names(keys) | {"CAIRN_KEYRING": str(both)}
    assert "has a development certificate" in refused(release(repo, env=env), repo)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("exit 3", "the build of rpi5 failed with exit status 3"),
        ('rm "cairn-$board.img.bmap"', "the build of rpi5 left no cairn-rpi5.img.bmap"),
        (
            "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=DEVELOPMENT -keyout /dev/null "
            "-out build/target/etc/rauc/keyring.pem 2>/dev/null",
            "the image of rpi5 trusts other certificates for updates than",
        ),
        (
            "echo >>build/target/etc/rauc/keyring.pem",
            "(keyring.pem in its /etc/rauc)",
        ),
        ("rm build/target/etc/rauc/keyring.pem", "(no keyring in its /etc/rauc)"),
        (
            "cd build/target/etc/rauc; cp keyring.pem other.pem",
            "(keyring.pem and other.pem in its /etc/rauc)",
        ),
        (
            "cd build/target/etc/rauc; mv keyring.pem x; ln -s x keyring.pem",
            "left a link as build/target/etc/rauc/keyring.pem",
        ),
        (
            "ln -sf ../../VERSION cairn-$board.cdx.json",
            "the build of rpi5 left a link as cairn-rpi5.cdx.json",
        ),
        (
            "cd ..; mv $board $board.x; ln -s $board.x $board",
            "the build of rpi5 left a link as",
        ),
        ("echo 1.2.4 >../../VERSION", "could not be signed (cairn-rpi5.raucb does not say"),
    ],
)
def test_a_build_that_goes_wrong(
    clone: Callable[[str], Path], keys: Path, line: str, words: str
) -> None:
    """Nothing that looks like a release is there afterwards."""
    repo = clone("c")
    with (repo / "builder").open("a") as stream:
        stream.write(f"{line}\n")
    git(repo, "commit", "-q", "-a", "-m", "a fault")
    git(repo, "tag", "-f", "v1.2.3")
    done = release(repo, env=names(keys))
    assert done.returncode == 1
    assert words in done.stderr.splitlines()[-1]
    assert not (repo / "out/release").exists()


# -- what the page says ------------------------------------------------------------------

PAGE = (ROOT / "docs/develop/release.md").read_text()


def commands(heading: str) -> str:
    """The indented lines of a section of the page, up to the next heading, as a script."""
    section = PAGE.split(f" {heading}\n", 1)[1].split("\n#")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    return "set -eu\n" + "\n".join(lines) + "\n"


def typed(script: str, folder: Path, secret: str) -> tuple[int, str]:
    """Runs a script at a terminal, at which each question for a passphrase is answered.

    Returns its exit status and all that it said.
    """
    ours, theirs = pty.openpty()
    command = ["setsid", "--ctty", "--wait", "sh", "-c", script]
    child = subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said, answered = "", 0
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(ours, 4096):
            said += part.decode(errors="replace")
            if re.search(r"pass ?phrase[^\n]*: ?$", said[answered:]):
                os.write(ours, f"{secret}\n".encode())
                answered = len(said)
    os.close(ours)
    return child.wait(60), said


def test_the_page(origin: Path, tmp_path: Path) -> None:
    """Its commands as they stand: make the keys, release, and verify by hand; then forgeries."""
    folder = tmp_path / "keys"
    folder.mkdir()
    making = commands("Make the keys").split("cairn-release namespaces")[0]
    # 4096 bits take a while; how long a key is makes no difference to what follows.
    status, said = typed(making.replace("rsa:4096", "rsa:2048"), folder, "open-sesame")
    assert status == 0, said
    repo = tmp_path / "cairn"
    git(tmp_path, "clone", "-q", str(origin), str(repo))
    (line,) = re.findall(r"(?m)^    (cairn-release .*)$", PAGE)
    key = " ".join((folder / "sums.pub").read_text().split()[:2])
    line = re.sub(r"ssh-ed25519 \S+", key, line)
    signers = re.sub(r'valid-after="\d+"', 'valid-after="20200101"', line)
    (repo / "support/release-signers").write_text(f"# Signers\n{signers}\n")
    news = NEWS.replace("1.2.3", "0.1.0")
    (repo / "NEWS.md").write_text(news)
    (repo / "VERSION").write_text("0.1.0\n")
    program(
        repo / "support/bundle",
        "keys=$(pwd)/out/keys\n"
        "mkdir content && cd content\n"
        "head -c 100000 /dev/urandom >root.img\n"
        "printf '[update]\\ncompatible=cairn-%s\\nversion=0.1.0\\n[bundle]\\nformat=verity\\n'"
        ' "$1" >manifest.raucm\n'
        "printf '[image.rootfs]\\nfilename=root.img\\n' >>manifest.raucm\ncd ..\n"
        'rauc bundle --key="$keys/dev-bundle.key" --cert="$keys/dev-bundle.pem"'
        ' --keyring="$keys/dev-ca.pem" content "$3"\n',
    )
    git(repo, "commit", "-q", "-a", "-m", "0.1.0")
    git(repo, "tag", "v0.1.0")
    env = f"CAIRN_KEYRING={folder}/keyring.pem CAIRN_BUNDLE_CERT={folder}/bundle.pem"
    env += f" CAIRN_BUNDLE_KEY={folder}/bundle.key CAIRN_SUMS_KEY={folder}/sums"
    env += f" PYTHONPATH={repo} CAIRN_CACHE={tmp_path}/cache"
    build = (
        f"{env} {sys.executable} {repo}/support/release --boards rpi5 --build 'sh builder' 0.1.0"
    )
    status, said = typed(build, folder, "open-sesame")
    assert status == 0, said

    downloads = repo / "out/release/0.1.0"
    shutil.copy(repo / "support/release-signers", downloads / "release-signers")
    script = commands("Verify by hand")
    done = captured("sh", "-c", script, folder=downloads)
    assert done.returncode == 0, done.stderr
    assert (
        f'Good "cairn-release" signature for cairn-release with {key_type(key)} key' in done.stdout
    )
    assert "cairn-0.1.0-rpi5.img.xz: OK\n" in done.stdout
    assert re.search(r"Compatible:\s+'cairn-rpi5'", done.stdout)
    said = (downloads / "what-it-says").read_text()
    assert re.search(r"(?m)^verity-hash=[0-9a-f]{64}", said)

    verify = script.split("sha256sum")[0]
    for fault, words in (
        ("SHA256SUMS", "Could not verify signature"),
        ("SHA256SUMS.sig", ""),
        ("release-signers", "Could not verify signature"),
    ):
        bad = tmp_path / f"bad-{fault}"
        shutil.copytree(downloads, bad)
        text = (bad / fault).read_text()
        changed = text.replace("rpi5.img.xz", "rpi5.img.xy").replace(key.split()[1][-6:], "AAAAAA")
        (bad / fault).write_text(changed if changed != text else text.replace("U1NI", "U1NJ"))
        done = captured("sh", "-c", verify, folder=bad)
        assert done.returncode != 0, fault
        assert words in done.stdout + done.stderr
    image = downloads / "cairn-0.1.0-rpi5.img.xz"
    image.write_bytes(image.read_bytes() + b"\0")
    done = captured("sh", "-c", script, folder=downloads)
    assert done.returncode != 0
    assert "cairn-0.1.0-rpi5.img.xz: FAILED" in done.stdout


def key_type(key: str) -> str:
    """As ssh-keygen names it."""
    return key.split()[0].removeprefix("ssh-").upper()


# -- rotation ----------------------------------------------------------------------------


def test_rotation_of_the_authority(origin: Path, tmp_path: Path, keys: Path) -> None:
    """With both certificates in the keyring, nodes take bundles of the old and of the new one."""
    both = tmp_path / "keyring.pem"
    both.write_text((keys / "ca.pem").read_text() + (keys / "other.pem").read_text())
    for keyring, certificate, good in (
        (both, "bundle-ca.pem", True),
        (both, "bundle-other.pem", True),
        (keys / "ca.pem", "bundle-other.pem", False),
    ):
        env = names(keys) | {"CAIRN_KEYRING": str(keyring)}
        env["CAIRN_BUNDLE_CERT"] = str(keys / certificate)
        if good:
            found = release_inputs.keys_of(origin, env, rehearsal=False)
            assert found.keyring == keyring
        else:
            with pytest.raises(release_inputs.ReleaseError, match="would refuse the bundles"):
                release_inputs.keys_of(origin, env, rehearsal=False)


def test_rotation_of_the_sums_key(tmp_path: Path, keys: Path) -> None:
    """A key whose line has ended signs no more; what it signed before is verified with a time."""
    sums = tmp_path / "SHA256SUMS"
    sums.write_text("0  nothing\n")
    signers = tmp_path / "release-signers"
    key = (keys / "sums.pub").read_text()
    line = 'cairn-release namespaces="cairn-release",valid-after="20200101"'
    trusted = release_inputs.Keys(keys / "ca.pem", "", "", keys / "sums", signers)
    signers.write_text(f"{line} {key}")
    release_inputs.sign(trusted, sums)
    # The page's words for the end of a key, and for the time at which its signature is looked at
    (end,) = re.findall(r'`(valid-before="\d+")`', PAGE)
    (at,) = re.findall(r"`(-Overify-time=\d+)`", PAGE)
    signers.write_text(f"{line},{end.replace('2027', '2021')} {key}")
    with pytest.raises(release_inputs.ReleaseError, match="users could not verify the sums"):
        release_inputs.sign(trusted, sums)
    verify = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", "cairn-release"]
    verify += ["-n", "cairn-release", "-s", f"{sums}.sig"]
    for option, status in (([], 255), ([at.replace("2027", "2021")], 0)):
        with sums.open() as stream:
            done = subprocess.run(
                [*verify, *option], check=False, stdin=stream, capture_output=True
            )
        assert done.returncode == status, done.stderr
