# shellcheck shell=sh disable=SC2034,SC2154 # root and here are set by who sources it
# What cairn-update, cairn-trial, cairn-update-allowed and node-update share. Sourced; root is the
# prefix of all paths, here the folder of Cairn's scripts. docs/design/update.md has the whole. RAUC
# mounts bundles at /run/cairn/rauc and keeps /run/cairn/rauc.status (board/common/rauc.conf).
update_state=$root/var/lib/cairn/update

# slots COMMAND...: what the board's boot partition says of the two slots, see cairn-boot-slot
slots() { "$here/cairn-boot-slot" ${root:+--root "$root"} "$@"; }

# shellcheck source=overlay/usr/lib/cairn/database-engine.sh
. "$here/database-engine.sh"

# shellcheck source=overlay/usr/lib/cairn/slot-files.sh
. "$here/slot-files.sh"

# update_version: what runs; the same as on the screen
# shellcheck source=overlay/usr/lib/cairn/cairn-version.sh
. "$here/cairn-version.sh"
update_version() { cairn_version "$root"; }

# update_board: the name of the board that this image is for
update_board() { os_release "$root" VARIANT_ID; }

# update_compare A B: prints older, same or newer, as A is to B. Parts are between . and -; a word
# counts less than nothing (1.0-rc1 is older than 1.0), numbers by their value.
update_compare() {
	printf '%s %s\n' "$1" "$2" | LC_ALL=C awk '
		function rank(part) { return part == "" ? 0 : part ~ /^[0-9]+$/ ? part + 0 : -1 }
		{
			n = split($1, a, /[.~+-]/); m = split($2, b, /[.~+-]/)
			for (i = 1; i <= (n > m ? n : m); i++) {
				x = rank(a[i]); y = rank(b[i])
				if (x == y && x < 0) { x = (a[i] "") > (b[i] ""); y = (a[i] "") < (b[i] "") }
				if (x != y) { print x < y ? "older" : "newer"; exit }
			}
			print "same"
		}'
}

# update_lasting NAME: standard input becomes that file of ours on the data partition
update_lasting() {
	set -- "$update_state" "$1"
	{
		mkdir -p "$1" && cat >"$1/$2.new" && sync "$1/$2.new" && mv "$1/$2.new" "$1/$2" && sync "$1"
	} 2>/dev/null
}

# update_units: prints a line for each unit that has failed, or that has ended in an error and waits
# to be started again (auto-restart): UNIT LOAD ACTIVE SUB. Fails if systemd does not say. bitcoind
# is judged by its answers, not by how often it was started.
update_units() {
	update_found=$(${CAIRN_SYSTEMCTL:-systemctl} list-units --state=failed,auto-restart \
		--no-legend --plain --no-pager 2>/dev/null) || return 1
	printf '%s\n' "$update_found" | awk '
		NF && ($3 == "failed" || $1 != "bitcoind.service") { print $1, $2, $3, $4 }'
}

# update_note_failed: notes which units do so, and what else ends a trial (trial-look.sh) and is
# there already. They are no fault of a version that is tried after that, which is as soon as it is
# armed.
update_note_failed() {
	{
		update_units | awk '{ print $1 }'
		[ ! -e "$root/run/cairn/bitcoind.hold" ] || echo bitcoind.hold
		[ ! -e "$root/run/cairn/firewall.report" ] || echo firewall.report
		[ ! -e "$root/run/cairn/tor-firewall.report" ] || echo tor-firewall.report
	} | update_lasting failed-units || :
}

# update_chain: asks bitcoind for the state of its chain
update_chain() { ${NODE_CLI:-node-cli -rpcclienttimeout=60} getblockchaininfo; }

# update_trial SLOT PHASE VERSION [NETWORK SUM]: notes what is to be tried, the tip that it has to
# reach, and for an update what network node.conf gives, and its sum: with the same file the new
# version must not give less. What is noted of node.conf by update_conf_put_back stays. PHASE:
# installed, or going from when the restart is asked for.
update_trial() {
	answer=$(update_chain 2>/dev/null) || answer=""
	update_tip_of "$answer"
	if [ -n "$height" ]; then
		update_tip
	else
		update_noted_tip "$update_state/trial" || update_noted_tip "$update_state/tip" || :
	fi
	put_back=$(update_value "$update_state/trial" put-back)
	# of an earlier trial, of which nothing else could be noted
	rm -f "$update_state/reason" || :
	update_note_failed
	{
		printf 'slot=%s\nphase=%s\nversion=%s\nfrom=%s\nheight=%s\nchain=%s\n' "$1" "$2" "$3" \
			"$(update_version)" "${height:-0}" "$chain"
		[ -z "${5:-}" ] || printf 'network=%s\nconf=%s\n' "$4" "$5"
		[ -z "$put_back" ] || printf 'put-back=%s\n' "$put_back"
	} | update_lasting trial
}

