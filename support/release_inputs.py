"""What a release is made from, and why it is refused: version, commit, news, keys.

Everything is checked before anything is built: a build takes an hour for each board. Each function
raises ReleaseError, whose text is one sentence for whoever makes the release.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support import bundle_sign
from support.bundle_sign import is_uri

#: The signer's name in support/release-signers, and the purpose that the signature is bound to.
SIGNER = "cairn-release"
NAMESPACE = "cairn-release"
UNBUILT = "nothing was built"
#: Days that nodes have at least to take a bundle: docs/develop/release.md, Rotate keys
INSTALLABLE = 180


class ReleaseError(Exception):
    """The release is refused; the text is a sentence."""


@dataclass(frozen=True)
class Keys:
    """What signs, and whom others trust.

    keyring: certificates that the images trust. bundle_key: a file or a PKCS#11 URI. bundle_cert:
    its certificate. sums_key: an OpenSSH key, or the public half of one that an agent has.
    signers: whose signatures of the sums users accept.
    """

    keyring: Path
    bundle_key: str
    bundle_cert: str
    sums_key: Path
    signers: Path


def run(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A program's status and output; it may ask for a passphrase at the terminal."""
    return subprocess.run(
        [str(word) for word in words], check=False, capture_output=True, text=True, cwd=folder
    )


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """The last line that a program said."""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def commit_of(root: Path, version: str, rehearsal: bool) -> str:
    """The commit of a clone that has no changes, is of this version and has its tag."""
    if not re.fullmatch(r"(0|[1-9]\d{0,3})(\.(0|[1-9]\d{0,3})){2}", version):
        raise ReleaseError(
            f"VERSION={version} is no version: give three numbers, such as 0.1.0; {UNBUILT}"
        )
    head = run("git", "-C", root, "rev-parse", "--verify", "-q", "HEAD")
    if head.returncode:
        raise ReleaseError(
            f"{root} is no git clone with a commit; a release is made from a clone; {UNBUILT}"
        )
    changed = run("git", "-C", root, "status", "--porcelain").stdout.splitlines()
    if changed:
        raise ReleaseError(
            f"this clone has changes that are in no commit, {changed[0][3:]} among them;"
            f" commit them or put them away. {UNBUILT.capitalize()}"
        )
    read = run(root / "support/version")
    if read.returncode:
        raise ReleaseError(f"{last_words(read).removeprefix('version: ')}. {UNBUILT.capitalize()}")
    written = read.stdout.strip()
    if version != written:
        raise ReleaseError(
            f"the file VERSION says {written}, not {version}; change and commit it first,"
            f" or release {written}. {UNBUILT.capitalize()}"
        )
    commit = head.stdout.strip()
    tag = run("git", "-C", root, "rev-parse", "--verify", "-q", f"refs/tags/v{version}^{{commit}}")
    if not rehearsal and tag.stdout.strip() != commit:
        what = "is another commit" if tag.stdout.strip() else "does not exist"
        raise ReleaseError(
            f"the tag v{version} {what}; tag the commit that is to be released"
            f" (git tag -s v{version}), and check it out. {UNBUILT.capitalize()}"
        )
    return commit


def notes_of(root: Path, version: str, rehearsal: bool) -> str:
    """The section of NEWS.md for this version, which has a date."""
    news = (root / "NEWS.md").read_text()
    found = re.search(rf"(?ms)^## {re.escape(version)}(?:, ([^\n]*))?\n(.*?)(?=^## |\Z)", news)
    if not found or not found[2].strip():
        raise ReleaseError(
            f"NEWS.md has no section '## {version}, DATE' with text; write what is new for owners,"
            f" and commit it. {UNBUILT.capitalize()}"
        )
    if not rehearsal:
        try:
            time.strptime(found[1] or "", "%d %B %Y")
        except ValueError:
            raise ReleaseError(
                f"NEWS.md says '{version}, {found[1] or 'no date'}'; write the day instead, such as"
                f" '## {version}, 3 December 2026', and commit it. {UNBUILT.capitalize()}"
            ) from None
    return f"# Cairn {version}\n\n{found[2].strip()}\n"


def boards_of(known: list[str], wanted: str) -> list[str]:
    """The boards to build: all, or those named."""
    chosen = wanted.split() or known
    for name in chosen:
        if name not in known:
            raise ReleaseError(f"there is no board '{name}'; boards: {' '.join(known)}. {UNBUILT}")
    return list(dict.fromkeys(chosen))


