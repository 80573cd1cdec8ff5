# What cairn-status has collected, one "NAME TEXT" a line, becomes status.json.new,
# metrics.new, index.html.new and history.new in the folder $FOLDER; $PAGE is the template. After
# cairn-status-json.awk and cairn-status-text.awk. POSIX awk; must run under busybox and mawk.
#
# Numbers and words of known form only go into JSON and metrics as they are; all other text passes
# json() or html(), whoever has written it.

BEGIN {
	# Points of a plot that are kept: a plot is about as many pixels wide on a phone.
	most_points = 240
	step = 30 # s between two points; doubles when they are too many
	pool_step = 300 # s: 240 points are 20 hours
	most_blocks = 144 # a day's
	window = 3600 # s, of which the rest of the sync is estimated
	rest = ""
}
{
	tag = $1
	rest = substr($0, length(tag) + 2)
}
tag == "set" {
	name = $2
	fact[name] = substr(rest, length(name) + 2)
	next
}
tag == "unit" {
	at = index(rest, "=")
	unit[substr(rest, 1, at - 1)] = substr(rest, at + 1)
	next
}
tag == "chain" && field(2, rest) { chain[key] = value; next }
tag == "error" { if (rest ~ /^error code: -28/) warm = 1; last_error = rest; next }
tag == "peer" && rest == "  {" { peers++; next }
tag == "peer" && field(4, rest) {
	if (key == "network") by_network[value ~ /^(ipv4|ipv6|onion|i2p|cjdns)$/ ? value : "other"]++
	if (key == "inbound" && value == "true") peers_in++
	next
}
tag == "mempool" && field(2, rest) { pool[key] = value; next }
tag == "network" && field(2, rest) { net[key] = value; next }
tag == "header" && rest == "{" { headers_got++; next }
tag == "header" && field(2, rest) { head[headers_got, key] = value; next }
tag == "health" {
	if (field(2, rest)) machine[key] = value
	else if (rest ~ /"data": true,/ && match(rest, /"life_used_percent": [0-9]+/))
		wear = substr(rest, RSTART + 21, RLENGTH - 21)
	next
}
tag == "wallet" {
	if (wallet_lines < 60) wallet_line[++wallet_lines] = substr(rest, 1, 300)
	next
}
tag == "report" { report[++reports] = substr(rest, 1, 600); next }
tag == "warning" { warning[++warnings] = plain(substr(rest, 1, 600)); next }
tag == "history" {
	if ($2 == "chain") old_chain = $3
	else if ($2 == "step" && whole($3) && $3 > 0) step = $3
	else if ($2 == "known" && NF == 4 && whole($3) && whole($4)) {
		known["blocks"] = $3; known["headers"] = $4
	} else if ($2 == "progress" && NF == 5 && whole($3) && whole($4) && whole($5)) {
		points++
		point_at[points] = $3; point_blocks[points] = $4; point_part[points] = $5
	} else if ($2 == "block" && NF == 6) old_block[++old_blocks] = $3 " " $4 " " $5 " " $6
	else if ($2 == "mempool" && NF == 5 && whole($3) && whole($4) && whole($5)) {
		pools++
		pool_at[pools] = $3; pool_count[pools] = $4; pool_bytes[pools] = $5
	}
	next
}

function max(a, b) { return a > b ? a : b }
function find_state() {
	active = unit["ActiveState"]; sub_state = unit["SubState"]
	answered = fact["answers"] == "yes" && whole(chain["blocks"])
	blocks = answered ? chain["blocks"] + 0 : 0
	headers = answered ? max(chain["headers"] + 0, blocks) : 0
	progress = answered && decimal(chain["verificationprogress"]) ? \
		chain["verificationprogress"] + 0 : 0
	if (progress > 1 || progress < 0) progress = progress < 0 ? 0 : 1
	warned = reports + warnings > 0
	if (answered) {
		if (chain["initialblockdownload"] == "true") {
			state = fact["rebuilding"] == "yes" ? "rebuilding" : "syncing"
		} else state = headers - blocks > 2 ? "behind" : "tip"
	} else if (active == "activating" && sub_state != "auto-restart") {
		state = "starting"
		gsub(/\?+/, "...", last_error)
		# before RPC is there, bitcoin-cli's own advice, which helps nobody here
		if (warm) detail = substr(last_error, 1, 66)
		sub(/\.+$/, "...", detail); sub(/\.\.\.$/, "", detail)
	} else if ("measuring" in fact) {
		state = "measuring"
		detail = fact["measuring"] == "writing" ? "writing" : "reading"
	} else if (active == "deactivating") state = "stopping"
	else if (active == "active" && (fact["answers"] == "later" || fact["answers"] == "late"))
		state = "busy"
	else state = "stopped"
	if (active !~ /^[a-z-]+$/) active = "unknown"
	if (sub_state !~ /^[a-z-]+$/) sub_state = "unknown"
}