# update_phase PHASE: what is noted in trial is in that phase from now on; fails if it cannot be
# written
update_phase() { sed "s/^phase=.*/phase=$1/" "$update_state/trial" | update_lasting trial; }

# update_armed: notes that the update, version in slot other, is tried at the next restart; fails if
# it cannot
update_armed() {
	update_trial "$other" installed "$version" "$(node_record "$root" network)" \
		"$(node_record "$root" sum)"
}

# update_going: notes that what is installed is tried by the restart that comes now; fails if it
# cannot
update_going() {
	# Not what was noted when it was armed, which may not have been possible.
	slot=$(update_other)
	version=$(update_value "$root/boot/slot-$slot/release" version)
	update_trial "$slot" going "$version" "$(update_value "$update_state/trial" network)" \
		"$(update_value "$update_state/trial" conf)"
}

# update_restart: tries what is installed
update_restart() {
	update_going ||
		update_say "The data partition cannot be written, so a failure of version $version would" \
			"not be remembered; it is tried all the same."
	update_reboot
}

# update_reboot: asks for that restart. If there is none, nothing is tried yet, and nothing fails.
update_reboot() {
	slots reboot && return
	update_phase installed || :
	update_say "The node could not be restarted, so version $version is not tried yet; systemctl" \
		"reboot restarts it, and node-update reboot tries that version."
	return 1
}

# shellcheck source=overlay/usr/lib/cairn/update-ready.sh
. "$here/update-ready.sh"
# shellcheck source=overlay/usr/lib/cairn/update-network.sh
. "$here/update-network.sh"
# shellcheck source=overlay/usr/lib/cairn/update-words.sh
. "$here/update-words.sh"
# shellcheck source=overlay/usr/lib/cairn/node-conf.sh
. "$here/node-conf.sh"
# shellcheck source=overlay/usr/lib/cairn/update-conf.sh
. "$here/update-conf.sh"
# shellcheck source=overlay/usr/lib/cairn/update-failures.sh
. "$here/update-failures.sh"

# update_take_back: nothing is tried at the next restart. If that cannot be written, it is noted as
# installed, and unchanged says so. It also says so if RAUC has begun to write over the version that
# the owner could have gone back to (kept, its number), or that a version that waited for its trial
# (waited) does not get one any more. other, armed and version are those of update_install.
update_take_back() {
	unchanged=${conf_said:+"The rollback that was prepared is taken back. $conf_said"}
	[ -n "$unchanged" ] || [ -z "$waited" ] ||
		unchanged="Version $waited is not tried at the next restart any more."
	unchanged=${unchanged:-"Nothing has changed."}
	update_gone "$kept" || unchanged="The version that runs is as it was; $gone."
	if [ "$armed" != "$other" ] || slots set-primary "$(slots get-current)"; then
		# chosen in the loader's menu (update_say_chosen)
		[ -z "$waited" ] || ! update_waiting || unchanged="Nothing has changed."
		rm -f "$update_state/trial" || :
		return 0
	fi
	unchanged="But the boot partition cannot be written, so the next restart tries version"
	unchanged="$unchanged $version."
	update_armed || :
}

# update_waiting: is the other slot what the next restart starts?
update_waiting() { [ "$(slots get-primary)" = "$(update_other)" ]; }

# update_say_chosen: the owner of a PC has chosen the version that runs in the loader's menu. The
# other one has no try that could be taken back and is what the next restart starts in any case, for
# which what is noted is left.
update_say_chosen() {
	update_say "Version $version has proved itself, and it is what the next restart starts in any" \
		"case; node-update rollback goes back to $(update_version) then."
}

# update_disarm: the next restart does not try version any more. Fails with a sentence on the screen
# if that cannot be written, or if it comes in any case.
update_disarm() {
	disarmed=1
	slots set-primary "$(slots get-current)" || disarmed=""
	update_waiting || return 0
	if [ -n "$disarmed" ]; then
		update_say_chosen
	else
		update_say "The boot partition cannot be written, so version $version may still be tried;" \
			"check the disk."
	fi
	return 1
}

