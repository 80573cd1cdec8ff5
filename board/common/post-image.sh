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
common=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=board/x86_64/meta
. "$common/../$board/meta"

work=$binaries/work
rm -rf "$work" "${binaries:?}/boot"
mkdir -p "$work" "$binaries/boot"
cp "$common/node.conf" "$binaries/boot/"
# slot SLOT: kernel command line that mounts this root slot
slot() { echo "root=PARTLABEL=root-$1 $(cat "$common/cmdline") $CONSOLE"; }
# shellcheck source=board/x86_64/boot.sh
. "$common/../$board/boot.sh"

ln -f "$binaries/rootfs.erofs" "$work/root.erofs"
# Times on the FAT file system, too, are those of the source.
find "$binaries/boot" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir "$work/root"
mv "$binaries/boot" "$work/root/boot"
CAIRN_IMAGE=cairn-$board.img CAIRN_ROOT_TYPE=$ROOT_TYPE genimage --config "$common/genimage.cfg" \
	--rootpath "$work/root" --inputpath "$work" --outputpath "$binaries" --tmppath "$work/tmp"
mv "$work/root/boot" "$binaries/boot"
rm -rf "$work"