# -- history: what the plots show ------------------------------------------------------------
function keep_history(    i, n, now, low, tip, parts, last) {
	now = fact["uptime_seconds"] + 0
	if (answered && old_chain != "" && old_chain != chain["chain"])
		points = pools = old_blocks = 0
	if (answered) { known["blocks"] = blocks; known["headers"] = headers; old_chain = chain["chain"] }
	# A rebuild begins at block 0 again, and a reboot leaves no history at all.
	if (answered && points && (blocks < point_blocks[points] - 100 || now < point_at[points]))
		points = 0
	last = points ? point_at[points] : -step
	if (answered && (state == "syncing" || state == "rebuilding" || state == "behind" ||
		(points && point_part[points] < 999999000)) && now - last >= step) {
		points++
		point_at[points] = now; point_blocks[points] = blocks
		point_part[points] = sprintf("%.0f", progress * 1e9)
	}
	if (points > most_points) {
		for (i = n = 1; i <= points; i += 2) {
			point_at[n] = point_at[i]; point_blocks[n] = point_blocks[i]
			point_part[n++] = point_part[i]
		}
		points = n - 1
		step *= 2
	}
	if (whole(pool["size"]) && whole(pool["usage"]) &&
		(!pools || now - pool_at[pools] >= pool_step || now < pool_at[pools])) {
		pools++
		pool_at[pools] = now; pool_count[pools] = pool["size"]; pool_bytes[pools] = pool["usage"]
	}
	pool_first = max(1, pools - most_points + 1)

	# The newest first, each the predecessor of the one before; a reorganisation drops the old ones.
	for (i = 1; i <= headers_got; i++) {
		if (!whole(head[i, "height"]) || !whole(head[i, "time"]) || !whole(head[i, "nTx"]) ||
			head[i, "hash"] !~ /^[0-9a-f]+$/) break
		block_hash[++kept] = head[i, "hash"]; block_height[kept] = head[i, "height"]
		block_time[kept] = head[i, "time"]; block_txs[kept] = head[i, "nTx"]
		tip = head[i, "previousblockhash"]
		low = head[i, "height"]
	}
	if (!kept && answered) tip = chain["bestblockhash"]
	for (i = 1; i <= old_blocks && kept < most_blocks; i++) {
		split(old_block[i], parts, " ")
		if (answered && tip != "" && parts[1] != tip) continue
		tip = ""
		if (kept && parts[2] != block_height[kept] - 1) break
		if (parts[1] !~ /^[0-9a-f]+$/ || !whole(parts[2]) || !whole(parts[3]) || !whole(parts[4]))
			break
		block_hash[++kept] = parts[1]; block_height[kept] = parts[2]
		block_time[kept] = parts[3]; block_txs[kept] = parts[4]
	}
}
# Seconds until the end of the sync, by the speed of the last hour, or null
function estimate(    i, now, part) {
	if (state != "syncing" && state != "rebuilding") return "null"
	now = fact["uptime_seconds"] + 0
	for (i = 1; i < points - 3 && point_at[i] < now - window; i++);
	if (!points || now - point_at[i] < 120) return "null"
	part = progress - point_part[i] / 1e9
	if (part <= 0) return "null"
	i = (1 - progress) * (now - point_at[i]) / part
	return i < 1e9 ? sprintf("%.0f", i) : "null"
}
function save(file,    i) {
	printf "" >file
	if (old_chain ~ /^[a-z0-9]+$/) print "chain " old_chain >file
	print "step " step >file
	if (whole(known["blocks"] "")) print "known " known["blocks"] " " known["headers"] >file
	for (i = 1; i <= points; i++)
		print "progress " point_at[i] " " point_blocks[i] " " point_part[i] >file
	for (i = pool_first; i <= pools; i++)
		print "mempool " pool_at[i] " " pool_count[i] " " pool_bytes[i] >file
	for (i = 1; i <= kept; i++) print "block " block_hash[i] " " block_height[i] " " \
		block_time[i] " " block_txs[i] >file
	close(file)
}

