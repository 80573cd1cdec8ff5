#!/bin/sh
# Called by Buildroot when all packages and overlay/ are in TARGET_DIR: takes out what a
# read-only node has no use for.
#
# usage: post-build.sh TARGET_DIR BOARD
set -eu
target=${1:?usage: post-build.sh TARGET_DIR BOARD}

# A pattern that matches nothing stays as it is, and names no file then.
grep -v '^#' "$(dirname "$0")/unwanted" | while read -r pattern; do
	[ -n "$pattern" ] || continue
	# shellcheck disable=SC2086 # the shell is to expand it; no path in an image has a space
	(cd "$target" && rm -rf -- $pattern)
done
# Units that asked for one of these would log that it is missing.
find "$target/usr/lib/systemd/system" -path '*.wants/*' -type l | while read -r link; do
	[ -e "$link" ] || rm "$link"
done
mkdir -p "$target/boot"
# Buildroot writes its own name and the state of the surrounding git repository.
"$(dirname "$0")/../../support/os-release" "${2:?usage: post-build.sh TARGET_DIR BOARD}" \
	>"$target/usr/lib/os-release"
# No clock of a node is behind this (node-status). Buildroot sets the variable to the date of its
# own release, so that the same sources give the same image.
echo "${SOURCE_DATE_EPOCH:-$(date +%s)}" >"$target/usr/share/cairn/built"
ln -sf ../usr/lib/os-release "$target/etc/os-release"
