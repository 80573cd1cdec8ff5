#!/bin/sh
# Called by Buildroot when kernel and root file system are in BINARIES_DIR: fills the boot
# partition as the board's firmware wants it and writes the disk image.
#
# usage: post-image.sh BINARIES_DIR BOARD
# Environment: HOST_DIR, BUILD_DIR, SOURCE_DATE_EPOCH, set by Buildroot
# Result: BINARIES_DIR/cairn-BOARD.img; boot/ beside it is the boot partition's content.
set -eu
binaries=${1:?usage: post-image.sh BINARIES_DIR BOARD}
board=${2:?usage: post-image.sh BINARIES_DIR BOARD}
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
common=$ROOT/board/common
die() {
	printf 'post-image.sh: %s\n' "$*" >&2
	exit 1
}
# shellcheck source=support/board.sh
. "$ROOT/support/board.sh"
board_meta "$board"
folder=$ROOT/board/$board
version=$("$ROOT/support/version")

work=$binaries/work
rm -rf "$work" "${binaries:?}/boot"
mkdir -p "$work" "$binaries/boot"
cp "$common/node.conf" "$binaries/boot/"
# slot SLOT: kernel command line that mounts this root slot, as an update writes it
# shellcheck source=overlay/usr/lib/cairn/slot-files.sh
. "$ROOT/overlay/usr/lib/cairn/slot-files.sh"
slot() { slot_cmdline "$1" "$version" "$(board_cmdline)"; }
# What a slot is: read by the updates (overlay/usr/lib/cairn/update.sh).
release() {
	echo "version=$version"
	echo "board=$board"
	cat "$ROOT/overlay/usr/share/cairn/data-format"
	echo "root-size=$(wc -c <"$binaries/rootfs.erofs")"
	echo "root-sha256=$(sha256sum <"$binaries/rootfs.erofs" | cut -c1-64)"
}
for file in $BOOT_FILES; do
	target=$binaries/boot/${file##*:}
	mkdir -p "${target%/*}"
	case $file in
	*:*)
		[ -f "$binaries/${file%%:*}" ] ||
			die "Buildroot made no ${file%%:*}, which BOOT_FILES in board/$board/meta names; correct" \
				"it, or the defconfig"
		cp "$binaries/${file%%:*}" "$target"
		;;
	esac
done
# for the slot that an update is written to
board_cmdline >"$binaries/boot/slot-a/cmdline"
release >"$binaries/boot/slot-a/release"
# A board whose files are all copied needs none.
# shellcheck source=board/x86_64/boot.sh
[ ! -f "$folder/boot.sh" ] || . "$folder/boot.sh"
for file in $BOOT_FILES; do
	[ -f "$binaries/boot/${file##*:}" ] ||
		die "board/$board/boot.sh wrote no ${file##*:}, which BOOT_FILES in board/$board/meta names"
done

ln -f "$binaries/rootfs.erofs" "$work/root.erofs"
# Times on the FAT file system, too, are those of the source.
find "$binaries/boot" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
"$common/boot-partition.sh" "$binaries/boot" "$work/boot.vfat"
mkdir "$work/root"
CAIRN_IMAGE=cairn-$board.img CAIRN_ROOT_TYPE=$ROOT_TYPE genimage --config "$common/genimage.cfg" \
	--rootpath "$work/root" --inputpath "$work" --outputpath "$binaries" --tmppath "$work/tmp"
rm -rf "$work"