# -- the three files -------------------------------------------------------------------------
# put NAME VALUE: one key a line, as node-status reads it
function put(name, value) { print "  \"" name "\": " value "," >out }
function list(name, values, n,    i) {
	print "  \"" name "\": [" (n ? "" : "],") >out
	for (i = 1; i <= n; i++) print "    " json(values[i]) (i < n ? "," : "") >out
	if (n) print "  ]," >out
}
function kib_bytes(kib) { return whole(kib) ? sprintf("%.0f", kib * 1024) : "null" }
function known_number(text) { return decimal(text) ? text + 0 : "null" }
function mib(text) { return text ~ /^[0-9]+$/ && length(text) < 12 ? text + 0 "" : "null" }
function write_json(file,    i, j) {
	out = file
	print "{" >out
	put("schema", 1)
	put("uptime_seconds", count(fact["uptime_seconds"]))
	put("time", count(fact["time"]))
	put("hostname", json(shown["hostname"]))
	put("state", json(state))
	put("sentence", json(shown["sentence"]))
	put("detail", string(detail))
	put("service", json(active))
	put("service_state", json(sub_state))
	put("service_text", string(substr(unit["StatusText"], 1, 200)))
	put("chain", answered && chain["chain"] ~ /^[a-z0-9]+$/ ? json(chain["chain"]) : "null")
	put("pruned", answered ? flag(chain["pruned"]) : "null")
	put("initial_sync", answered ? flag(chain["initialblockdownload"]) : "null")
	put("blocks", answered ? blocks : "null")
	put("headers", answered ? headers : "null")
	put("progress", answered ? sprintf("%.6f", progress) : "null")
	put("seconds_left", left)
	put("block_files_bytes", answered ? count(chain["size_on_disk"]) : "null")
	put("peers", answered ? peers + 0 : "null")
	put("peers_in", answered ? peers_in + 0 : "null")
	for (i = 1; i <= n_networks; i++)
		put("peers_" networks[i], answered ? by_network[networks[i]] + 0 : "null")
	put("mempool_transactions", count(pool["size"]))
	put("mempool_bytes", count(pool["usage"]))
	put("mempool_limit_bytes", count(pool["maxmempool"]))
	put("mempool_fee_sat_per_vbyte", decimal(pool["mempoolminfee"]) ? \
		sprintf("%.3f", pool["mempoolminfee"] * 100000) : "null")
	put("data_size_bytes", kib_bytes(fact["data_size_kib"]))
	put("data_free_bytes", kib_bytes(fact["data_free_kib"]))
	put("data_life_used_percent", count(wear))
	put("memory_size_bytes", kib_bytes(fact["memory_size_kib"]))
	put("memory_available_bytes", kib_bytes(fact["memory_available_kib"]))
	put("temperature_celsius", known_number(machine["temperature_celsius"]))
	put("undervoltage_now", flag(machine["undervoltage_now"]))
	put("undervoltage_since_boot", flag(machine["undervoltage_since_boot"]))
	put("throttled_now", flag(machine["throttled_now"]))
	put("unclean_shutdowns", count(machine["unclean_shutdowns"]))
	put("written_bytes", count(machine["written_bytes"]))
	put("written_bytes_last_day", count(machine["written_bytes_last_day"]))
	put("prune_mib", mib(fact["prune"]))
	put("dbcache_mib", mib(fact["dbcache"]))
	put("par", fact["par"] ~ /^-?[0-9]+$/ && length(fact["par"]) < 6 ? fact["par"] + 0 : "null")
	put("version", string(fact["version"]))
	put("core_version", string(net["subversion"]))
	put("kernel_version", string(fact["kernel_version"]))
	list("warnings", warning, warnings)
	list("reports", report, reports)
	print "  \"wallet\": [" >out
	for (i = 1; i <= ways; i++) {
		print "    {\"title\": " json(way[i]) ", \"steps\": [" >out
		for (j = 1; j <= steps[i]; j++)
			print "      " json(step_of[i, j]) (j < steps[i] ? "," : "") >out
		print "    ]}" (i < ways ? "," : "") >out
	}
	print "  ]," >out
	print "  \"text\": {" >out
	for (i = 1; i <= texts; i++)
		print "    " json(order[i]) ": " json(shown[order[i]]) (i < texts ? "," : "") >out
	print "  }," >out
	print "  \"history\": {" >out
	printf "    \"progress\": [" >out
	for (i = 1; i <= points; i++) printf "%s[%s, %s, %.6f]", (i > 1 ? ", " : ""), point_at[i], \
		point_blocks[i], point_part[i] / 1e9 >out
	printf "],\n    \"blocks\": [" >out
	for (i = 1; i <= kept; i++) printf "%s[%s, %s, %s]", (i > 1 ? ", " : ""), block_height[i], \
		block_time[i], block_txs[i] >out
	printf "],\n    \"mempool\": [" >out
	for (i = pool_first; i <= pools; i++) printf "%s[%s, %s, %s]", (i > pool_first ? ", " : ""), \
		pool_at[i], pool_count[i], pool_bytes[i] >out
	print "]\n  }\n}" >out
	close(out)
}

