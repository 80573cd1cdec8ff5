#!/bin/sh
# Called by Buildroot when all packages and overlay/ are in TARGET_DIR: takes out what a
# read-only node has no use for.
#
# usage: post-build.sh TARGET_DIR BOARD
set -eu
target=${1:?usage: post-build.sh TARGET_DIR BOARD}

# Host keys are made on the data partition; the daemon's own settings are in
# /usr/share/cairn/sshd_config, its account's home does not exist on a read-only root.
rm -rf "$target"/etc/ssh "$target"/etc/init.d "$target"/etc/network "$target"/etc/profile.d
# What a node never runs: other init systems' leftovers, manuals, build files.
rm -rf "$target"/usr/lib/pkgconfig "$target"/usr/share/bash-completion "$target"/usr/share/zsh
mkdir -p "$target/boot"
