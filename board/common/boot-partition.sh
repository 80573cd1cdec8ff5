#!/bin/sh
# Makes the file system of the boot partition: FAT, the same bytes from the same files.
#
# usage: boot-partition.sh FOLDER IMAGE
#   FOLDER  its content; its times are those of the files and directories on the partition
#   IMAGE   written anew
# The files are copied one by one in the order of their names. Programs that copy a whole folder, as
# genimage has mcopy do, take the order in which the build machine's file system names its files:
# ext4 orders them by a number that is drawn for each file system.
#
# The folders of both slots are made here, and all folders have room for more names than an update
# needs. Making or extending a folder takes two sectors of FAT, and a power cut in between leaves
# one that Linux cannot even look up (docs/design/update.md). Later on only files come and go.
# Programs: mkfs.vfat, mdir, mmd, mcopy, mdel. Errors: theirs, exit 1.
set -eu
folder=${1:?usage: boot-partition.sh FOLDER IMAGE}
image=${2:?usage: boot-partition.sh FOLDER IMAGE}
LC_ALL=C TZ=UTC MTOOLS_SKIP_CHECK=1
export LC_ALL TZ MTOOLS_SKIP_CHECK
rm -f "$image"
# 256 MiB: a kernel, its device trees and a next kernel beside it, with room for kernels ten times
# as large.
truncate -s 256M "$image"
# Fixed serial number and label time
mkfs.vfat -F 32 --invariant -i ca190001 -n CAIRN_BOOT "$image" >/dev/null
names=$(mktemp -d)
trap 'rm -rf "$names"' EXIT
# A Raspberry Pi's slot has some 30 entries of 32 bytes, long names included.
(cd "$names" && seq 100 299 | xargs touch -d @0)
# room FOLDER: entries of 200 names that were deleted. A folder never gets smaller.
room() {
	SOURCE_DATE_EPOCH=0 mcopy -m -i "$image" "$names"/* "::$1/"
	mdel -i "$image" "::$1/[1-2]??"
}
# make NAME TIME: one that is there stays, as FOLDER may have folders of slot b itself
make() {
	! mdir -b -i "$image" "::$1" >/dev/null 2>&1 || return 0
	# mtools takes the time of a new directory from here.
	SOURCE_DATE_EPOCH=$2 mmd -i "$image" "::$1"
	room "$1"
}
room ""
(cd "$folder" && find . -mindepth 1 | sort) | while read -r path; do
	name=${path#./}
	if [ -d "$folder/$name" ]; then
		time=$(stat -c %Y "$folder/$name")
		make "$name" "$time"
		case $name in
		slot-a | slot-a/*) make "slot-b${name#slot-a}" "$time" ;;
		esac
	else
		mcopy -m -i "$image" "$folder/$name" "::$name"
	fi
done
