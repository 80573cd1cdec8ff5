# Which partition is the node's data? One pure function: facts in, one action out. It reads and
# writes nothing else. Called by cairn-datadisk; the protocol is docs/design/datadisk.md.
# POSIX awk; must run under busybox and mawk.
#
# Input, one fact a line, fields separated by a tab. Texts have printable ASCII only.
#   want KIND TEXT    datadisk= of node.conf: none (no line), auto, system, name (TEXT is a serial
#                     number or a model), doubt (a line that may have been one cannot be used)
#   conf STATE        ok, or lost: node.conf is not there or cannot be read
#   erase SERIAL      erase= of node.conf
#   system PART UUID TYPE LABEL   the data partition of the system's disk. TYPE is "" if its file
#                     system cannot be read. LABEL is the marker: at-ID-SUM, mk-ID-SUM, or none
#   held yes|no       a node's data are in that partition; only after the action `look`
#   repaired PART     fsck was tried already
#   failed SENTENCE   making or moving failed in this boot
#   quiet yes         no disk has come or gone for a while
#   disk NAME SERIAL MODEL SECTORS SUM STATE   a whole disk, not the system's. STATE is "" until
#                     the action `probe`, then blank, table (a partition table without
#                     partitions, and nothing else), used or unread; busy: something uses it
#   part DISK NAME UUID PARTLABEL TYPE LABEL   a partition of such a disk
# Output: `do`, the action and its arguments, separated by tabs; then `say` and a sentence, if any.
#   system            the system's partition is the data
#   use PART UUID     this partition is
#   probe DISK, look, quiet, repair PART LABEL   find that out, or try that, and ask again
#   forget            take the marker mk- off and ask again
#   mark ID SUM       write the marker at-ID-SUM and ask again; SUM is of the disk's serial number
#   make DISK, remake DISK, erase DISK   make the data partition there; see the rules below
#   back PART ID      move the data back
#   wait              say the sentence, and ask again when something has changed
#   fail              nothing helps in this boot
#
# Rules that never break: only a disk that is blank is made without erase=; erase= takes an exact
# serial number and never a disk with complete data, or one that a node has started from; a marker
# at- leaves its own disk only; two claimants are refused.
BEGIN {
	FS = "\t"
	hex8 = "[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"
	hex4 = "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"
	want = "none"; conf = "ok"
}
# Serial numbers, models and ids are texts: "" keeps awk from comparing those of digits as numbers,
# of which it knows 16 places.
$1 == "want" { want = $2; text = $3 "" }
$1 == "conf" { conf = $2 }
$1 == "erase" { erase = $2 "" }
$1 == "system" { have_system = 1; system_part = $2; system_type = $4; label = $5 }
$1 == "held" { held = $2 }
$1 == "repaired" { repaired[$2] = 1 }
$1 == "failed" { failed = $2 }
$1 == "quiet" { quiet = $2 == "yes" }
$1 == "disk" {
	disks[++disk_count] = $2
	serial[$2] = $3 ""; model[$2] = $4 ""; sectors[$2] = $5; sum[$2] = $6 ""; state[$2] = $7
	if ($3 != "") same_serial[$3]++
}
$1 == "part" {
	parts[++part_count] = $3
	on[$3] = $2; uuid[$3] = $4; part_label[$3] = $5 ""; type[$3] = $6; fs_label[$3] = $7 ""
	parts_on[$2]++
}

# -- answers -------------------------------------------------------------------------------
function answer(action, sentence) {
	print "do\t" action
	if (sentence != "") print "say\t" sentence
	answered = 1
}
function wait(sentence) { answer("wait", sentence " The node waits and has changed nothing.") }
function shown(disk) {
	return (model[disk] == "" ? "disk" : model[disk]) " (" (serial[disk] == "" ? \
		"without a serial number" : "serial " serial[disk]) ", " \
		int(sectors[disk] * 512 / 1000000000 + 0.5) " GB)"
}
function list(    i, said) {
	for (i = 1; i <= disk_count; i++) said = said (i > 1 ? ", " : "") shown(disks[i])
	return said == "" ? "There is no other disk." : "Other disks here: " said "."
}

# -- what the facts mean -------------------------------------------------------------------
function id_of(part) {
	return part_label[part] ~ "^cairn-data-" hex8 "$" ? substr(part_label[part], 12) "" : ""
}
function readable(part) { return type[part] == "ext4" || type[part] == "f2fs" }
function complete(part) {
	return id_of(part) != "" && readable(part) && fs_label[part] == "cairn-" id_of(part)
}
# Blanks and underscores: udev writes a model with the latter.
function plain(word) {
	gsub(/[ _]+/, "_", word); sub(/^_/, "", word); sub(/_$/, "", word)
	return word
}
function named(disk) {
	return serial[disk] == text && text != "" || \
		model[disk] != "" && plain(model[disk]) == plain(text)
}
# Partitions that are the data with this id; those in found[1], found[2], ...
function claims(id, only_complete,    i, n) {
	split("", found)
	for (i = 1; i <= part_count; i++)
		if (id_of(parts[i]) "" == id "" && (!only_complete || complete(parts[i]))) found[++n] = parts[i]
	return n + 0
}
# The card or disk of another node, which has chain and wallets in the partition `data`, whether
# that can be read at this moment or not; unless its marker says that they are elsewhere.
function system_of_a_node(disk,    i, has) {
	for (i = 1; i <= part_count; i++) if (on[parts[i]] == disk && fs_label[parts[i]] !~ /^at-/)
		has[part_label[parts[i]]] = 1
	return ("root-a" in has) && ("data" in has)
}
function complete_on(disk,    i, n) {
	split("", found)
	for (i = 1; i <= part_count; i++)
		if (complete(parts[i]) && (disk == "" || on[parts[i]] == disk)) found[++n] = parts[i]
	return n + 0
}
function asked() {
	return want == "name" ? " node.conf asks for " text "." : ""
}