# metric NAME HELP VALUE [LABELS]; nothing of what is not known
function metric(name, help, value, labels) {
	if (value == "" || value == "null") return
	if (value == "true" || value == "false") value = value == "true" ? 1 : 0
	if (name != last_metric) {
		print "# HELP cairn_" name " " help >out
		print "# TYPE cairn_" name " gauge" >out
	}
	last_metric = name
	print "cairn_" name labels, value >out
}
function write_metrics(file,    i, all) {
	out = file
	last_metric = ""
	metric("uptime_seconds", "Seconds since the boot.", count(fact["uptime_seconds"]))
	for (i = 1; i <= n_states; i++) metric("state", "What the node does: 1 for one of them.", \
		state == states[i] ? 1 : 0, "{state=\"" states[i] "\"}")
	if (answered) {
		metric("blocks", "Height of the chain.", blocks)
		metric("headers", "Height of the best known header.", headers)
		metric("progress_ratio", "Verified part of the chain, estimated by Core.", \
			sprintf("%.6f", progress))
		metric("initial_sync", "1 in the initial sync.", flag(chain["initialblockdownload"]))
		metric("block_files_bytes", "Size of the block files.", count(chain["size_on_disk"]))
		for (i = 1; i <= n_networks; i++) metric("peers", "Connected peers.", \
			by_network[networks[i]] + 0, "{network=\"" networks[i] "\"}")
		metric("peers_in", "Peers that have connected to this node.", peers_in + 0)
	}
	metric("sync_left_seconds", "Estimated rest of the initial sync.", left)
	metric("mempool_transactions", "Transactions in the mempool.", count(pool["size"]))
	metric("mempool_bytes", "Memory that the mempool uses.", count(pool["usage"]))
	metric("mempool_limit_bytes", "Memory that it may use.", count(pool["maxmempool"]))
	metric("data_size_bytes", "Size of the data partition.", kib_bytes(fact["data_size_kib"]))
	metric("data_free_bytes", "Free space of the data partition.", kib_bytes(fact["data_free_kib"]))
	metric("data_life_used_percent", "Wear of the data disk, at most.", count(wear))
	metric("memory_size_bytes", "Memory.", kib_bytes(fact["memory_size_kib"]))
	metric("memory_available_bytes", "Memory that is available.", \
		kib_bytes(fact["memory_available_kib"]))
	metric("temperature_celsius", "Of the processor.", known_number(machine["temperature_celsius"]))
	metric("undervoltage_since_boot", "1: the supply was too weak.", \
		flag(machine["undervoltage_since_boot"]))
	metric("throttled_now", "1: the processor is slowed down.", flag(machine["throttled_now"]))
	metric("unclean_shutdowns", "Since counting began.", count(machine["unclean_shutdowns"]))
	metric("written_bytes", "To the data disk since counting began.", \
		count(machine["written_bytes"]))
	metric("warnings", "Sentences on the page.", warnings + reports)
	close(out)
}

# {{NAME}} in the template is a text of that name; a line {{*NAME}} is a list.
function items(values, n,    i) {
	for (i = 1; i <= n; i++) print "<li>" html(values[i]) "</li>" >out
}
function wallet_items(    i, j) {
	for (i = 1; i <= ways; i++) {
		print "<h3>" html(way[i]) "</h3>\n<ol>" >out
		for (j = 1; j <= steps[i]; j++) print "<li>" html(step_of[i, j]) "</li>" >out
		print "</ol>" >out
	}
}
function block_rows(    i, minutes) {
	for (i = 1; i <= kept && i <= 10; i++) {
		minutes = i < kept ? sprintf("%.1f", (block_time[i] - block_time[i + 1]) / 60) : ""
		print "<tr><td>" grouped(block_height[i]) "</td><td>" minutes "</td><td>" \
			grouped(block_txs[i]) "</td></tr>" >out
	}
}
function write_page(file,    line, at, end, name) {
	out = file
	printf "" >out
	while ((getline line < ENVIRON["PAGE"]) > 0) {
		if (line ~ /^ *\{\{\*[a-z]+\}\}$/) {
			if (line ~ /warnings/) { items(warning, warnings); items(report, reports) }
			else if (line ~ /wallet/) wallet_items()
			else if (line ~ /blocks/) block_rows()
			continue
		}
		while ((at = index(line, "{{"))) {
			end = index(line, "}}")
			if (end < at) break
			name = substr(line, at + 2, end - at - 2)
			printf "%s%s", substr(line, 1, at - 1), html(shown[name]) >out
			line = substr(line, end + 2)
		}
		print line >out
	}
	close(out)
}

