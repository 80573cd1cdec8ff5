# shellcheck shell=sh disable=SC2154 # sourced by post-image.sh, which sets the variables
# Firmware partition. The EEPROM's boot loader reads config.txt, or tryboot.txt for one
# boot after `reboot '0 tryboot'`: an update fills slot-b/ and adds a tryboot.txt that
# says os_prefix=slot-b/; what fails to come up falls back to config.txt by a reset.
mkdir -p "$binaries/boot/slot-a"
cp "$common/../rpi5/config.txt" "$binaries/boot/"
cp "$binaries/Image" "$binaries/boot/slot-a/kernel_2712.img"
slot a >"$binaries/boot/slot-a/cmdline.txt"
# Mainline's names on the left, the names the firmware asks for on the right.
cp "$binaries/bcm2712-rpi-5-b.dtb" "$binaries/boot/slot-a/"
cp "$binaries/bcm2712-d-rpi-5-b.dtb" "$binaries/boot/slot-a/bcm2712d0-rpi-5-b.dtb"