# -- the data are on another disk already --------------------------------------------------
function decide_at(id,    n, part, i) {
	n = claims(id, 0)
	if (n == 0) {
		wait("The disk with the node's data (" id ") is missing." asked() " Plug it in; the" \
			" node goes on when it is there. " list())
		return
	}
	if (n > 1) {
		wait("Two disks say that they are this node's data (" id "): " shown(on[found[1]]) " and " \
			shown(on[found[2]]) ". One is a copy: unplug it and restart.")
		return
	}
	part = found[1]
	# Not the disk that it was, by its serial number: a copy may have been found before the disk.
	if (at_sum != "" && sum[on[part]] != at_sum && !quiet) { answer("quiet"); return }
	# A torn marker is mended first: what follows mounts that partition, after fsck has perhaps
	# brought back an older label.
	if (want == "system" && system_type == "" && !(system_part in repaired)) {
		answer("repair\t" system_part "\t" label)
		return
	}
	# The marker is written last: the data are whole, whatever the label says.
	if (!complete(part) && !(want == "system" && failed == "" && fs_label[part] == "old-" id)) {
		if (part in repaired)
			wait("The file system with the node's data on " shown(on[part]) \
				" cannot be read. The disk probably fails; save the wallet from it on another" \
				" computer.")
		else answer("repair\t" part "\tcairn-" id)
		return
	}
	if (want == "system") {
		if (failed == "") answer("back\t" part "\t" id)
		else use(part, failed)
		return
	}
	if (want == "doubt") {
		use(part, "datadisk= in node.conf cannot be used; the data stay on " shown(on[part]) ".")
		return
	}
	if (want == "name" && !named(on[part])) {
		for (i = 1; i <= part_count; i++)
			if (complete(parts[i]) && named(on[parts[i]])) {
				wait("datadisk= names " shown(on[parts[i]]) ", which holds the data of another" \
					" node. This node's data are on " shown(on[part]) ". Name that one in" \
					" node.conf, or use another card.")
				return
			}
		use(part, "datadisk= in node.conf is not the disk with the data, which stay on " \
			shown(on[part]) ". To move them, write datadisk=system first.")
		return
	}
	use(part, erase == "" ? "" : "Put a # in front of erase= in node.conf: it is done.")
}
function use(part, sentence) { answer("use\t" part "\t" uuid[part], sentence) }

# -- which disk is it to be? ---------------------------------------------------------------
function choose_named(    i, n, disk, said) {
	for (i = 1; i <= disk_count; i++) if (named(disks[i])) {
		said = said (n++ ? ", " : "") shown(disks[i])
		disk = disks[i]
	}
	if (n == 0) wait("The disk that node.conf asks for, " text ", is not here. Plug it in, or" \
		" correct datadisk=. " list())
	else if (n > 1) wait("datadisk=" text " in node.conf fits more than one disk: " said \
		". Write the serial number of one.")
	else if (serial[disk] != "" && same_serial[serial[disk]] > 1)
		wait("Two disks have the serial number " serial[disk] ". Unplug one.")
	else return disk
	return ""
}
function choose_auto(    i, n, disk, said) {
	n = complete_on("")
	if (n > 1) {
		wait("Two disks hold the data of a node: " shown(on[found[1]]) " and " \
			shown(on[found[2]]) ". Unplug one, or write the serial number of the right one in" \
			" datadisk=.")
		return ""
	}
	if (n == 1) return on[found[1]]
	if (making != "" && claims(making, 0) == 1) return on[found[1]]
	for (i = 1; i <= disk_count; i++) {
		if (parts_on[disks[i]] || state[disks[i]] == "busy") continue
		if (state[disks[i]] == "") { answer("probe\t" disks[i]); return "" }
		if (state[disks[i]] == "blank" || torn(disks[i])) {
			said = said (n++ ? ", " : "") shown(disks[i])
			disk = disks[i]
		}
	}
	if (n == 1) return disk
	if (n) wait("datadisk=auto fits more than one disk: " said ". Write the serial number of one.")
	else wait("datadisk=auto takes a blank disk only, and there is none. Write the serial number" \
		" of the right disk in datadisk=. " list())
	return ""
}
# Was the power cut while this disk's new partition table was written?
# One without a serial number could be any.
function torn(disk) {
	return making != "" && serial[disk] != "" && state[disk] == "table" && sum[disk] == making_sum
}

