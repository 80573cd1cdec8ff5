# shellcheck shell=sh disable=SC2154 # sourced by post-image.sh, which sets the variables
# Firmware partition. The EEPROM's boot loader reads config.txt, or tryboot.txt for one
# boot after `reboot '0 tryboot'`: an update fills slot-b/ and adds a tryboot.txt that
# says os_prefix=slot-b/; what fails to come up falls back to config.txt by a reset.
cp "$folder/config.txt" "$binaries/boot/"
slot a >"$binaries/boot/slot-a/cmdline.txt"
