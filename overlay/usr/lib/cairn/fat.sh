# shellcheck shell=sh
# Writes to the boot partition, which is FAT and has no journal. Sourced; a FILE or FOLDER is a
# whole path. The rules and their reasons: docs/design/update.md.
#   fat_begin ROOT, fat_end ROOT  mounts /boot for writing, and for reading only; with a ROOT, which
#                                 is a test's, nothing is mounted
#   fat_tidy FILE                 removes what a power cut left beside FILE
#   fat_put FILE                  standard input becomes FILE, whole or not at all
#   fat_remove FILE...            removes files that may not be there
#   fat_empty FOLDER              removes all files in it and in its folders, which stay
#   fat_folder FOLDER             makes it if it is not there
#   fat_lost FOLDER               whether its name is there, and Linux finds nothing behind it
# They return 1 when something could not be written.

fat_begin() { [ -n "$1" ] || mount -o remount,rw /boot; }
fat_end() { [ -n "$1" ] || mount -o remount,ro /boot; }

# One that has the content of FILE stays: a torn rename may have left two names for the same
# clusters, and removing this one would free those of FILE.
fat_tidy() {
	for fat_left in "$1".new "$1".new[0-9]*; do
		[ -f "$fat_left" ] || continue
		[ -f "$1" ] && cmp -s "$fat_left" "$1" || rm -f "$fat_left" || return 1
	done
	sync "${1%/*}"
}

# What reads FILE sees the old content or the new one at any moment, also after a power cut. The old
# file is held open until the new name is on the disk: its clusters are freed after that.
fat_put() {
	fat_tidy "$1" || return 1
	fat_new=$1.new fat_count=0
	while [ -e "$fat_new" ]; do
		fat_count=$((fat_count + 1))
		fat_new=$1.new$fat_count
	done
	{ cat >"$fat_new" && sync "$fat_new"; } || return 1
	if [ -e "$1" ]; then
		exec 9<"$1"
	else
		exec 9</dev/null
	fi
	{ mv "$fat_new" "$1" && sync "$1" "${1%/*}"; } || {
		exec 9<&-
		return 1
	}
	exec 9<&-
}

fat_remove() {
	for fat_gone; do
		[ -e "$fat_gone" ] || continue
		rm "$fat_gone" && sync "${fat_gone%/*}" || return 1
	done
}

# File by file: what a name points to is freed when the name is gone from the disk. Names that a
# power cut leaves are then those of files that are whole, and no computer that the card is put into
# gives their clusters to others. The folders stay: see fat_folder.
fat_empty() {
	[ -e "$1" ] || return 0
	for fat_gone in "$1"/* "$1"/.[!.]*; do
		[ -e "$fat_gone" ] || continue
		if [ -d "$fat_gone" ]; then
			fat_empty "$fat_gone" || return 1
		else
			rm -f "$fat_gone" && sync "$1" || return 1
		fi
	done
}

# The images have the folders (board/common/boot-partition.sh), and no update makes one. A power cut
# between the two sectors that a new folder takes leaves a name that cannot be looked up.
fat_folder() { [ -d "$1" ] || { mkdir "$1" && sync "$1" "${1%/*}"; }; }

fat_lost() {
	[ ! -e "$1" ] || return 1
	for fat_name in "${1%/*}"/*; do
		[ "$fat_name" != "$1" ] || return 0
	done
	return 1
}