END {
	n_networks = split("ipv4 ipv6 onion i2p cjdns other", networks, " ")
	n_states = split("starting measuring syncing rebuilding behind tip busy stopping stopped", \
		states, " ")
	find_state()
	data_size = whole(fact["data_size_kib"]) ? fact["data_size_kib"] * 1024 : 0
	data_free = whole(fact["data_free_kib"]) ? fact["data_free_kib"] * 1024 : 0
	if (answered && !peers && fact["uptime_seconds"] + 0 >= 300) warning[++warnings] = \
		fact["tor"] == "" ? "The node has no connection to other nodes; check the network cable," \
		" the router, and what node.conf says about the network." : \
		"The node has no connection to other nodes; check the network cable, the router and the" \
		" clock, without which Tor does not connect; journalctl -u cairn-tor has Tor's words."
	if (data_size && data_free < 1e9) warning[++warnings] = \
		"Little room is left on the data disk (" size(data_free) "); keep fewer blocks with prune=" \
		" in node.conf (0 keeps all, 550 the fewest) or use a larger disk."
	keep_history()
	left = estimate()
	texts_of_all()
	ways_to_connect()
	write_json(ENVIRON["FOLDER"] "/status.json.new")
	write_metrics(ENVIRON["FOLDER"] "/metrics.new")
	write_page(ENVIRON["FOLDER"] "/index.html.new")
	save(ENVIRON["FOLDER"] "/history.new")
}

# A step of a way; %h in it is the node, by the name that it announces
function add_step(text,    at, node) {
	if (steps[ways] >= 20) return
	node = fact["mdns"] == "yes" ? shown["hostname"] ".local" : "NODE"
	if (at = index(text, "%h")) {
		text = substr(text, 1, at - 1) node substr(text, at + 2)
		if (node == "NODE") text = text ", where NODE is the node's address"
	}
	step_of[ways, ++steps[ways]] = text
}
# main, too, as long as the daemon has not said which
function of_chain() { return chain["chain"] in p2p_port ? chain["chain"] : "main" }
# Without a file wallet.steps: what docs/use/wallet.md says
function ways_to_connect(    i, port) {
	for (i = 1; i <= wallet_lines; i++) {
		if (wallet_line[i] ~ /^= ./) way[++ways] = substr(wallet_line[i], 3)
		else if (ways && wallet_line[i] != "") add_step(wallet_line[i])
	}
	if (!ways) default_ways()
	# With tor= peers come in by the onion address only. A wallet's library that was tried (neutrino)
	# takes headers only from nodes with all blocks.
	if (fact["peerblockfilters"] != "1" || fact["listen"] == "0" || fact["tor"] != "" ||
		fact["prune"] != "0") return
	way[++ways] = "Compact block filters, for wallets that know BIP157 and ask no RPC"
	port = whole(fact["port"]) ? fact["port"] : p2p_port[of_chain()]
	add_step("In the wallet, name this node as its peer: port " port " of %h")
}
function default_ways(    port) {
	port = rpc_port[of_chain()]
	way[ways = 1] = "Through SSH, for wallets that use Bitcoin Core (Sparrow, Specter)"
	if (fact["ssh"] != "yes") add_step("Put your SSH key into node.conf on the card" \
		" (walletkey=) and start the node again. Without a key nobody can log in.")
	else {
		add_step("Let wallets in: write walletaccess=rpc and walletshow=1 into node.conf on" \
			" the card, and start the node again. Its screen then shows a password.")
		add_step("On your computer, open this connection and leave it open: ssh -N -L " \
			port ":127.0.0.1:" port " root@%h")
		add_step("In the wallet, choose Bitcoin Core as the server, with address 127.0.0.1 and" \
			" port " port ", and the user and password from the screen.")
	}
}