#: What a release is told: the development key that a rehearsal has instead, and what it is
NAMED = {
    "CAIRN_KEYRING": ("dev-ca.pem", "the certificates that the images trust for updates"),
    "CAIRN_BUNDLE_KEY": (
        "dev-bundle.key",
        "the key that signs the bundles, a file or a PKCS#11 URI",
    ),
    "CAIRN_BUNDLE_CERT": ("dev-bundle.pem", "the file with that key's certificate"),
    "CAIRN_SUMS_KEY": ("dev-sums", "the OpenSSH key that signs SHA256SUMS"),
}


def same_file(first: Path, second: Path) -> bool:
    """Whether both can be read, and have the same bytes."""
    try:
        return first.read_bytes() == second.read_bytes()
    except OSError:
        return False


def development_keys(root: Path, environment: Mapping[str, str]) -> Path:
    """The folder of this clone's development keys, made if need be, for a rehearsal.

    A rehearsal is of any commit, under a release's number. Every node would take what a release's
    keys sign, so that it is refused if these, or any others, are named.
    """
    made = run(root / "support/dev-keys")
    if made.returncode:
        raise ReleaseError(last_words(made))
    folder = root / "out/keys"
    others = [
        name
        for name, (file, _) in NAMED.items()
        if environment.get(name) and not same_file(Path(environment[name]), folder / file)
    ]
    if others:
        raise ReleaseError(
            "a rehearsal has this clone's development keys alone, for nodes in use would take what"
            f" a release's keys sign; unset {', '.join(others)}. {UNBUILT.capitalize()}"
        )
    return folder


def key_word(root: Path, name: str, word: str) -> str:
    """What one of NAMED says, if it can be used: a PKCS#11 URI, or a file's whole path."""
    meaning = NAMED[name][1]
    if is_uri(word):
        if name != "CAIRN_BUNDLE_KEY":
            raise ReleaseError(f"{name} has to be a file, not a PKCS#11 URI. {UNBUILT}")
        if "pin-value=" in word:
            raise ReleaseError(
                f"{name} has a PIN in it, which every user of the machine can read while"
                f" openssl runs; give it as RAUC_PKCS11_PIN. {UNBUILT.capitalize()}"
            )
        return word
    path = Path(word)
    try:
        path.open("rb").close()
    except OSError as error:
        raise ReleaseError(
            f"{name}={path} cannot be read ({error.strerror}); name {meaning}."
            f" {UNBUILT.capitalize()}"
        ) from None
    secret = name in ("CAIRN_BUNDLE_KEY", "CAIRN_SUMS_KEY")
    if secret and root.resolve() in path.resolve().parents:
        raise ReleaseError(
            f"{name}={path} lies in this clone, from where it may be published;"
            f" keep it elsewhere. {UNBUILT.capitalize()}"
        )
    return str(path.resolve())


def keys_of(root: Path, environment: Mapping[str, str], rehearsal: bool) -> Keys:
    """The keys, each tried; a rehearsal's are this clone's development keys."""
    words = {}
    if rehearsal:
        development = development_keys(root, environment)
        words = {name: str(development / file) for name, (file, _) in NAMED.items()}
        signers = development / "dev-signers"
        key = (development / "dev-sums.pub").read_text()
        signers.write_text(f'{SIGNER} namespaces="{NAMESPACE}" {key}')
    else:
        for name, (_, meaning) in NAMED.items():
            word = environment.get(name, "")
            if not word:
                raise ReleaseError(f"{name} is not set: name {meaning}. {UNBUILT.capitalize()}")
            words[name] = key_word(root, name, word)
        signers = root / "support/release-signers"
    keys = Keys(
        Path(words["CAIRN_KEYRING"]),
        words["CAIRN_BUNDLE_KEY"],
        words["CAIRN_BUNDLE_CERT"],
        Path(words["CAIRN_SUMS_KEY"]),
        signers,
    )
    try_bundle_keys(root, keys, rehearsal)
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / "trial"
        trial.write_text("a trial before the release is built\n")
        sign(keys, trial)
    return keys


def keyring_alone(root: Path, environment: Mapping[str, str], rehearsal: bool) -> Keys:
    """For a build that is not signed, or not yet: the published keyring, which is in the images."""
    word = environment.get("CAIRN_KEYRING", "")
    if rehearsal:
        word = str(development_keys(root, environment) / NAMED["CAIRN_KEYRING"][0])
    if not word:
        raise ReleaseError(
            "CAIRN_KEYRING is not set: name the keyring that was published with the release."
            f" {UNBUILT.capitalize()}"
        )
    check_keyring(root, Path(word), release=not rehearsal)
    return Keys(Path(word).resolve(), "", "", Path(), Path())


def check_keyring(root: Path, keyring: Path, *, release: bool) -> None:
    """Certificates of authorities, in a release none of development."""
    option = ["--release"] if release else []
    checked = run(root / "support/keyring-check", *option, keyring)
    if checked.returncode:
        raise ReleaseError(f"{last_words(checked).removeprefix('keyring-check: ')}. {UNBUILT}")


