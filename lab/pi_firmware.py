"""The Raspberry Pi 5's boot loader, as far as it chooses what boots from a boot partition.

It reads config.txt, or for one boot tryboot.txt, and says which kernel, device tree and command
line it would start. Nothing of it was tried on a board; each rule names where it is from. ``DOC``
is Raspberry Pi's documentation (repository raspberrypi/documentation,
documentation/asciidoc/computers).

- One-shot flag: "a one-shot flag which, if set, is cleared but causes tryboot.txt to be loaded
  instead of config.txt", and "since the flag is cleared before starting the firmware, a crash or
  reset will cause the original config.txt file to be loaded" (DOC
  raspberry-pi/bootflow-eeprom.adoc). It is set by a restart whose argument has the word tryboot
  (patches/linux/0009), and a board without power forgets it, as it is a bit of a register
  (raspberrypi/linux, raspberrypi-firmware.h).
- Lines: ``property=value``, comments begin with #, at most 98 characters count, and later lines
  override earlier ones (DOC config_txt/what_is_config_txt.adoc). ``include`` is not there in the
  boot loader of the EEPROM (the same).
- Filters: [all] ends all others, [none] lets nothing through, [tryboot] is true when the flag was
  set, [pi5] on a Raspberry Pi 5 (DOC config_txt/conditional.adoc). Filters of different kinds
  combine.
- os_prefix stands in front of the names of kernel, device tree, initramfs and cmdline.txt; "unless
  the expected kernel and .dtb can be found at the new location/name, the prefix is ignored"; an
  absolute name has no prefix (DOC config_txt/boot.adoc).
- Stepping D0 gets the tree of the first stepping, and then the overlay bcm2712d0 (logs of such
  boards with Raspberry Pi OS, whose card also has a bcm2712d0-rpi-5-b.dtb: siderolabs/talos#12748,
  NumberOneGit/rpi5-uefi#8; "firmware applying the bcm2712d0 overlay as needed",
  raspberrypi/firmware#2018). Without it the firmware goes on, and Linux ends with an SError (the
  first of these): here nothing starts. Overlays come from ``${os_prefix}overlays/`` if a README is
  there, else from ``overlays/`` (DOC config_txt/boot.adoc).
- Without a kernel nothing is started. The boot loader then goes on with the next disk, which for us
  is the end (DOC raspberry-pi/bootflow-eeprom.adoc: "Failure - continue").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

#: Characters of a line that count (DOC config_txt/what_is_config_txt.adoc)
LINE_MAX = 98
#: The device tree that it looks for
TREE = "bcm2712-rpi-5-b.dtb"
#: What it adds to the tree by itself, by stepping of the processor
OVERLAYS = {"C1": "", "D0": "bcm2712d0.dtbo"}
#: The kernel that is taken where config.txt names none (DOC config_txt/boot.adoc: kernel)
KERNELS = ("kernel_2712.img", "kernel8.img")


class NothingBootsError(Exception):
    """The boot loader found nothing to start; the text says what was missing."""


@dataclass
class Boot:
    """What the boot loader hands over to."""

    config: str
    """the file that was read: config.txt or tryboot.txt"""
    prefix: str
    """os_prefix, if it was not ignored"""
    kernel: bytes
    tree: bytes
    overlay: bytes
    """that of the stepping; nothing for the first"""
    command_line: str
    tryboot: bool
    """/chosen/bootloader/tryboot of the device tree"""
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The partition that the kernel mounts: PARTLABEL of root= without the word."""
        words = [word for word in self.command_line.split() if word.startswith("root=")]
        return words[-1].removeprefix("root=PARTLABEL=") if words else ""

    @property
    def slot(self) -> str:
        """The letter of the slot whose kernel it is, whatever its command line says."""
        return self.prefix.removeprefix("slot-").removesuffix("/")


class PiFirmware:
    """A board with its boot partition in a folder. Names on FAT have no case."""

    def __init__(self, folder: Path, stepping: str = "D0") -> None:
        """Power is off, and no trial was asked for. ``stepping``: C1 or D0."""
        self.folder = folder
        self.stepping = stepping
        self.tryboot = False

    def file(self, name: str) -> bytes | None:
        """A file of the boot partition, or None."""
        path = self.folder
        for part in name.split("/"):
            if not path.is_dir():
                return None
            found = [entry for entry in path.iterdir() if entry.name.lower() == part.lower()]
            if not found:
                return None
            path = found[0]
        return path.read_bytes() if path.is_file() else None

    def restart(self, argument: str = "") -> None:
        """A restart by Linux, with the argument of reboot(2)."""
        if "tryboot" in argument.split():
            self.tryboot = True

    def power_cut(self) -> None:
        """The plug is pulled: the flag, which a register holds, is gone."""
        self.tryboot = False

    def settings(self, text: str, trial: bool) -> dict[str, str]:
        """What the lines of a configuration file set on this board."""
        found: dict[str, str] = {}
        filters: dict[str, bool] = {}
        for line in text.replace("\r", "").split("\n"):
            line = line[:LINE_MAX].strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("[") and line.endswith("]"):
                name = line[1:-1].lower()
                if name == "all":
                    filters.clear()
                elif name == "tryboot":
                    filters["tryboot"] = trial
                elif name == "none":
                    filters["model"] = False
                else:
                    filters["model"] = name == "pi5"
                continue
            key, separator, value = line.partition("=")
            if separator and all(filters.values()):
                found[key] = value
        return found

    def boot(self) -> Boot:
        """Power on or reset: reads the partition. Raises NothingBootsError."""
        trial, self.tryboot = self.tryboot, False
        name = "tryboot.txt" if trial else "config.txt"
        text = self.file(name)
        if text is None and trial:
            # No source says what happens without the file: the harder case for us.
            raise NothingBootsError("tryboot.txt is not there")
        settings = self.settings((text or b"").decode("ascii", "replace"), trial)
        prefix = settings.get("os_prefix", "")
        kernels = [settings["kernel"]] if settings.get("kernel") else list(KERNELS)
        tree = settings.get("device_tree", TREE)
        if prefix and (self.first(prefix, kernels) is None or self.first(prefix, [tree]) is None):
            prefix = ""
        kernel, device_tree = self.first(prefix, kernels), self.first(prefix, [tree])
        if kernel is None:
            raise NothingBootsError(f"{name}: no kernel at {prefix}{kernels[0]}")
        if device_tree is None:
            raise NothingBootsError(f"{name}: no device tree at {prefix}{tree}")
        overlay = self.overlay(name, prefix, settings.get("overlay_prefix", "overlays/"))
        words = self.first(prefix, [settings.get("cmdline", "cmdline.txt")]) or b""
        line = words.decode("ascii", "replace").split("\n")[0].strip()
        return Boot(name, prefix, kernel, device_tree, overlay, line, trial, settings)

    def overlay(self, config: str, prefix: str, folder: str) -> bytes:
        """What is added to the tree for this stepping."""
        name = OVERLAYS[self.stepping]
        if not name:
            return b""
        if self.file(f"{prefix}{folder}README") is None:
            prefix = ""
        if (overlay := self.file(f"{prefix}{folder}{name}")) is None:
            raise NothingBootsError(f"{config}: no {prefix}{folder}{name}, and Linux panics")
        return overlay

    def first(self, prefix: str, names: list[str]) -> bytes | None:
        """The first file that is there; an absolute name has no prefix."""
        for name in names:
            path = name[1:] if name.startswith("/") else prefix + name
            if (content := self.file(path)) is not None:
                return content
        return None
