"""The programs that scripts call: they are read from the scripts, and the images have them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lab import command_words
from lab.paths import ROOT

#: Programs that are not busybox's: who brings them. A BR2_ name is an option of common.config.
OTHERS = {
    "bitcoin-dbconvert": "package",
    "busctl": "systemd",
    "e2label": "BR2_PACKAGE_E2FSPROGS",
    "f2fslabel": "BR2_PACKAGE_F2FS_TOOLS",
    "fio": "BR2_PACKAGE_FIO",
    "journalctl": "systemd",
    "node-cli": "overlay",
    "node-config": "overlay",
    "openssl": "BR2_PACKAGE_LIBOPENSSL_BIN",
    "qrencode": "BR2_PACKAGE_LIBQRENCODE_TOOLS",
    "rauc": "BR2_PACKAGE_RAUC",
    "ssh-keygen": "BR2_PACKAGE_OPENSSH",
    "ssh-keyscan": "BR2_PACKAGE_OPENSSH",
    "systemctl": "systemd",
    "systemd-notify": "systemd",
    "systemd-repart": "BR2_PACKAGE_SYSTEMD_REPART",
    "tor": "BR2_PACKAGE_TOR",
    "udevadm": "systemd",
    "wipefs": "BR2_PACKAGE_UTIL_LINUX_WIPEFS",
}

SCRIPT = r"""#!/bin/sh
# comment with words (and more
own() { printf '%s' "$(one <"$x" | two 2>&1)"; }
PLACE=here three "$(cat <<END
four $(five)
END
cat <<'END'
hidden $(hidden)
END
)" && ! six || seven; own
case $(eight) in
-*) nine ;;
'a b' | "c") [ -z "$x" ] || ten ;; *) x=$((1 + $(eleven)))
esac
if twelve; then { thirteen; }; else (fourteen &); fi
for word in a b; do fifteen $word; done 3>file
exec ${PROGRAM:-sixteen -x} --option
timeout -k 5 20 seventeen; command -v eighteen; timeout 30 "$program" word
timeout -k 1 "$left" "${PROGRAM:-twentyone}" word; nice -n 5 twentytwo; timeout 5 "$program"
while read -r line; do nineteen \
	twenty; done <<-END
	hidden
	END
"$here/helper" x; $variable y
awk '{ system("hidden") }' file; [ x ] && eval "$x"
"""


def test_words_of_a_script() -> None:
    """All commands, and nothing of what is quoted, a pattern, an argument or the shell's own."""
    words = "one two three five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    words += " sixteen seventeen eighteen nineteen twentyone twentytwo awk cat nice timeout"
    assert command_words.commands(SCRIPT) == set(words.split())


def busybox() -> set[str]:
    """The applets of the images: Buildroot's configuration with our fragment."""
    for place in (os.environ.get("BUILDROOT", ""), str(ROOT / "out/buildroot")):
        file = Path(place) / "package/busybox/busybox.config"
        if place and file.exists():
            break
    else:
        pytest.skip("no Buildroot tree here; give one with BUILDROOT=DIR")
    options: dict[str, str] = {}
    for path in (file, ROOT / "board/common/busybox.fragment"):
        options |= re.findall(r"(?m)^(?:# )?CONFIG_(\w+)(=y| is not set)$", path.read_text())
    return {name for name, value in options.items() if value == "=y"}


def test_images_have_the_programs() -> None:
    """Each is an applet of busybox that is switched on, or of a package that is in common.config.

    The suite `image` asks the booted image for the same programs.
    """
    applets = busybox()
    config = (ROOT / "buildroot-external/configs/common.config").read_text()
    missing = []
    for word, files in sorted(command_words.of_overlay(ROOT / "overlay").items()):
        if word.upper().replace("-", "_") in applets:
            continue
        brings = OTHERS.get(word, "")
        if brings.startswith("BR2_PACKAGE_"):
            brings = brings if f"\n{brings}=y\n" in config else ""
        if not brings:
            missing.append(f"{word} ({', '.join(sorted(files))})")
    assert not missing
