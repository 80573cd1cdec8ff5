#!/bin/sh
# Called by Buildroot when all packages and overlay/ are in TARGET_DIR: takes out what a
# read-only node has no use for, and writes what says which image it is and whose updates it takes.
#
# usage: post-build.sh TARGET_DIR BOARD
# Environment: CAIRN_KEYRING  certificates in PEM, one of which has to have signed a bundle; default
#                             this clone's development ones
set -eu
target=${1:?usage: post-build.sh TARGET_DIR BOARD} board=${2:?usage: post-build.sh TARGET_DIR BOARD}
die() {
	printf 'post-build.sh: %s\n' "$*" >&2
	exit 1
}
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=support/board.sh
. "$ROOT/support/board.sh"
board_meta "$board"

# A pattern that matches nothing stays as it is, and names no file then.
grep -v '^#' "$ROOT/board/common/unwanted" | while read -r pattern; do
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
"$ROOT/support/os-release" "$board" >"$target/usr/lib/os-release"
# No clock of a node is behind this (node-status). Buildroot sets the variable to the date of its
# own release, so that the same sources give the same image.
echo "${SOURCE_DATE_EPOCH:-$(date +%s)}" >"$target/usr/share/cairn/built"
ln -sf ../usr/lib/os-release "$target/etc/os-release"

# Updates (docs/design/update.md): which files say what boots, RAUC's settings, and the keyring
echo "$BOOT_BACKEND" >"$target/usr/share/cairn/boot-backend"
mkdir -p "$target/etc/rauc"
sed "s/@BOARD@/$board/" "$ROOT/board/common/rauc.conf" >"$target/etc/rauc/system.conf"
keyring=${CAIRN_KEYRING:-$ROOT/out/keys/dev-ca.pem}
if [ -f "$keyring" ]; then
	install -m 644 "$keyring" "$target/etc/rauc/keyring.pem"
elif [ -e "$target/usr/bin/rauc" ]; then
	die "there is no keyring $keyring, so the image could take no update; run support/dev-keys," \
		"or give the certificates' file with CAIRN_KEYRING"
fi
