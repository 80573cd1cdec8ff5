#!/bin/sh
# Makes the file system of the boot partition: FAT, the same bytes from the same files.
#
# usage: boot-partition.sh FOLDER IMAGE
#   FOLDER  its content; its times are those of the files and directories on the partition
#   IMAGE   written anew
# The files are copied one by one in the order of their names. Programs that copy a whole folder, as
# genimage has mcopy do, take the order in which the build machine's file system names its files:
# ext4 orders them by a number that is drawn for each file system.
# Programs: mkfs.vfat, mmd, mcopy. Errors: theirs, exit 1.
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
(cd "$folder" && find . -mindepth 1 | sort) | while read -r path; do
	name=${path#./}
	if [ -d "$folder/$name" ]; then
		# mtools takes the time of a new directory from here.
		SOURCE_DATE_EPOCH=$(stat -c %Y "$folder/$name") mmd -i "$image" "::$name"
	else
		mcopy -m -i "$image" "$folder/$name" "::$name"
	fi
done
