#!/bin/sh
# Called by Buildroot as (fake) root on the copy of TARGET_DIR that becomes the root
# file system.
#
# usage: post-fakeroot.sh TARGET_DIR BOARD
# Environment: HOST_DIR, set by Buildroot
set -eu
target=${1:?usage: post-fakeroot.sh TARGET_DIR BOARD}

# The accounts of overlay/usr/lib/sysusers.d: /etc is read-only at run time.
"$HOST_DIR/bin/systemd-sysusers" --root="$target"
# No password opens these accounts; only SSH keys from node.conf do.
sed -i 's/^\(root\|wallet\):[^:]*:/\1:*:/' "$target/etc/shadow"
# systemd-sysusers leaves backups of what it changed.
rm -f "$target"/etc/passwd- "$target"/etc/group- "$target"/etc/shadow- "$target"/etc/gshadow-
# Buildroot's device table makes this one for ifupdown, writable for all.
rm -rf "$target/etc/network"
# /var is the data partition; what belongs there is made by tmpfiles.d at boot.
rm -rf "${target:?}/var"
mkdir -p "$target/var"
: >"$target/etc/machine-id"
# Buildroot makes busybox, mount and a helper of dbus setuid root. Nobody on a node needs another's
# rights: what root does for a lesser user is a unit of systemd's.
find "$target" -xdev -type f \( -perm -4000 -o -perm -2000 \) -exec chmod u-s,g-s {} +
