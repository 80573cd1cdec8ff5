# shellcheck shell=sh
# Sourced by what shows or compares the version of the running image.

# cairn_version ROOT: IMAGE_VERSION of os-release, such as 0.1.0; nothing if it is not there
cairn_version() {
	head -c 4096 "$1/usr/lib/os-release" 2>/dev/null |
		sed -n 's/^IMAGE_VERSION="\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' | head -n 1
}
