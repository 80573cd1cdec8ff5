# shellcheck shell=sh
# Shared by the scripts of support/: sourced, not run. Sets ROOT (repository),
# OUT (build output) and CACHE (downloads, ccache, root file system tar). What tells the boards
# apart is read by board.sh.
#
# Environment: CAIRN_CACHE  cache directory, default $HOME/.cache/cairn
ROOT=$(cd "$(dirname "$0")/.." && pwd)
OUT=$ROOT/out
CACHE=${CAIRN_CACHE:-${HOME:?HOME is not set: set it, or set CAIRN_CACHE}/.cache/cairn}
# Debian leaves the folders of mkfs, sfdisk, blockdev out of a normal user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export ROOT OUT CACHE PATH
# shellcheck source=support/board.sh
. "$ROOT/support/board.sh"

# die SENTENCE: prints one sentence that says what to do, and stops.
die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# say SENTENCE: progress, on stderr so that stdout stays usable.
say() { printf -- '--> %s\n' "$*" >&2; }

# need COMMAND...: stops with the command's name when one is missing.
need() {
	for tool; do
		command -v "$tool" >/dev/null 2>&1 ||
			die "the command '$tool' is missing; run 'make bootstrap'" \
				"(it installs support/host-packages.txt)"
	done
}

# as_root COMMAND...: runs it as root, through sudo when we are not.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		command -v sudo >/dev/null 2>&1 ||
			die "root is needed to run '$1'; run make as root or install sudo"
		sudo "$@"
	fi
}

# need_root PURPOSE: stops unless as_root will work. Its own message is lost where the output
# of a command goes to a log.
need_root() {
	[ "$(id -u)" != 0 ] || return 0
	command -v sudo >/dev/null 2>&1 ||
		die "root is needed $1, and there is no sudo; run make as root or install sudo"
	sudo true 2>/dev/null ||
		die "root is needed $1, and sudo refused ('sudo true' shows why); run make as root"
}

# writable DIR: makes it when missing, and stops when nothing can be written there.
writable() {
	if ! mkdir -p "$1" 2>/dev/null || [ ! -w "$1" ]; then
		die "$(id -un) cannot write to $1: the file system is read-only or it is another user's;" \
			"give it to this user, or use a clone of your own (and CAIRN_CACHE=)"
	fi
}

# need_space DIR MIB: stops when the file system of DIR has less than MIB free.
need_space() {
	writable "$1"
	free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$2" ] ||
		die "only $free MiB are free in $1 and $2 MiB are needed;" \
			"free some space or set CAIRN_CACHE and clone to a larger disk"
}

# digest FILE...: one sha256 over names and contents, for rebuild stamps.
digest() { sha256sum "$@" | sha256sum | cut -d' ' -f1; }

# digest_tree DIR...: one sha256 over the paths, modes, link targets and contents below.
digest_tree() {
	# The path of this clone does not count, whatever letters are in it.
	above=$(printf '%s/' "$ROOT" | sed 's/[][\\.*^$,]/\\&/g')
	{
		find "$@" -name __pycache__ -prune -o -printf '%m %y %P %l\n' | LC_ALL=C sort
		find "$@" -name __pycache__ -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum
	} | sed "s,$above,," | sha256sum | cut -d' ' -f1
}

# core_env: environment of the host lane's compilations of Bitcoin Core.
core_env() {
	# Relative paths in the cache's keys, so that another clone finds the same objects.
	CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 CCACHE_DIR=$CACHE/ccache CCACHE_MAXSIZE=2G
	export CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_DIR CCACHE_MAXSIZE
	# The source lies in this repository, whose commit is not Core's.
	export BITCOIN_GENBUILD_NO_GIT=1
}

# What our programs link of Core, in this order: names of targets.
CORE_LIBRARIES='bitcoin_common bitcoin_consensus bitcoin_util bitcoin_clientversion'
CORE_LIBRARIES="$CORE_LIBRARIES bitcoin_crypto secp256k1 univalue"

# core_libraries TREE: their paths in a build tree, one a line: to be split at lines only.
core_libraries() (
	IFS=' '
	for library in $CORE_LIBRARIES; do find "$1" -name "lib$library.a"; done
)

# build_name BOARD [FRAGMENT...]: the folder below out/ of that combination.
build_name() { echo "$*" | tr ' ' -; }

