# The one parser of node.conf: reads what the user wrote, as Bitcoin Core would, and prints
# records for all scripts. Called by node-conf.sh, with the other node-conf-*.awk in front of it.
#
# Variables: table       options.tsv, which says what each option may be
#            known       file with the names of bitcoind's options, one a line; "" = no check
#            ignored     why the file is not used at all; "" = it is
#            absent      why there is no file; "" = there is one
#            cut         the last good file, if this one is the beginning of it only; otherwise ""
#            remembered  names that the last good file had and that keep the node private
#            lost        not "": the file that is not there may be meant to be (a reason in absent)
#            forgotten   not "": there is such a list, and it cannot be read
#            archives    chains whose blocks are all kept (bitcoind came up with prune=0)
# Output, one record a line, NAME value; a record that is not there has no value:
#   chain NAME            always; main, test, testnet4, signet or regtest
#   chain-directory PATH  always; below bitcoind's data directory, "" for main
#   network STATE         always; on, outbound (nobody comes in) or off
#   good 1                there is a file, and each line of it could be used
#   absent 1              there is none, or it is empty
#   private NAMES         options in force that decide where the node goes and who comes in
#   prune N               what the user asked for; prune-doubt SENTENCE instead when a line that
#                         may have been about it could not be used
#   store-doubt 1         a line that cannot be used may have been meant to have each block of the
#                         first sync stored: about blocksinmemory or an index
#   filters-doubt 1       such a line may have been about filters
#   once NAME             reindex or reindex-chainstate
#   without-once 1        it has no such line, nor one that may have been meant as one
#   option SECTION LINE   for bitcoin.conf; SECTION is - above the first [section]
#   hostname, filesystem, sshkey, address, gateway, dns, datadisk, erase
#   mdns 1, page 1        the name is announced in the local network, the page is served: only where
#                         nothing says otherwise, nor may have been meant to
#   tor WHAT              1: Bitcoin's connections go through Tor; only: nothing leaves but so
#   lock 1                nothing may leave but through Tor: tor=only, or the network is off
#   walletaccess WAY      rpc, ssh or tor: how a wallet may reach RPC; rpc is always among them
#   walletkey KEY         an SSH key that may do nothing but reach RPC
#   walletshow 1          the console shows what a wallet needs
#   filters 1             compact block filters are asked for; 0: a good line says that none are
#   update MODE           always; auto, notify or off: off where a line may have been meant so
#   updateurl URL         where updates are looked for; never without a network
#   rpcport N             RPC's port on this chain, when a wallet may reach it
#   datadisk-doubt 1      a line that may have been meant as datadisk= cannot be used
#   unread 1              the file cannot be read, or lies there under another name
#   sum HASH              added by node-config: SHA-256 of the file, or none
#   note SENTENCE         what the user must know first; rejected SENTENCE: a line left out
#
# A line that could not be used never opens anything: if it resembles an option that keeps the
# node private, or nothing that is known, the network is off; if it resembles prune, nothing more
# is pruned; if it may have been meant to take back or to limit what another line asks for, that
# one is not carried out.
BEGIN {
	FS = "\t"
	load_table()
	split("main test testnet4 signet regtest", words, " ")
	for (i in words) chains[words[i]] = 1
	split("tor socks socks4 socks5 i2p", words, " ")
	for (i in words) private_word[words[i]] = 1
	policy["tor", "private"] = 1
	split("hostname filesystem sshkey ip gateway datadisk erase mdns page walletaccess walletkey" \
		" walletshow filters update updateurl", words, " ")
	for (i in words) own_keys[words[i]] = 1
	# what the node shows in the local network unless it is switched off
	switch_count = split("mdns page", switch_of, " ")
	for (i in switch_of) switches[switch_of[i]] = 1
	# NAME of a line that cannot be used: whose other lines it withdraws (judge_withdrawal)
	split("erase walletshow walletaccess", words, " ")
	for (i in words) takes_back[words[i]] = words[i]
	takes_back["rpcwhitelist"] = takes_back["rpcwhitelistdefault"] = "rpcauth"
	denies["walletkey"] = "walletkey"; denies["sshkey"] = "sshkey"
	denies["reindex"] = denies["reindex-chainstate"] = "reindex"
	two_in_one = "has a second option in it; write one a line"
	section = ""; lines = 0; most_rejected = 100
}
function load_table(    row, i, n, words, option) {
	while ((getline row < table) > 0) {
		if (row ~ /^#/ || split(row, words, "\t") != 6) continue
		option = words[1]
		kind[option] = words[2]; least[option] = words[3]; largest[option] = words[4]
		reason[option] = words[6]
		n = split(words[5], policies, ",")
		for (i = 1; i <= n; i++) {
			if (policies[i] ~ /^own:/) { own[option] = "|" substr(policies[i], 5) "|" }
			else policy[option, policies[i]] = 1
			if (policies[i] == "elsewhere") elsewhere[option] = 1
		}
	}
	close(table)
	if (known == "") return
	while ((getline option < known) > 0) is_known[option] = 1
	close(known)
}
function is(option, what) { return (option, what) in policy }

# -- keys of Cairn's own: checked, each but sshkey and dns once -----------------------------
function own_key(nr, line, name, value,    why, given) {
	if (section != "") { reject(nr, line, name " belongs above the first [section]"); return }
	given = value
	if (name in first) {
		# what says the same again is no contradiction
		if (value != first_value[name])
			reject(nr, line, name " stands in line " first[name] " already")
		return
	}
	if (name == "hostname") {
		if (value !~ /^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$/ || length(value) > 63) {
			reject(nr, line, "a host name has letters, digits and inner hyphens, at most 63")
			return
		}
		# Of the asking machine itself (RFC 6761, and usual in /etc/hosts), of mDNS (6762), for tests
		# (6761), of Tor (7686); by the last two machines look for a proxy, or a tunnel (5214).
		if (tolower(value) ~ /^(localhost|localdomain|broadcasthost|ip6-[a-z]+)$/ ||
			tolower(value) ~ /^(local|example|invalid|test|onion|wpad|isatap)$/) {
			reject(nr, line, "is a name with a meaning of its own in networks; choose another")
			return
		}
		add("hostname " value)
	} else if (name == "filesystem") {
		if (value !~ /^(ext4|f2fs)$/) { reject(nr, line, "takes ext4 or f2fs"); return }
		add("filesystem " value)
	} else if (name == "datadisk" || name == "erase") {
		# Serial numbers and models, as makers write them
		if (value !~ /^[A-Za-z0-9]([A-Za-z0-9 ._:+\/()-]*[A-Za-z0-9.)])?$/ || length(value) > 64) {
			reject(nr, line, name == "erase" ? "takes a disk's serial number" : \
				"takes auto, system, or a disk's serial number or model")
			return
		}
		if (name == "erase" && value ~ /^(auto|system|yes|no|true|false|[01])$/) {
			reject(nr, line, "takes the serial number of the disk whose content may be lost")
			return
		}
		add(name " " value)
	} else if (name ~ /^(tor|walletshow|filters)$/) {
		if (value == "true") value = "1"
		else if (value == "false") value = "0"
		if (value !~ (name == "tor" ? "^([01]|only)$" : "^[01]$")) {
			reject(nr, line, name == "tor" ? "takes 1, only or 0" : "takes 0 or 1")
			return
		}
		if (name == "filters") {
			filters = value == "1"
			if (filters) filters_asked = 1
			else filters_off = 1
		}
		if (name == "tor") tor = value == "0" ? "" : value
		else if (value == "1") {
			add(name " 1")
			if (name == "walletshow") show_line = nr
		}
	} else if (name == "update") {
		if (value !~ /^(auto|notify|off)$/) { reject(nr, line, "takes auto, notify or off"); return }
		update = value
	} else if (name == "updateurl") {
		if (value !~ /^https?:\/\/([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(:[0-9]+)?\/[A-Za-z0-9._~\/%+-]*$/ ||
			length(value) > 200) {
			reject(nr, line, "takes the address of a bundle, or of a folder with a / at its end," \
				" beginning with https:// or http://")
			return
		}
		updateurl = value
	} else if (name == "walletaccess") {
		if (value !~ /^(rpc|tor)$/) {
			reject(nr, line, value ~ /^(rpc|tor)[ ,;+&]+(rpc|tor)$/ ? \
				"takes one word; write two lines, walletaccess=rpc and walletaccess=tor" : \
				"takes rpc or tor; for SSH alone write walletkey= with a key")
			return
		}
		access[value] = 1
	} else if (name == "sshkey" || name == "walletkey") {
		sub(/[ \t]+/, " ", value)
		why = value
		sub(/ .*/, "", why)
		if (!index(" ssh-ed25519 ssh-rsa ecdsa-sha2-nistp256 ecdsa-sha2-nistp384" \
			" ecdsa-sha2-nistp521 sk-ssh-ed25519@openssh.com" \
			" sk-ecdsa-sha2-nistp256@openssh.com ", " " why " ") ||
			value !~ /^[^ ]+ AAAA[A-Za-z0-9+\/]+=*([ \t].*)?$/ || length(value) < 68) {
			reject(nr, line, "not an OpenSSH public key; paste the one line of your .pub file")
			return
		}
		why = value
		sub(/^[^ ]* [^ \t]*/, "", why)
		if (hides(why)) { reject(nr, line, two_in_one); return }
		add(name " " value)
		if (name == "walletkey") access["ssh"] = 1
	} else if (name in switches) {
		if (value == "true") value = "1"
		else if (value == "false") value = "0"
		if (value !~ /^[01]$/) { reject(nr, line, "takes 0 or 1"); return }
		switched[name] = value
	} else if (name == "ip") {
		if (!own_address(value)) {
			reject(nr, line,
				"write an address of this machine with its prefix, such as 192.168.1.50/24")
			return
		}
		have_ip = 1
		add("address " value)
	} else {
		if (!unicast(value)) { reject(nr, line, "not an IP address of a machine"); return }
		late[++lates] = name " " value; late_line[lates] = line; late_nr[lates] = nr
	}
	if (name !~ /^(sshkey|dns|walletaccess|walletkey)$/) {
		first[name] = nr; first_value[name] = given
	}
}
function add(record) { record_of[++records] = record }

# -- one line ------------------------------------------------------------------------------
# An option of bitcoind: sets name and value as they are kept; "" if it may pass, otherwise why not.
function fault(    negated) {
	negated = 0
	if (!(name in kind) && name ~ /^no/ && substr(name, 3) in kind) {
		name = substr(name, 3)
		negated = 1
	}
	if (is(name, "ignored")) return ""
	if (!(name in kind) || (known != "" && !(name in is_known) && !is(name, "hidden"))) {
		return name in kind && name ~ /^zmq/ ? "this bitcoind was built without ZeroMQ" : \
			"bitcoind has no option of that name; check the spelling"
	}
	if (is(name, "deny")) return "not for node.conf: " reason[name]
	if (negated) {
		if (value == "true") value = "1"
		if (value != "1") return "a negated option takes 1 only; write " name "=1 for the opposite"
		value = kind[name] == "bool" || kind[name] == "int" || takes_switch() ? "0" : "no"
	} else if (value == "no" && name in own) value = "no "
	if (kind[name] == "bool" || takes_switch()) {
		# The words mean what they say here. Core reads both as 0.
		if (value == "true") value = "1"
		else if (value == "false") value = "0"
	}
	if (name in own) return index(own[name], "|" value "|") ? "" : \
		"not for node.conf: " reason[name]
	if (kind[name] == "net" || kind[name] == "proxy") value = tolower_net(value)
	if (kind[name] == "int") {
		sub(/^0+/, "", value)
		if (value !~ /^[0-9-]/) value = "0" value
	}
	if (name ~ /^(proxy|onion|connect)$/ && value == "0") value = "no"
	if (value == "no" && (negated || name ~ /^(proxy|onion|connect)$/)) {
		value = "\001"
		return ""
	}
	return value_fault(name, value)
}
# Does a value have a second NAME= in it, as where a line end was lost? A blank in front of it is
# not needed for those that must not be lost: 192.0.2.7proxy=
function hides(text,    n, i, parts) {
	text = tolower(text)
	gsub(/[^!-~]+/, " ", text); gsub(/ ?= ?/, "= ", text)
	n = split(text, parts, " ")
	for (i = 1; i <= n; i++) {
		if (!sub(/=$/, "", parts[i])) continue
		sub(/^.*[^a-z0-9-]/, "", parts[i]); sub(/^-+/, "", parts[i])
		if (parts[i] in kind || switch_end(parts[i]) != "" || parts[i] ~ /update(url)?$/) return 1
		sub(/^no/, "", parts[i])
		if (parts[i] in kind || guarded_end(parts[i]) != "") return 1
	}
	return 0
}
function takes_switch() { return name in own && own[name] ~ /^\|[01]\|$/ }
# Core takes the names of networks in any case.
function tolower_net(text,    at) {
	if (kind[name] == "net") return tolower(text)
	at = index(text, "=")
	return at ? substr(text, 1, at) tolower(substr(text, at + 1)) : text
}
function read_line(nr, line,    text, why) {
	look_for_key(nr, line)
	text = line
	sub(/#.*/, "", text)
	text = trim(text)
	if (text == "") return
	if (length(line) > 4096) { reject(nr, line, "longer than 4096 characters"); return }
	if (text ~ /^\[/) {
		section = substr(text, 2, length(text) - 2)
		skipping = text !~ /\]$/ || !(section in chains)
		if (skipping) reject(nr, line,
			"unknown section; its lines are ignored, too." \
			" Use [main], [test], [testnet4], [signet] or [regtest]")
		return
	}
	if (skipping) { reject(nr, line, "stands in an unknown section"); return }
	if (text ~ /^-/) { reject(nr, line, "write the option without the leading hyphen"); return }
	if (text !~ /=/) {
		reject(nr, line, text ~ /^(;|\/\/)/ ? "a comment begins with #" : \
			"there is no '='; write option=value")
		return
	}
	name = trim(substr(text, 1, index(text, "=") - 1))
	value = trim(substr(text, index(text, "=") + 1))
	if (name !~ /^[a-z0-9-]+$/) {
		reject(nr, line, name ~ /^[a-z0-9]+\./ ? "write the option below its [section]" : \
			name ~ /^(;|\/\/)/ ? "a comment begins with #" : \
			(tolower(name) in kind) || (tolower(name) in own_keys) ? \
			"write the option's name in small letters: " tolower(name) "=" : "not an option's name")
		return
	}
	if (name in own_keys || name == "tor" || (name == "dns" && value !~ /^([01]|true|false)$/)) {
		own_key(nr, line, name, value)
		return
	}
	why = hides(value) ? two_in_one : ""
	if (why == "") why = fault()
	if (why != "") { reject(nr, line, why); return }
	if (is(name, "ignored") || name in own) return
	if (name ~ /^(chain|regtest|signet|testnet|testnet4)$/) { chain_line(nr, line); return }
	count++
	kept[count] = name; kept_value[count] = value; kept_section[count] = section
	kept_line[count] = line; kept_nr[count] = nr
}
function chain_line(nr, line) {
	if (section != "") { reject(nr, line, "belongs above the first [section]"); return }
	if (name != "chain") {
		if (value == "0") return
		value = name == "testnet" ? "test" : name
	}
	if (chain_nr && value != chain) {
		reject(nr, line, "the chain is set in line " chain_nr " already")
		return
	}
	if (!chain_nr) chain_nr = nr
	chain = value
}

# Windows editors leave a byte order mark and carriage returns, old ones carriage returns only.
{
	text = $0
	if (NR == 1) sub(/^\357\273\277/, "", text)
	sub(/\r$/, "", text)
	pieces = split(text, piece, "\r")
	if (!pieces) lines++
	for (p = 1; p <= pieces; p++) {
		if (piece[p] !~ /^[ \t]*$/) said = 1
		read_line(++lines, piece[p])
	}
}
