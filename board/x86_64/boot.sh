# shellcheck shell=sh disable=SC2154 # sourced by post-image.sh, which sets the variables
# ESP: systemd-boot, and an entry with boot counting (Automatic Boot Assessment). The
# name's "+3" is the number of tries; cairn-trial takes it away after the first good boot.
# "version" is a counter, which chooses among entries: docs/design/update.md.
cat >"$binaries/boot/loader/loader.conf" <<EOF
timeout 0
editor no
EOF
cat >"$binaries/boot/loader/entries/cairn-a+3.conf" <<EOF
title Cairn $version
version 1
sort-key cairn
linux /slot-a/linux
initrd /slot-a/microcode.img
options $(slot a)
EOF
# Microcode, as the kernel looks for it in front of any initial RAM disk: an archive that is not
# compressed, with one file for each maker. The root file system is mounted without one.
microcode=$work/microcode/kernel/x86/microcode
mkdir -p "$microcode"
cat "$binaries"/intel-ucode/* >"$microcode/GenuineIntel.bin"
cat "$binaries"/amd-ucode/microcode_amd*.bin >"$microcode/AuthenticAMD.bin"
find "$work/microcode" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
(cd "$work/microcode" && find kernel | LC_ALL=C sort |
	cpio --quiet --reproducible --owner=0:0 -H newc -o) >"$binaries/boot/slot-a/microcode.img"
# Both licences ask to go with the files.
mkdir -p "$binaries/boot/licenses"
cat "$BUILD_DIR"/intel-microcode-*/license >"$binaries/boot/licenses/intel-microcode.txt"
cat "$BUILD_DIR"/linux-firmware-*/LICENSE.amd-ucode >"$binaries/boot/licenses/amd-microcode.txt"
