# shellcheck shell=sh
# Boards are the folders board/*/ that have a file meta. Sourced, not run: by support/common.sh
# and board/common/post-image.sh, which set ROOT (repository) and die(). The Makefile and
# lab/boards.py ask these functions, too.

# boards: their names in alphabetical order, separated by a space.
boards() (
	set --
	for file in "$ROOT"/board/*/meta; do
		[ ! -f "$file" ] || { file=${file%/meta} && set -- "$@" "${file##*/}"; }
	done
	echo "$*"
)

# is_board NAME: whether there is a board of that name
is_board() {
	case ${1:-} in
	'' | *[!a-z0-9_-]*) return 1 ;;
	esac
	[ -f "$ROOT/board/$1/meta" ]
}

# board_values NAME: each key of board/NAME/meta and its value, one line a key, with a tab between
# them; white space in a value is one space. Stops with one sentence that names file and key if one
# of board/keys.tsv is missing, or one is unknown, there twice, or has a value that its pattern
# does not allow.
board_values() {
	is_board "${1:-}" || die "there is no board '${1:-}'; BOARD is one of: $(boards)"
	said=$(LC_ALL=C awk -v file="board/$1/meta" '
		function stop(sentence) { print file " " sentence; stopped = 1; exit 1 }
		function check(  name) {
			name = text
			sub(/=.*/, "", name)
			sub(/^[A-Z_]+="/, "", text)
			sub(/"$/, "", text)
			if (!(name in pattern))
				stop("has the key " name ", which board/keys.tsv does not know; correct or remove it")
			if (name in seen) stop("has the key " name " twice; remove one of them")
			gsub(/[ \t]+/, " ", text)
			sub(/^ /, "", text)
			sub(/ $/, "", text)
			if (text !~ "^(" pattern[name] ")$")
				stop("has \"" text "\" for " name "; board/keys.tsv says what is allowed")
			seen[name] = text
			found[++count] = name
		}
		FNR == 1 { files++ }
		files == 1 && /^#/ { next }
		files == 1 {
			split($0, column, "\t")
			pattern[column[1]] = column[2]; order[++keys] = column[1]
			next
		}
		open { text = text " " $0 }
		!open && (/^#/ || /^$/) { next }
		!open && !/^[A-Z_]+="/ { stop("has a line " FNR " that is not NAME=\"value\"; correct it") }
		!open { text = $0 }
		{
			open = text !~ /^[A-Z_]+="[^"]*"/
			if (text ~ /[$`\\]/ || (!open && text !~ /^[A-Z_]+="[^"]*"$/))
				stop("has a line " FNR " that is not NAME=\"value\"; correct it")
			if (!open) check()
		}
		END {
			if (stopped) exit 1
			if (open) stop("has a last value without a quote at its end; add it")
			for (n = 1; n <= keys; n++)
				if (!(order[n] in seen))
					stop("has no key " order[n] "; board/keys.tsv says what it is for")
			for (n = 1; n <= count; n++) print found[n] "\t" seen[found[n]]
		}' "$ROOT/board/keys.tsv" "$ROOT/board/$1/meta") ||
		die "${said:-board/$1/meta or board/keys.tsv cannot be read; see the message above}"
	printf '%s\n' "$said"
}

# board_meta NAME: sets BOARD to NAME, and each key of board/keys.tsv to its value in
# board/NAME/meta. The file is sourced once board_values has found no fault with it: its values
# then have no character with which the shell would do more than assign them.
board_meta() {
	board_values "${1:-}" >/dev/null
	BOARD=$1
	# shellcheck source=board/x86_64/meta
	. "$ROOT/board/$BOARD/meta"
}

# board_cmdline: the kernel's command line but for what names a slot, of the board of board_meta.
board_cmdline() {
	# shellcheck disable=SC2153 # of the meta
	echo "$(cat "$ROOT/board/common/cmdline")${CMDLINE:+ $CMDLINE} $CONSOLE"
}

# boards_with LINE: the boards whose meta has this very line, each after a space.
boards_with() {
	found=""
	for name in $(boards); do
		! grep -qxF "$1" "$ROOT/board/$name/meta" || found="$found $name"
	done
	echo "$found"
}

# host_board: the board of the host lane, the one whose meta has HOST_LANE="yes".
host_board() {
	found=$(boards_with 'HOST_LANE="yes"')
	case ${found# } in
	'' | *' '*)
		die "one board has the host lane," \
			"and HOST_LANE is \"yes\" in board/*/meta of:${found:- none}"
		;;
	*) echo "${found# }" ;;
	esac
}

# board_of IMAGE: the board of a disk image. One with a kernel beside it is the host lane's;
# cairn-NAME.img is of board NAME; any other, such as a copy, is of the one board whose
# ROOT_TYPE its root partitions have.
board_of() {
	if [ -f "$1.vmlinuz" ]; then
		host_board
		return
	fi
	name=${1##*/cairn-}
	if [ "cairn-$name" = "${1##*/}" ] && is_board "${name%.img}"; then
		echo "${name%.img}"
		return
	fi
	# One line a partition, whichever sfdisk
	type=$(sfdisk --json "$1" | tr -d '\n' | tr '}' '\n' |
		sed -n 's/.*"type": *"\([^"]*\)".*"name": *"root-a".*/\1/p' |
		LC_ALL=C tr '[:upper:]' '[:lower:]')
	found=$(boards_with "ROOT_TYPE=\"$type\"")
	case ${found# } in
	'') die "the root partitions of $1 have the type '$type', which is ROOT_TYPE in no board/*/meta" ;;
	*' '*) die "$1 may be an image of several boards; say which with --board:$found" ;;
	*) echo "${found# }" ;;
	esac
}
