# shellcheck shell=sh disable=SC2154 # sourced by post-image.sh, which sets the variables
# ESP: systemd-boot, and an entry with boot counting (Automatic Boot Assessment). The
# name's "+3" is the number of tries; systemd-bless-boot takes it away after the first
# good boot. An update adds slot b as a second entry with tries of its own.
cat >"$binaries/boot/loader/loader.conf" <<EOF
timeout 0
editor no
EOF
cat >"$binaries/boot/loader/entries/cairn-a+3.conf" <<EOF
title Cairn
version $(cat "$ROOT/VERSION")
sort-key cairn
linux /slot-a/linux
options $(slot a)
EOF
