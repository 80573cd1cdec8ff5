# What the lines of node.conf mean together, and the records. Used by node-conf.awk.

function drop(i, why) { reject(kept_nr[i], kept_line[i], why); gone[i] = 1 }
function shown(i) { return kept_value[i] == "\001" ? "no" kept[i] "=1" : kept[i] "=" kept_value[i] }

# Repeated and contradictory lines. Core takes the first value (of a list: all, and what stands
# before no<name>=1 is forgotten); a second one that says something else is reported.
function check_repeats(    i, key, j) {
	for (i = 1; i <= count; i++) {
		if (kept_section[i] == "" && chain != "main" && is(kept[i], "network") &&
			kept_value[i] != "\001") {
			drop(i, "counts on " chain " only below [" chain "]")
			continue
		}
		key = kept_section[i] SUBSEP kept[i]
		if ((key SUBSEP kept_value[i]) in same) { gone[i] = 1; continue }
		# Core would bind twice
		if (kept_section[i] == chain && is(kept[i], "list") &&
			("" SUBSEP kept[i] SUBSEP kept_value[i]) in same) {
			gone[i] = 1
			continue
		}
		same[key, kept_value[i]] = 1
		if (!is(kept[i], "list")) {
			if (key in line_of) {
				drop(i, kept[i] " stands in line " line_of[key] " already, with another value")
				continue
			}
		} else if (kept_section[i] == "" || kept_section[i] == chain) {
			j = kept[i]
			if (j in line_of_list) {
				if ((kept_value[i] == "\001") != list_negated[j]) {
					drop(i, "contradicts line " line_of_list[j])
					continue
				}
				if (is(j, "private") && list_section[j] != kept_section[i]) {
					drop(i, "Core adds it to line " line_of_list[j] \
						"; write all " j " lines in one section")
					continue
				}
			} else {
				line_of_list[j] = kept_nr[i]; list_section[j] = kept_section[i]
				list_negated[j] = kept_value[i] == "\001"
			}
		}
		line_of[key] = kept_nr[i]
	}
}
# What bitcoind will use: the chain's section, then what stands above the sections. Of a list
# the first; all values with commas around them in `all`.
function work_out(    i, pass) {
	split("", now); split("", where); split("", all)
	for (pass = 1; pass <= 2; pass++) for (i = 1; i <= count; i++) {
		if (gone[i] || kept_section[i] != (pass == 1 ? chain : "")) continue
		if (!(kept[i] in now)) {
			now[kept[i]] = kept_value[i]
			where[kept[i]] = i
			all[kept[i]] = ","
		}
		all[kept[i]] = all[kept[i]] kept_value[i] ","
	}
	if (tor != "") now["tor"] = tor
	if (tor == "only") now["toronly"] = 1
}
# A look at an element would make it.
function val(option) { return option in now ? now[option] : "" }
function has(option) { return option in now && now[option] != "\001" }
# clash NAME WHY: the lines of that option in force are left out
function clash(option, why,    i) {
	for (i = 1; i <= count; i++)
		if (!gone[i] && kept[i] == option && (kept_section[i] == "" || kept_section[i] == chain))
			drop(i, why)
	work_out()
}
# Where the node goes is decided by tor= alone. A line that says something else about it, be it
# stricter, is left out like one that cannot be used: the network is closed, and the owner is asked.
function check_tor(    i, n, words) {
	if (tor == "") return
	n = split("proxy onion onlynet i2psam torcontrol torpassword bind whitebind externalip", \
		words, " ")
	for (i = 1; i <= n; i++) if (words[i] in now) clash(words[i], "contradicts tor=" tor \
		", which decides that; take one of the two lines out")
	n = split("natpmp discover cjdnsreachable i2pacceptincoming" \
		(tor == "only" ? " dnsseed forcednsseed" : ""), words, " ")
	for (i = 1; i <= n; i++) if (val(words[i]) == "1") clash(words[i], "contradicts tor=" tor \
		"; take one of the two lines out")
	# It would listen in the clear, as there is no other way in with tor=.
	if (val("listen") == "1" && val("listenonion") == "0") clash("listen", "with tor=" tor \
		" others come in by an onion service, and listenonion=0 forbids that;" \
		" take one of the two lines out")
}
# May others come in by an onion service? As Core decides it (InitParameterInteraction), but for
# proxy=, which is ours here. What Core would ask Tor for without network is left out, too.
function tor_listens() {
	return network == "on" && val("networkactive") != "0" && val("listenonion") != "0" &&
		("listen" in now ? val("listen") == "1" : !("connect" in now) && val("maxconnections") != "0")
}
# Options of bitcoind that follow from tor=, for SECTION ("-" or the chain's).
function print_tor(section) {
	if (tor == "") return
	if (section == "-") {
		print "option - proxy=127.0.0.1:9050"
		if (tor == "only") {
			print "option - onlynet=onion"
			if (!("dnsseed" in now)) print "option - dnsseed=0"
		}
		if (tor_listens()) {
			if (!("listen" in now)) print "option - listen=1"
			if (!("listenonion" in now)) print "option - listenonion=1"
			print "option - torcontrol=127.0.0.1:9051"
		}
	}
	# Nobody comes in but from Tor. Core reads bind= of a test chain from its section only.
	if (tor_listens() && section == (chain == "main" ? "-" : chain)) {
		print "option " section " bind=127.0.0.1:" (p2p_port[chain] + 1) "=onion"
	}
}
# Nothing is asked of anybody if a line may have been meant to forbid that.
function print_update() {
	if (update_doubt && updateurl != "")
		note("No update is looked for: line " update_doubt " of node.conf may have been about that." \
			" Correct that line and restart.")
	if (update_doubt || cut != "" || ignored != "" || lost != "") { print "update off"; return }
	print "update " (update == "" ? "notify" : update)
	if (updateurl != "" && network != "off") print "updateurl " updateurl
}
# Does nothing leave the node but through Tor?
function locked() { return tor == "only" || network == "off" }
function print_own(    i) {
	print_update()
	if (tor != "") print "tor " tor
	if (locked()) print "lock 1"
	for (i in access) { access["rpc"] = 1; break }
	if ("rpc" in access) {
		print "walletaccess rpc"
		if ("ssh" in access) print "walletaccess ssh"
		if ("tor" in access) print "walletaccess tor"
		print "rpcport " (has("rpcport") ? val("rpcport") : rpc_port[chain])
	}
}
function other_than_onion_proxy() { return has("proxy") && all["proxy"] ~ /,[^,=]+,/ }