# buildroot_paths: stops where Buildroot cannot work: make's lists are split at spaces.
buildroot_paths() {
	for dir in "$ROOT" "$CACHE"; do
		case $dir in
		*[[:space:]]*)
			die "Buildroot cannot build in a folder with a space in its path ($dir);" \
				"clone Cairn into another folder, or set CAIRN_CACHE to one"
			;;
		esac
	done
}

# buildroot_env: exports what Buildroot and its tools have to know in all calls.
buildroot_env() {
	BR2_DL_DIR=$CACHE/dl
	# Buildroot asks git for its version: not that of the repository around it.
	GIT_CEILING_DIRECTORIES=$OUT
	# Buildroot refuses a PATH with a space, as WSL's has it: "/mnt/c/Program Files".
	PATH=$(printf '%s\n' "$PATH" | tr ':' '\n' | grep -v '[[:space:]]' | paste -sd: -)
	export BR2_DL_DIR GIT_CEILING_DIRECTORIES PATH
}

# fresh_disk IMAGE DISK: DISK is a sparse copy of IMAGE, kept until IMAGE is newer.
fresh_disk() {
	[ -z "$(find "$2" -newer "$1" 2>/dev/null)" ] || return 0
	need_space "${2%/*}" 1000
	cp --sparse=always "$1" "$2.new"
	mv "$2.new" "$2"
	# UEFI variables of the disk that was there before
	rm -f "$2.vars"
}

# boot_partition DISK: the first partition of an image, in mtools' notation for -i.
boot_partition() {
	sfdisk --json "$1" | sed -n "s/.*\"start\": *\\([0-9]*\\),.*/\\1/p" |
		awk -v disk="$1" 'NR == 1 { printf "%s@@%d\n", disk, $1 * 512 }'
}

# fetch_sdist DIR NAME VERSION FILE SHA256: FILE, the source archive of a PyPI package,
# into DIR, unless it is there already; other bytes than the pinned ones are refused.
fetch_sdist() {
	if [ ! -f "$1/$4" ]; then
		need python3
		[ -x "$ROOT/.venv/bin/pip" ] ||
			die "the virtual environment is missing; run 'make bootstrap' first"
		say "downloading $2 $3"
		# The hash is given to pip, too: it refuses other bytes before it looks into them.
		printf '%s==%s --hash=sha256:%s\n' "$2" "$3" "$5" >"$1/pin-$2.txt"
		"$ROOT/.venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary "$2" \
			--require-hashes -r "$1/pin-$2.txt" -d "$1" >"$1/pip-$2.log" 2>&1 ||
			die "the source could not be downloaded;" \
				"check the network ($(grep -iE 'error|hash' "$1/pip-$2.log" | tail -n 1))"
		rm "$1/pin-$2.txt" "$1/pip-$2.log"
	fi
	check_sdist "$1/$4" "$5"
}

# check_sdist FILE SHA256: stops when FILE is missing or has another sha256.
check_sdist() {
	[ -f "$1" ] || die "the sdist $1 is missing"
	got=$(sha256sum <"$1" | cut -d' ' -f1)
	[ "$got" = "$2" ] ||
		die "wrong hash of ${1##*/}: sha256 is $got, expected $2; remove the file and try again"
}

# apply_patches DIR PATCHES...: applies each PATCHES, a patch or a folder's *.patch in order,
# to the source in DIR. The log is DIR.patch.log.
apply_patches() {
	source_dir=$1
	shift
	for folder; do
		if [ -d "$folder" ]; then set -- "$folder"/*.patch; else set -- "$folder"; fi
		for file; do
			[ -e "$file" ] || continue
			say "applying ${file##*/}"
			patch -d "$source_dir" -p1 --forward --fuzz=0 <"$file" >"$source_dir.patch.log" 2>&1 ||
				die "the patch ${file##*/} does not apply to ${source_dir#"$ROOT"/};" \
					"refresh or drop it (see ${source_dir#"$ROOT"/}.patch.log)"
		done
	done
}

# leveldb_program NAME: compiles bench/NAME.cpp against the daemon's LevelDB, which is built when
# it is not; prints the program's path. Errors: no compiler, or it does not compile.
leveldb_program() {
	need c++
	"$ROOT/support/core-build" >&2
	c++ -std=c++20 -O2 -flto=auto -pthread "-I$OUT/core/source/src/leveldb/include" \
		-o "$OUT/core/$1" "$ROOT/bench/$1.cpp" \
		"$OUT/core/build/src/libleveldb.a" "$OUT/core/build/src/libcrc32c.a" >&2 ||
		die "bench/$1.cpp did not compile; see the lines above"
	echo "$OUT/core/$1"
}
