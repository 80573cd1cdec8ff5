# shellcheck shell=sh
# What support/core-edit, core-patches and core-table share: sourced after common.sh, not run.
#
# A queue is a folder of patches on one pinned source. Its tree, out/edit/NAME, is a git repository:
# the tag `stock` is the pinned source, the branch `queue` has one commit for each patch on top.
# The ref refs/cairn/written is the commit whose patches are those in the folder.

# AT: date of the commits that plain_git makes, empty for that of the patch or now
AT=

# queue NAME: sets QUEUE, the folder of patches; TREE, where they are edited; folder and tree, both
# as they are called in messages; PIN, the message of the commit `stock`, which names the source
# by its hash.
queue() {
	TREE=$OUT/edit/$1
	case $1 in
	core)
		QUEUE=$ROOT/patches/bitcoind-chainstate
		# shellcheck source=package/bitcoind-chainstate/source.env
		. "$ROOT/package/bitcoind-chainstate/source.env"
		pin_file=bitcoind-chainstate-$CORE_COMMIT.tar.gz
		pin_hash=$(awk -v f="$pin_file" '$1 == "sha256" && $3 == f { print $2 }' \
			"$ROOT/package/bitcoind-chainstate/bitcoind-chainstate.hash")
		;;
	lmdb)
		QUEUE=$ROOT/patches/liblmdb
		# shellcheck source=package/liblmdb/source.env
		. "$ROOT/package/liblmdb/source.env"
		pin_file=$LMDB_SDIST_FILE pin_hash=$LMDB_SDIST_SHA256
		;;
	*) die "there is no queue '$1'; name core or lmdb" ;;
	esac
	tree=${TREE#"$ROOT"/} folder=${QUEUE#"$ROOT"/}
	PIN="stock: $pin_file, sha256 $pin_hash"
}

# plain_git ARGUMENT...: git without the user's settings, whose commits by `git am` have the same
# id on every machine. It does not take Cairn's own repository for one that is missing in OUT/edit.
plain_git() {
	env -i PATH="$PATH" TMPDIR="${TMPDIR:-/tmp}" HOME=/nonexistent LC_ALL=C TZ=UTC0 \
		GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 \
		GIT_CEILING_DIRECTORIES="$OUT/edit" GIT_EDITOR=true \
		GIT_AUTHOR_NAME='Cairn developers' GIT_AUTHOR_EMAIL=developers@cairn.example \
		GIT_COMMITTER_NAME='Cairn developers' GIT_COMMITTER_EMAIL=developers@cairn.example \
		${AT:+GIT_AUTHOR_DATE="$AT" GIT_COMMITTER_DATE="$AT"} \
		git -c core.attributesFile=/dev/null -c core.autocrlf=false -c core.safecrlf=false \
		-c core.hooksPath=/dev/null -c commit.gpgSign=false -c gc.auto=0 -c advice.detachedHead=false \
		-c init.defaultBranch=queue -c i18n.commitEncoding=UTF-8 -c i18n.logOutputEncoding=UTF-8 \
		-c log.showSignature=false -c status.showUntrackedFiles=normal "$@"
}

# tree_git ARGUMENT...: plain_git in TREE.
tree_git() { plain_git -C "$TREE" "$@"; }

# patches_in DIR: the patches of a folder in order, one a line.
patches_in() { find "$1" -maxdepth 1 -name '*.patch' | LC_ALL=C sort; }

# queue_digest DIR: one sha256 over the names and contents of a folder's patches.
queue_digest() {
	(
		cd "$1" || exit
		patches_in . | while IFS= read -r patch; do sha256sum "$patch"; done
	) | sha256sum | cut -d' ' -f1
}

