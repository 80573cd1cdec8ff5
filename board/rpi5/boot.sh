# shellcheck shell=sh disable=SC2154 # sourced by post-image.sh, which sets the variables
# Firmware partition. The EEPROM's boot loader reads config.txt, or tryboot.txt for one
# boot after `reboot '0 tryboot'`: docs/design/update.md.
cp "$folder/config.txt" "$binaries/boot/"
# What becomes config.txt or tryboot.txt when this slot is to boot (boot-tryboot.sh)
cp "$folder/config.txt" "$binaries/boot/slot-a/"
slot a >"$binaries/boot/slot-a/cmdline.txt"
# With this file the firmware takes overlays from the slot.
echo "Overlays for this slot's kernel, which the firmware adds by itself" \
	>"$binaries/boot/slot-a/overlays/README"
