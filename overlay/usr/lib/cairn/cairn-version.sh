# shellcheck shell=sh
# Sourced by what shows or compares the version of the running image.

# os_release ROOT KEY: a value of the image's os-release; nothing if it is not there
os_release() {
	head -c 4096 "$1/usr/lib/os-release" 2>/dev/null |
		sed -n "s/^$2=\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" | head -n 1
}

# cairn_version ROOT: such as 0.1.0
cairn_version() { os_release "$1" IMAGE_VERSION; }