# unpack_stock DIR [PATHS]: the source that PIN names into DIR; with PATHS, a file, only what it
# lists. Downloads the archive when it is not in the cache.
unpack_stock() {
	mkdir -p "$1"
	case $QUEUE in
	*/liblmdb)
		archive=$("$ROOT/support/lmdb-source")
		tar -C "$1" --strip-components=2 -xzf "$archive" "$LMDB_SDIST_DIR/lib1"
		rm -rf "$1/py-lmdb"
		;;
	*)
		archive=$("$ROOT/support/core-source")
		if [ -n "${2-}" ]; then
			sed "s,^,bitcoind-chainstate-$CORE_COMMIT/," "$2" >"$2.archive"
			tar -C "$1" --strip-components=1 -xzf "$archive" -T "$2.archive" ||
				die "the source has not all files that the patches in $folder change; see tar's message"
		else
			tar -C "$1" --strip-components=1 -xzf "$archive"
		fi
		;;
	esac
}

# touched_paths DIR: the files of the source that a folder's patches change, one a line. What a
# patch adds is not in the source, whatever a later one does with it.
touched_paths() {
	patches_in "$1" | while IFS= read -r patch; do cat "$patch"; done | awk '
		function keep() { if (path != "" && !(path in seen)) { seen[path] = 1; if (!added) print path } }
		/^diff --git a\// {
			keep()
			path = substr($0, 14)
			path = substr(path, 1, (length(path) - 3) / 2)
			added = 0
		}
		/^new file mode/ { added = 1 }
		/^(rename|copy) from / { path = substr($0, index($0, " from ") + 6) }
		/^(rename|copy) to / { seen[substr($0, index($0, " to ") + 4)] = 1 }
		END { keep() }'
}

# under_way: the git command that has stopped in TREE and waits to be continued, if any.
under_way() {
	if [ -d "$TREE/.git/rebase-merge" ] || [ -e "$TREE/.git/rebase-apply/rebasing" ]; then
		echo rebase
	elif [ -d "$TREE/.git/rebase-apply" ]; then
		echo am
	elif [ -e "$TREE/.git/CHERRY_PICK_HEAD" ]; then
		echo cherry-pick
	elif [ -e "$TREE/.git/REVERT_HEAD" ]; then
		echo revert
	elif [ -e "$TREE/.git/MERGE_HEAD" ]; then
		echo merge
	fi
}

# settled: stops unless all that is in TREE is in a commit.
settled() {
	[ -d "$TREE/.git" ] || die "there is no git tree $tree; make one with 'make core-edit'"
	waiting=$(under_way)
	[ -z "$waiting" ] ||
		die "a git $waiting is under way in $tree; finish it, or end it with" \
			"'git $waiting --abort', and try again"
	changes=$(tree_git status --porcelain) ||
		die "git cannot say what has changed in $tree (see above): nothing is done; mend that first"
	[ -z "$changes" ] ||
		die "$tree has changes that are in no commit; commit them there, or take them back, and try again"
}

# remember COMMIT: from now on the patches in QUEUE are those of this commit, until one of the
# two changes.
remember() {
	tree_git update-ref refs/cairn/written "$1"
	tree_git config cairn.queue "$(queue_digest "$QUEUE")"
}

# make_stock DIR: makes the source in DIR a git repository whose one commit, tagged `stock`, has the
# same id on every machine.
make_stock() {
	plain_git init -q --template= "$1"
	mkdir -p "$1/.git/info"
	# The bytes as they are, whatever the attributes in the source say
	echo '* -text -ident -filter -working-tree-encoding' >"$1/.git/info/attributes"
	plain_git -C "$1" add -f -A .
	AT='@0 +0000'
	plain_git -C "$1" commit -q --no-verify -m "$PIN"
	AT=
	plain_git -C "$1" tag stock
}

# apply_queue DIR PATCHES: one commit on top of HEAD of the repository DIR for each patch in the
# folder PATCHES, each applied without fuzz. Fails when one does not apply; git am then waits.
apply_queue() {
	set -- "$1" "$(patches_in "$2")"
	[ -n "$2" ] || return 0
	IFS='
'
	set -f
	# shellcheck disable=SC2086 # one patch a line
	set -- "$1" $2
	set +f
	unset IFS
	repository=$1
	shift
	plain_git -C "$repository" am -q --keep-non-patch --keep-cr --no-scissors --no-3way --no-signoff \
		--no-message-id --whitespace=nowarn --committer-date-is-author-date "$@" \
		>"$repository/.git/am.log" 2>&1
}

