# shellcheck shell=sh disable=SC2034,SC2154 # sourced by update.sh; root is its prefix of all paths
# Which way a download goes: not around what node.conf says of the network.

# update_host URL: its host in small letters, without user, port and the dot at the end
update_host() {
	printf '%s\n' "$1" | LC_ALL=C tr '[:upper:]' '[:lower:]' |
		sed 's,^[a-z]*://,,; s,[/?#].*,,; s,.*@,,; s,:[0-9]*$,,; s,\.$,,'
}

# update_record NAME: as node_record, but fails if the records cannot be read
update_record() { sed -n "s/^$1 //p" "$root/run/cairn/node-conf.records" 2>/dev/null; }

# update_socks ADDRESS: with the port that Core takes if there is none, as curl would take another,
# and an IPv6 address in brackets, which Core does not need
update_socks() {
	case $1 in
	\[*\]) echo "$1:9050" ;;
	\[*) echo "$1" ;;
	*:*:*) echo "[$1]:9050" ;;
	*:*) echo "$1" ;;
	*) echo "$1:9050" ;;
	esac
}

# update_proxy URL: sets proxy to what curl takes, "" for none; fails with a sentence in why where
# node.conf restricts the network in a way that a download would go around, or cannot be known to.
update_proxy() {
	proxy="" why=""
	host=$(update_host "$1")
	network="" options="" private=""
	if ! tor=$(update_record tor) || ! options=$(update_record option) ||
		! private=$(update_record private) || ! network=$(update_record network) ||
		[ -z "$network" ]; then
		why="node.conf was not read"
	elif [ "$network" = off ]; then
		why="the network is off, see node.conf"
	elif [ -n "$tor" ]; then
		proxy=socks5h://127.0.0.1:9050
		update_through_tor "$host" "$tor"
	else
		found=$(printf '%s\n' "$options" | sed -n 's/^[^ ]* proxy=//p')
		case $found in
		'') ;;
		*[!0-9A-Za-z.:\[\]-]* | unix:*) why="proxy= in node.conf is not one for everything" ;;
		*) proxy=socks5h://$(update_socks "$found") ;;
		esac
		# Those say who comes in, or what is shown at home.
		[ -z "$proxy$why" ] || private=""
		for name in $private; do
			case $name in
			chain | mdns | page | listen | bind | whitebind | discover | natpmp | listenonion) ;;
			*)
				why="the lines of node.conf restrict where the node goes ($name=),"
				why="$why and a download would not follow"
				;;
			esac
		done
	fi
	case $host in
	*.onion)
		[ -n "$proxy$why" ] || why="an address of Tor needs tor= or proxy= in node.conf"
		;;
	esac
	[ -z "$why" ]
}

# update_through_tor HOST TOR: sets why if Tor reaches no such host. With tor=only it has no exit
# (OnionTrafficOnly), and private addresses it refuses anyway.
update_through_tor() {
	case $2:$1 in
	*:*.onion) ;;
	only:*)
		why="with tor=only Tor reaches no address but those that end in .onion;"
		why="$why take a USB stick, or copy the file by scp"
		;;
	*:10.* | *:192.168.* | *:169.254.* | *:172.1[6-9].* | *:172.2?.* | *:172.3[01].* | *:127.* | \
		*:localhost | *.local | *:\[*)
		why="Tor reaches no address of the own network; take a USB stick, or copy the file by scp"
		;;
	esac
}