def try_bundle_keys(root: Path, keys: Keys, rehearsal: bool) -> None:
    """The images will take what this key signs, and a release trusts no development key."""
    check_keyring(root, keys.keyring, release=not rehearsal)
    certificate = Path(keys.bundle_cert)
    # Of this machine's own certificates none counts. smimesign is what RAUC and openssl ask of a
    # certificate where nobody tells them another purpose: whoever verifies by hand.
    words = ["openssl", "verify", "-no-CApath", "-no-CAstore", "-purpose", "smimesign"]
    verified = run(*words, "-CAfile", keys.keyring, certificate)
    if verified.returncode:
        why = [line for line in verified.stderr.splitlines() if "error" in line][:1]
        raise ReleaseError(
            f"images with this keyring would refuse the bundles: the certificate {certificate} is"
            f" not from an authority in {keys.keyring}, or its time is over, or it is not for"
            f" emailProtection ({why[0] if why else last_words(verified)}). {UNBUILT.capitalize()}"
        )
    if not rehearsal:
        then = int(time.time()) + INSTALLABLE * 86400
        if run(*words, "-attime", str(then), "-CAfile", keys.keyring, certificate).returncode:
            raise ReleaseError(
                f"nodes would refuse the bundles soon: the certificate {certificate}, or that of"
                f" its authority, ends within {INSTALLABLE} days; sign with one that lasts longer,"
                f" see docs/develop/release.md, Rotate keys. {UNBUILT.capitalize()}"
            )
    check_code_signing(certificate)
    if is_uri(keys.bundle_key):
        try_token(keys)
        return
    public = run("openssl", "pkey", "-in", keys.bundle_key, "-pubout")
    if public.returncode:
        raise ReleaseError(
            f"CAIRN_BUNDLE_KEY={keys.bundle_key} is no private key that openssl can read; {UNBUILT}"
        )
    if public.stdout != run("openssl", "x509", "-in", certificate, "-noout", "-pubkey").stdout:
        raise ReleaseError(
            f"the certificate {certificate} belongs to another key than {keys.bundle_key};"
            f" {UNBUILT}"
        )


def check_code_signing(certificate: Path) -> None:
    """What check-purpose=codesign of board/common/rauc.conf asks of the one who signs."""
    for extension, word, always in (
        ("extendedKeyUsage", "Code Signing", True),
        ("keyUsage", "Digital Signature", False),
    ):
        said = run("openssl", "x509", "-in", certificate, "-noout", "-ext", extension).stdout
        # "Microsoft Individual Code Signing" is another word.
        named = re.search(rf"(?m)(^ *|, ){word}(,|$)", said)
        if not named and (always or said):
            name = "codeSigning" if always else "digitalSignature"
            raise ReleaseError(
                f"nodes would refuse the bundles: the certificate {certificate} is not for {name}"
                f" ({extension}); make one as docs/develop/release.md says."
                f" {UNBUILT.capitalize()}"
            )


def try_token(keys: Keys) -> None:
    """Signs a few words, as later the bundles' manifests."""
    try:
        bundle_sign.signature(b"a trial\n", keys.bundle_key, keys.bundle_cert, keys.keyring)
    except bundle_sign.SigningError as error:
        raise ReleaseError(
            f"the token's key could not sign for {keys.bundle_cert} ({error}); see that"
            " libengine-pkcs11-openssl is installed, the token is plugged, and RAUC_PKCS11_MODULE"
            f" and RAUC_PKCS11_PIN are right. {UNBUILT.capitalize()}"
        ) from None


def sign(keys: Keys, file: Path) -> None:
    """Writes FILE.sig, and verifies it as a user will."""
    signature = Path(f"{file}.sig")
    signature.unlink(missing_ok=True)
    signed = run("ssh-keygen", "-Y", "sign", "-q", "-n", NAMESPACE, "-f", keys.sums_key, file)
    if signed.returncode or not signature.exists():
        raise ReleaseError(
            f"CAIRN_SUMS_KEY={keys.sums_key} could not sign ({last_words(signed)}); name an OpenSSH"
            " key, or the public half of one that the agent has"
        )
    words = ["ssh-keygen", "-Y", "verify", "-q", "-f", str(keys.signers), "-I", SIGNER]
    words += ["-n", NAMESPACE, "-s", str(signature)]
    with file.open("rb") as stream:
        verified = subprocess.run(words, check=False, capture_output=True, stdin=stream)
    if verified.returncode:
        raise ReleaseError(
            f"users could not verify the sums: {keys.signers.name} does not have the key of"
            f" {keys.sums_key} as '{SIGNER}', or it is not valid today; add it to"
            " support/release-signers and commit that"
        )