# update_cancel: version, which is noted in trial, is not tried, and a node.conf that a rollback has
# replaced for it comes back. An installation that was killed between the arming and its note counts
# (update_count_killed). Fails where update_disarm does; the note stays then.
update_cancel() {
	update_disarm || return 1
	update_conf_failed
	update_count_killed || :
	update_conf_over
	update_say "Version $version is not tried at the next restart any more." \
		"Version $(update_version) stays.${given_up:+ $given_up}${conf_said:+ $conf_said}"
}

# update_lock: keeps other updates, rollbacks and their restarts out; fails with a sentence in why,
# and busy is 1 if there is one. The lock is gone with the last process that has it open, however
# that ends.
update_lock() {
	why="/run/cairn cannot be written"
	touch "$root/run/cairn/update.lock" || return 1
	exec 8>"$root/run/cairn/update.lock"
	flock -n 8 && return 0
	why="another update, a rollback or its restart is under way" busy=1
	return 1
}

# update_install SOURCE ALLOW [BY_ITSELF]: has RAUC install a bundle, a file or an URL. ALLOW: words
# of cairn-update-allowed. BY_ITSELF: nobody asked for it now, so a failure has to be remembered.
# Prints what happens; returns 1 when it failed, with the reason in why, and in unchanged what that
# means; busy is 1 if another one has the screen. Neither Ctrl-C nor a connection that ends stops
# it; SIGTERM ends RAUC, and this in order.
update_install() {
	unchanged="Nothing has changed." busy="" conf_said=""
	why=$(update_not_now "${3:-}")
	[ -z "$why" ] || return 1
	proxy=""
	case $1 in
	http://* | https://*) update_proxy "$1" || return 1 ;;
	esac
	update_devices || return 1
	update_lock || return 1
	trap '' HUP INT PIPE
	trap : TERM
	rm -f "$root/run/cairn/update.why" "$root/run/cairn/update.done" "$root/run/cairn/update.begun"
	waited="" other=$(update_other)
	! update_waiting ||
		waited=$(update_value "$root/boot/slot-$other/release" version)
	# What a rollback has noted, and was never tried, is overwritten from here on: first its restart,
	# as the older version must not start with the newer one's file.
	why="the boot partition cannot be written, so the rollback that was prepared stays as it is"
	! update_conf_noted || {
		# After a power cut behind that, it has not failed.
		prepared=$(update_value "$update_state/trial" phase)
		update_phase cancelled || :
		slots set-primary "$(slots get-current)" || {
			update_phase "$prepared" || :
			return 1
		}
	}
	update_conf_return || {
		why="the boot partition cannot be written, so your node.conf, which a rollback has replaced,"
		why="$why cannot come back; it is /var/lib/cairn/update/node.conf.replaced"
		return 1
	}
	[ -z "$conf_said" ] || echo "$conf_said" || :
	# For the version that runs now, should the next one need other lines.
	update_conf_next
	kept=$(update_over)
	update_count_killed
	if ! update_note_writing "" "$kept" && [ -n "${3:-}" ]; then
		why="the data partition cannot be written, so a failure would not be remembered"
		return 1
	fi
	rm -f "$update_state/last"
	update_note_failed
	# One that was killed leaves it mounted, and RAUC opens no second one.
	umount "$root/run/cairn/rauc/bundle" 2>/dev/null || :
	update_say "$update_writing"
	{
		CAIRN_UPDATE_ALLOW=$2 CAIRN_UPDATE_BY_ITSELF=${3:-} \
			all_proxy=$proxy ALL_PROXY=$proxy no_proxy='' \
			${CAIRN_RAUC:-rauc} install "$1" 2>&1 && : >"$root/run/cairn/update.done"
	} | (umask 077 && tee "$root/run/cairn/update.log") | update_progress || :
	version=$(update_value "$root/boot/slot-$other/release" version)
	armed=$(slots get-primary) || armed=""
	if [ ! -e "$root/run/cairn/update.done" ] || [ "$armed" != "$other" ]; then
		update_take_back
		update_conf_failed
		update_because "$(update_words "$root/run/cairn/update.log")"
		found=$(head -n 1 "$root/run/cairn/update.why" 2>/dev/null | LC_ALL=C tr -c '\n -~' '?')
		why=${found:-"$why"}
		[ -z "${3:-}" ] || update_failed_by_itself
		return 1
	fi
	update_conf_installed
	update_armed || [ -z "${3:-}" ] || update_not_noted || return 1
	update_say "Version $version is installed and is tried at the next restart" \
		"(node-update reboot); until it has proved itself, the old version stays."
}

# update_other: the slot that does not run
update_other() {
	case $(slots get-current) in
	a) echo b ;;
	*) echo a ;;
	esac
}
