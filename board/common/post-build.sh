#!/bin/sh
# Called by Buildroot when all packages and overlay/ are in TARGET_DIR: takes out what a
# read-only node has no use for.
#
# usage: post-build.sh TARGET_DIR BOARD
set -eu
target=${1:?usage: post-build.sh TARGET_DIR BOARD}

# Host keys are made on the data partition; sshd's settings are the overlay's.
rm -rf "$target/etc/ssh"
# sshd on sockets that nobody asked for: cairn-sshd.service is the only way in.
rm -f "$target/usr/lib/systemd/system/sshd.service" \
	"$target/usr/lib/systemd/system-generators/systemd-ssh-generator" \
	"$target/usr/lib/tmpfiles.d/20-systemd-ssh-generator.conf"
# For a debugger on the build machine, and it names that machine's directories
rm -f "$target"/usr/lib/libstdc++.so.*-gdb.py
# Other init systems, other desktops, boot stubs that only a build machine uses
rm -rf "$target/etc/init.d" "$target/etc/profile.d" "$target/etc/X11" "$target/etc/xdg" \
	"$target/usr/lib/systemd/boot" "$target/usr/share/bash-completion" "$target/usr/share/zsh" \
	"$target/usr/lib/tmpfiles.d/x11.conf"
# Programs that come with libraries the node needs; nothing on it runs them.
for name in dbus-cleanup-sockets dbus-launch dbus-run-session dbus-test-tool \
	dbus-update-activation-environment jemalloc-config jemalloc.sh jeprof sqlite3; do
	rm -f "$target/usr/bin/$name"
done
# A node counts in UTC; these hold each zone twice more.
rm -rf "$target/usr/share/zoneinfo/posix" "$target/usr/share/zoneinfo/right"
# What these would make or change is below /, which is read-only
for name in 20-systemd-osc-context 20-systemd-shell-extra etc home provision root; do
	rm -f "$target/usr/lib/tmpfiles.d/$name.conf"
done
mkdir -p "$target/boot"
# Buildroot writes its own name and the state of the surrounding git repository.
version=$(cat "$(dirname "$0")/../../VERSION")
cat >"$target/usr/lib/os-release" <<EOF
NAME=Cairn
ID=cairn
ID_LIKE=buildroot
VERSION=$version
VERSION_ID=$version
VARIANT_ID=${2:?usage: post-build.sh TARGET_DIR BOARD}
PRETTY_NAME="Cairn $version"
EOF
# No clock of a node is behind this (node-status). Buildroot sets the variable to the date of its
# own release, so that the same sources give the same image.
echo "${SOURCE_DATE_EPOCH:-$(date +%s)}" >"$target/usr/share/cairn/built"
ln -sf ../usr/lib/os-release "$target/etc/os-release"