function mark(id, disk) { answer("mark\t" id "\t" sum[disk]) }

# -- the data are not yet on another disk --------------------------------------------------
function decide_disk(    disk, n, part, id, i) {
	disk = want == "auto" ? choose_auto() : choose_named()
	if (disk == "") return
	n = complete_on(disk)
	if (n > 1) {
		wait(shown(disk) " holds the data of two nodes.")
		return
	}
	if (n == 1) {
		part = found[1]
		id = id_of(part)
		if (claims(id, 1) > 1) {
			wait("Two disks say that they are the same node's data (" id "): " \
				shown(on[found[1]]) " and " shown(on[found[2]]) ". One is a copy: unplug it.")
			return
		}
		if (id == making) { mark(id, disk); return }
		if (held == "") { answer("look"); return }
		if (held == "yes") {
			wait("Both the system's disk and " shown(disk) " hold the data of a node, and only" \
				" one can count. Put a # in front of datadisk= in node.conf to go on with the" \
				" system's disk, or write the card anew to go on with the other.")
			return
		}
		if (!quiet && want == "auto") { answer("quiet"); return }
		mark(id, disk)
		return
	}
	if (state[disk] == "busy") {
		wait(shown(disk) " is in use by something else.")
		return
	}
	if (parts_on[disk]) {
		# Begun by this node and not finished; nothing has used it yet.
		if (making != "" && parts_on[disk] == 1)
			for (i = 1; i <= part_count; i++)
				if (on[parts[i]] == disk && id_of(parts[i]) == making &&
					fs_label[parts[i]] != "old-" making) {
					answer("remake\t" disk)
					return
				}
	} else {
		if (state[disk] == "") { answer("probe\t" disk); return }
		if (state[disk] == "blank") { ready("make", disk); return }
		if (torn(disk)) { ready("remake", disk); return }
		if (state[disk] == "unread") {
			wait(shown(disk) " cannot be read. It may be failing.")
			return
		}
	}
	# A node's data that cannot be read at this moment may be whole all the same.
	for (i = 1; i <= part_count; i++) {
		part = parts[i]
		if (on[part] != disk || id_of(part) == "" || readable(part)) continue
		if (!(part in repaired)) { answer("repair\t" part "\t"); return }
		wait(shown(disk) " has the data of a node (" id_of(part) ") which cannot be read, and is not" \
			" erased. The disk may be failing: save the wallet from it on another computer, or" \
			" erase it there.")
		return
	}
	if (system_of_a_node(disk)) {
		wait(shown(disk) " is one that a node has started from, with its data and wallets on it, and" \
			" is not erased. Start that node and save its wallets, or erase the disk on another" \
			" computer.")
		return
	}
	if (want == "name" && erase != "" && erase == serial[disk]) { ready("erase", disk); return }
	wait(shown(disk) " is not blank, and nothing on it is touched. If all on it may be lost," \
		(serial[disk] == "" ? " erase it on another computer." : " add erase=" serial[disk] \
		" to node.conf.") (erase == "" ? "" : " erase=" erase " is not its serial number."))
}
# Late disks: a second one that fits must have had its chance to appear.
function ready(action, disk) { answer(quiet ? action "\t" disk : "quiet") }

END {
	if (label ~ "^at-" hex8 "$" || label ~ "^at-" hex8 "-" hex4 "$") {
		at = substr(label, 4, 8)
		at_sum = substr(label, 13)
	}
	if (label ~ "^mk-" hex8 "-" hex4 "$") {
		making = substr(label, 4, 8)
		making_sum = substr(label, 13)
	}
	if (!have_system)
		answer("fail", "The system's disk has no data partition. It is too small, or it fails.")
	else if (at != "") decide_at(at)
	else if (system_type == "" && !(system_part in repaired)) answer("repair\t" system_part "\t")
	# Not to be mounted either: what cannot be mounted is reported by the boot's own sentence.
	else if (system_type == "" && want ~ /^(none|system)$/) answer("system")
	else if (system_type == "")
		wait("The data partition of the system's disk cannot be read, and with it where the data" \
			" are. The card or disk probably fails.")
	else if (want == "none" && making != "" && conf == "lost")
		wait("node.conf is missing or cannot be read, and the disk for the data was not finished." \
			" Copy node.conf to the boot partition again.")
	else if (want ~ /^(none|system)$/) answer(making != "" ? "forget" : "system")
	else if (want == "doubt") {
		if (held == "") answer("look")
		else if (held == "yes" && making != "") answer("forget")
		else if (held == "yes")
			answer("system", "datadisk= in node.conf cannot be used; the data stay where they are.")
		else wait("datadisk= in node.conf cannot be used, and no chain is begun elsewhere." \
			" Correct that line and restart.")
	} else if (failed != "") {
		if (held == "") answer("look")
		else if (held == "yes") answer("system", failed)
		else answer("wait", failed)
	} else decide_disk()
	if (!answered) answer("fail", "The place of the data could not be decided: an error of Cairn's.")
}