# export_queue REPOSITORY COMMIT DIR: the commits stock..COMMIT as patches in the folder DIR, the
# same bytes whatever the user's or the repository's settings are, and whatever else is in it.
export_queue() {
	# A second repository with the objects of the first, and none of its settings
	bare=$3.git
	plain_git init -q --bare --template= "$bare"
	mkdir -p "$bare/objects/info" "$3"
	printf '%s\n' "$1/.git/objects" >"$bare/objects/info/alternates"
	range=$(plain_git -C "$1" rev-parse --verify -q "refs/tags/stock^{commit}")..$(
		plain_git -C "$1" rev-parse --verify -q "$2^{commit}"
	)
	plain_git --git-dir="$bare" format-patch -q -N --zero-commit --no-signature --full-index \
		--filename-max-length=64 --subject-prefix=PATCH --suffix=.patch --no-attach --no-thread \
		--no-cover-letter --no-base --no-notes --no-from --unified=3 --inter-hunk-context=0 \
		--diff-algorithm=myers --indent-heuristic --find-renames=50% --no-ext-diff --no-textconv \
		--src-prefix=a/ --dst-prefix=b/ -o "$3" "$range"
	rm -rf "$bare"
	# git lengthens the short ids of files until no other object in the repository begins like
	# them; ours have 7 digits, which only depend on the file. Binary files need the whole id.
	patches_in "$3" | while IFS= read -r patch; do
		awk '
			function flush() {
				if (held == "") return
				if ($0 !~ /^GIT binary patch/) {
					split(held, word, /\.\.| /)
					sub(/[0-9a-f]+\.\.[0-9a-f]+/, substr(word[2], 1, 7) ".." substr(word[3], 1, 7), held)
				}
				print held
				held = ""
			}
			{ flush() }
			/^diff --git / { head = 1 }
			/^@@ / { head = 0 }
			head && /^index [0-9a-f]+\.\.[0-9a-f]+/ { held = $0; next }
			{ print }
			END { $0 = ""; flush() }' "$patch" >"$patch.short"
		mv "$patch.short" "$patch"
	done
}

# differences DIR DIR: "new: NAME", "changed: NAME", "removed: NAME" for each patch in which the
# second folder differs from the first.
differences() {
	{
		patches_in "$1" && patches_in "$2"
	} | sed 's,.*/,,' | LC_ALL=C sort -u | while IFS= read -r patch; do
		if [ ! -e "$1/$patch" ]; then
			echo "new: $patch"
		elif [ ! -e "$2/$patch" ]; then
			echo "removed: $patch"
		elif ! cmp -s "$1/$patch" "$2/$patch"; then
			echo "changed: $patch"
		fi
	done
}

# round_trip DIR WORK: applies the folder's patches to the files that they touch and writes them
# again; prints the differences. WORK is an empty folder. Stops at a patch that does not apply.
round_trip() {
	touched_paths "$1" >"$2/touched"
	unpack_stock "$2/source" "$2/touched"
	make_stock "$2/source"
	apply_queue "$2/source" "$1" ||
		die "$(said_by_am "$2/source" "$1");" \
			"'make core-edit' stops there, with the patches before it applied"
	export_queue "$2/source" HEAD "$2/again"
	differences "$1" "$2/again"
}

# said_by_am REPOSITORY DIR: which patch of the folder DIR git am stopped at, and why.
said_by_am() {
	number=$(cat "$1/.git/rebase-apply/next" 2>/dev/null || echo 1)
	printf 'the patch %s does not apply to %s (%s)' \
		"$(patches_in "$2" | sed -n "${number}s,.*/,,p")" "$pin_file" \
		"$(sed -n 's/^error: //p' "$1/.git/am.log" | head -n 1)"
}