# used_by PORT LINE: what else of this node than that line has the port; "" for nothing
function used_by(number, line) {
	if (kept[line] != "rpcport" && number == (has("rpcport") ? val("rpcport") : rpc_port[chain]))
		return "RPC"
	if (kept[line] !~ /^(port|bind|whitebind)$/ &&
		number == (has("port") ? val("port") : p2p_port[chain])) return "other nodes"
	return tor != "" && (number == 9050 || number == 9051 || number == p2p_port[chain] + 1) ? \
		"Tor" : ""
}
# bitcoind ends where something else has its port: that line is left out. RPC, Tor and ZeroMQ listen
# on loopback only, so that an address of the network has all ports free.
function check_ports(    pass, i, text, who) {
	# those that the others are compared with come first
	for (pass = 1; pass <= 3; pass++) for (i = 1; i <= count; i++) {
		if (gone[i] || kept_value[i] == "\001" || (kept_section[i] != "" && kept_section[i] != chain))
			continue
		text = kept_value[i]
		if (pass < 3) {
			if (kept[i] != (pass == 1 ? "rpcport" : "port") || where[kept[i]] != i) continue
			port = text
		} else {
			if (kind[kept[i]] !~ /^(listen|zmq)$/) continue
			sub(/^tcp:\/\//, "", text); sub(/^[a-z,]*@/, "", text); sub(/=onion$/, "", text)
			if (!host_port(text) || port == "" || host !~ /^(0\.0\.0\.0|127\..*|::1?)$/) continue
		}
		who = used_by(port + 0, i)
		if (who == "") continue
		drop(i, port " is this node's port for " who "; choose another one")
		work_out()
	}
}

# What bitcoind would end with, for reasons that lie in two lines (Core:
# AppInitParameterInteraction, AppInitMain).
function check_together(    nets, listening, n, words, i) {
	work_out()
	check_tor()
	# Core asks them whatever networkactive says (StartMapPort, TorController,
	# ThreadI2PAcceptIncoming).
	if (val("networkactive") == "0") {
		n = split("natpmp listenonion i2pacceptincoming", words, " ")
		for (i = 1; i <= n; i++) if (val(words[i]) == "1") clash(words[i],
			"would ask the router, Tor or I2P for a way in, and networkactive=0 forbids that")
	}
	if (!("prune" in now) && index(" " archives " ", " " chain " ")) now["prune"] = "kept"
	if (!("prune" in now) || (val("prune") != "0" && val("prune") != "kept")) {
		n = split("txindex txospenderindex", words, " ")
		for (i = 1; i <= n; i++) if (val(words[i]) == "1") clash(words[i],
			"needs all blocks, but this node prunes; add prune=0 on a disk of 1 TB or more")
		if (val("reindex-chainstate") == "1") clash("reindex-chainstate",
			"a pruned node needs reindex=1 instead")
	}
	nets = has("onlynet") ? all["onlynet"] : ""
	# Tor by its control port, for which bitcoind has to listen
	by_control = nets ~ /,onion,/ && !has("onion") && !other_than_onion_proxy() &&
		!("proxy" in now && all["proxy"] ~ /=onion,/)
	if (by_control && (val("listenonion") != "1" || val("onion") == "\001") ||
		nets ~ /,onion,/ && val("onion") == "\001")
		clash("onlynet", "onlynet=onion needs proxy= or onion=, the address of a Tor proxy")
	else if (nets ~ /,i2p,/ && !has("i2psam")) clash("onlynet", "onlynet=i2p needs i2psam=")
	else if (nets ~ /,cjdns,/ && !("cjdnsreachable" in now)) clash("onlynet",
		"onlynet=cjdns needs cjdnsreachable=1")
	if (nets != "" && nets !~ /,ipv[46],/ && val("dnsseed") == "1") clash("dnsseed",
		"contradicts onlynet=, which leaves out IPv4 and IPv6")
	if (val("forcednsseed") == "1" && (val("dnsseed") == "0" || (!("dnsseed" in now) &&
		("connect" in now || val("maxconnections") == "0" || (nets != "" && nets !~ /,ipv[46],/)))))
		clash("forcednsseed", "contradicts dnsseed=0, connect=, onlynet= or maxconnections=0")
	if (val("listen") == "0") {
		if (has("bind")) clash("bind", "contradicts listen=0")
		if (has("whitebind")) clash("whitebind", "contradicts listen=0")
	}
	listening = "listen" in now ? val("listen") == "1" : has("bind") || has("whitebind") ||
		!("connect" in now || has("proxy") || val("maxconnections") == "0")
	if (val("listenonion") == "1" && !listening) clash("listenonion", "needs listen=1")
	if (filters) {
		if ("blockfilterindex" in now && val("blockfilterindex") !~ /^(1|basic)$/)
			clash("blockfilterindex", "contradicts filters=1")
		if ("peerblockfilters" in now && val("peerblockfilters") != "1")
			clash("peerblockfilters", "contradicts filters=1")
	}
	if (!filters && val("peerblockfilters") == "1" && val("blockfilterindex") !~ /^(1|basic)$/)
		clash("peerblockfilters", "needs blockfilterindex=1")
	if (val("acceptnonstdtxn") == "1" && chain == "main") clash("acceptnonstdtxn",
		"is for test chains")
	if (val("acceptstalefeeestimates") == "1" && chain != "regtest")
		clash("acceptstalefeeestimates", "is for regtest")
	work_out()
	check_ports()
}
# Takes out what a line that cannot be used may have been meant to take back, or to limit.
function check_withdrawn(    i, what, taken) {
	for (i = 1; i <= records; i++) {
		what = record_of[i]
		sub(/ .*/, "", what)
		if (!(what in withdrawn)) continue
		record_of[i] = ""
		taken[what] = 1
	}
	if ("walletaccess" in withdrawn && ("rpc" in access || "tor" in access)) {
		delete access["rpc"]; delete access["tor"]
		taken["walletaccess"] = 1
	}
	if ("walletkey" in taken) delete access["ssh"]
	if ("walletshow" in taken || "walletaccess" in taken || "walletkey" in taken) show_line = 0
	for (i = 1; i <= count; i++) {
		what = kept[i]
		sub(/-chainstate$/, "", what)
		if (gone[i] || !(what in withdrawn) || kept_value[i] ~ /^(0|\001)$/) continue
		gone[i] = 1
		taken[what] = 1
	}
	work_out()
	for (what in taken) note((what == "erase" ? "No disk is erased" : \
		what == "walletshow" ? "The screen shows no password for wallets" : \
		what == "reindex" ? "The chain is not rebuilt" : \
		what ~ /^wallet/ ? "No wallet is let in by " what "=" : \
		"Nobody can log in with " what "=") ": line " withdrawn[what] \
		" of node.conf may have been meant to " (what == "rpcauth" ? "limit" : "forbid") \
		" that. Correct that line and restart.")
}
# Good lines that come to nothing, or to little, together with others
function check_wallet(    way, asked) {
	for (way in access) asked = 1
	if (show_line && !asked) note("Line " show_line " of node.conf, walletshow=1, shows nothing:" \
		" no line lets a wallet in. Add walletaccess=rpc, or walletkey= with your key, or put a" \
		" # in front of it. Then restart.")
	if (asked && val("disablewallet") == "1") note("Line " kept_nr[where["disablewallet"]] \
		" of node.conf, disablewallet=1, leaves bitcoind without wallets: a wallet that connects" \
		" cannot follow its payments. What is on the disk stays as it is." \
		" Put a # in front of the line, unless it is there because of a damaged wallet, and" \
		" restart.")
}
function note(text) { notes[++note_count] = text }
# Does it keep the node more private than bitcoind's default would?
function restricts(option, value) {
	if (option == "maxconnections") return value == "0"
	if (!is(option, "private") && !is(option, "inbound")) return 0
	if (kind[option] == "bool") return value == (option == "privatebroadcast")
	return value != "\001" || option ~ /^(connect|onion)$/
}
# Does the file that this one is the beginning of say something about privacy, on any chain?
function cut_was_private(    text, row, n, i, found) {
	while ((getline text < cut) > 0) {
		n = split(text, row, "\r")
		for (i = 1; i <= n; i++) {
			sub(/[#=].*/, "", row[i]); gsub(/[^a-z0-9-]/, "", row[i]); sub(/^no/, "", row[i])
			if (is(row[i], "private") || is(row[i], "inbound")) found = 1
		}
	}
	close(cut)
	return found
}
# Was a line that kept the node private lost?
function check_memory(    n, i, words, names) {
	if (chain_nr) now["chain"] = chain
	if (chain != "main") names = " chain"
	if (tor != "") names = names " tor" (tor == "only" ? " toronly" : "")
	for (i = 1; i <= count; i++)
		if (!gone[i] && where[kept[i]] == i && restricts(kept[i], kept_value[i]))
			names = names " " kept[i]
	for (i = 1; i <= switch_count; i++)
		if (switch_of[i] in switched && switched[switch_of[i]] == "0")
			names = names " " switch_of[i]
	private = substr(names, 2)
	good = said && !rejects && ignored == "" && absent == "" && cut == ""
	if (by_control && network == "outbound") network = "off"
	check_switches()
	if (ignored != "") {
		network = "off"
		note(ignored " The network is off until node.conf is corrected.")
		return
	}
	if (lost != "") {
		network = "off"
		note(absent)
		return
	}
	if (cut != "") {
		cut_why = "node.conf ends before the last good one did and looks cut short."
		if (remembered != "" || cut_was_private()) network = "off"
		note(cut_why (network == "off" ? " The network is off." : "") \
			" Copy the whole file to the boot partition again; if you took lines off its end" \
			" on purpose, write a line such as \"# end\" at the end. Then restart.")
	}
	if (network == "off" && closer)
		note("The network is off: line " closer " of node.conf may have been meant" \
			" to keep the node private. Correct that line and restart.")
	else if (!good && network != "off" && forgotten) {
		network = "off"
		note("The network is off: what the last good node.conf had to keep the node private" \
			" cannot be read any more." \
			" Save a node.conf in which every line can be used, and restart.")
	} else if (!good && network != "off") {
		n = split(remembered, words, " ")
		for (i = 1; i <= n; i++) if (!(words[i] in now) && !(words[i] in switches)) {
			network = "off"
			hide("mdns", 0)
			note("The network is off: the last good node.conf had " \
				(words[i] == "toronly" ? "tor=only" : words[i] "=") ", which is not there now." \
				" Restore it, or save a file in which every line can be used, and restart.")
			break
		}
	}
	if (network == "outbound")
		note("Nobody can connect to this node: line " closer " of node.conf may have been meant" \
			" to restrict that. Correct that line and restart.")
	if (absent != "") note(absent)
	if (network != "off") check_sections()
}
# Was a line lost that kept the name or the page out of the local network, or may one have been
# meant to? Where the network is off for it, that is said already.
function check_switches(    n, i, words, name, what) {
	if (ignored != "" || lost != "" || (forgotten && !good)) hide("", 0)
	n = good ? 0 : split(remembered, words, " ")
	for (i = 1; i <= n; i++)
		if (words[i] in switches && !(words[i] in switched)) hide(words[i], 0)
	if (network == "off" || ignored != "" || lost != "") return
	for (i = 1; i <= switch_count; i++) {
		name = switch_of[i]
		# with tor=only the name is not announced for another reason, which the owner knows
		if (!(name in hidden) || (name == "mdns" && tor == "only")) continue
		what = name == "mdns" ? "The node does not announce its name" : "The node shows no page"
		if (hidden[name]) note(what ": line " hidden[name] " of node.conf may have been meant" \
			" to switch that off. Correct that line and restart.")
		else if (!forgotten) note(what ": the last good node.conf had " name \
			"=, which is not there now." \
			" Restore it, or save a file in which every line can be used, and restart.")
	}
}
# A line about privacy that counts on another chain only, with none in its place on this one
function check_sections(    i, told) {
	for (i = 1; i <= count; i++) {
		if (gone[i] || kept_section[i] == "" || kept_section[i] == chain || kept[i] in now ||
			kept[i] in told || !is(kept[i], "private") ||
			!restricts(kept[i], kept_value[i])) continue
		told[kept[i]] = 1
		note("Line " kept_nr[i] " of node.conf, " shown(i) ", counts on " kept_section[i] \
			" only; this node runs on " chain " without it." \
			" Write it above the sections if it is meant for every chain.")
	}
}
END {
	if (!said && absent == "" && ignored == "")
		absent = "node.conf is empty; the node runs with its defaults."
	if (chain == "") chain = "main"
	# what bitcoin_conf says in their place
	split("networkactive listen bind whitebind listenonion natpmp i2pacceptincoming externalip",
		words, " ")
	for (i in words) closing[words[i]] = 1
	if (network == "") network = "on"
	for (i = 1; i <= lates; i++) {
		if (have_ip) add(late[i])
		else if (bad_ip) say_only(late_nr[i], late_line[i],
			"ip= in line " bad_ip " cannot be used, so this line is not either")
		else reject(late_nr[i], late_line[i], "is of use only together with ip=")
	}
	check_repeats()
	check_together()
	check_memory()
	check_withdrawn()
	check_wallet()
	if (rejects > most_rejected)
		note("node.conf has " rejects - most_rejected \
			" more lines that cannot be used; is it the right file?")

	print "chain " chain
	print "chain-directory " (chain == "main" ? "" : chain == "test" ? "/testnet3" : "/" chain)
	print "network " network
	if (good) print "good 1"
	if (absent != "") print "absent 1"
	if (private != "") print "private " private
	if (ignored != "") print "prune-doubt " ignored
	else if (cut != "") print "prune-doubt " cut_why
	else if (doubt && val("prune") != "0")
		print "prune-doubt Line " doubt \
			" of node.conf may have been meant to be about prune and cannot be used."
	else if ("prune" in now && val("prune") != "kept") print "prune " val("prune")
	# what it asks for once may have been taken out, or be another line's beginning
	if (cut == "" && val("reindex") == "1") print "once reindex"
	else if (cut == "" && val("reindex-chainstate") == "1") print "once reindex-chainstate"
	else if (absent == "" && ignored == "" && cut == "" && !once_doubt) print "without-once 1"
	if (store_doubt) print "store-doubt 1"
	if (filters_doubt) print "filters-doubt 1"
	if (!filters_asked && ((filters_off && !filters_doubt) || val("blockfilterindex") ~ /^(0|\001)$/))
		print "filters 0"
	if (ignored != "" || lost != "") print "unread 1"
	if (disk_doubt) print "datadisk-doubt 1"
	# cairn-tor-firewall lets no announcement out
	if (locked()) hide("mdns", 0)
	for (i = 1; i <= switch_count; i++) {
		name = switch_of[i]
		if (!(name in hidden) && !(name in switched && switched[name] == "0")) print name " 1"
	}
	print_own()
	for (i = 1; i <= records; i++) if (record_of[i] != "") print record_of[i]
	for (i = 1; i <= note_count; i++) print "note " notes[i]
	for (i = 1; i <= lines; i++) if (i in sentence) print "rejected " sentence[i]
	# Core's default is 1 (see check_together). Without network, bitcoin_conf has it.
	if (network != "off" && network != "outbound" && val("networkactive") == "0" &&
		has("i2psam") && !("i2pacceptincoming" in now)) print "option - i2pacceptincoming=0"
	for (pass = 1; pass <= 2; pass++) {
		print_tor(pass == 1 ? "-" : chain)
		print_options(pass == 1 ? "" : chain)
	}
}
function print_options(section,    i) {
	for (i = 1; i <= count; i++) {
		if (gone[i] || kept_section[i] != section || is(kept[i], "once")) continue
		if (cut != "" && kept[i] == "prune") continue
		if (doubt && kept[i] == "prune" && val("prune") != "0") continue
		if (store_doubt && kept[i] == "blocksinmemory" && kept_value[i] ~ /[1-9]/) continue
		if (network != "on" && kept[i] in closing &&
			!(network == "outbound" && kept[i] == "networkactive")) continue
		if (network == "off" && by_control && kept[i] == "onlynet") continue
		print "option " (section == "" ? "-" : section) " " shown(i)
	}
}
