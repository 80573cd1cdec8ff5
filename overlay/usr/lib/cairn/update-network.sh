# shellcheck shell=sh disable=SC2034,SC2154 # sourced by update.sh; root is its prefix of all paths
# Which way a download goes: not around what node.conf says of the network.

# update_host URL: its host in small letters, without user, port and the dot at the end
update_host() {
	printf '%s\n' "$1" | LC_ALL=C tr '[:upper:]' '[:lower:]' |
		sed 's,^[a-z]*://,,; s,[/?#].*,,; s,.*@,,; s,:[0-9]*$,,; s,\.$,,'
}

# update_proxy URL: sets proxy to what curl takes, "" for none; fails with a sentence in why where
# node.conf restricts the network in a way that a download would go around.
update_proxy() {
	proxy="" why=""
	host=$(update_host "$1")
	tor=$(node_record "$root" tor)
	if [ ! -s "$root/run/cairn/node-conf.records" ]; then
		why="node.conf was not read"
	elif [ "$(node_record "$root" network)" = off ]; then
		why="the network is off, see node.conf"
	elif [ -n "$tor" ]; then
		proxy=socks5h://127.0.0.1:9050
		update_through_tor "$host" "$tor"
	else
		found=$(node_record "$root" option | sed -n 's/^[^ ]* proxy=//p')
		case $found in
		'') ;;
		*[!0-9A-Za-z.:\[\]-]* | unix:*) why="proxy= in node.conf is not one for everything" ;;
		*) proxy=socks5h://$found ;;
		esac
		# Those say who comes in, or what is shown at home.
		private=""
		[ -n "$proxy$why" ] || private=$(node_record "$root" private)
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
