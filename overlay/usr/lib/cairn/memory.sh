# shellcheck shell=sh disable=SC2034 # its variable is for who sources it
# What earlier boots have noted in /var/lib/cairn. Sourced.
#
# remembered_private FILE    the names of the options that kept the node private (private)
# remembered_prune FILE      prune= that bitcoind came up with (prune.CHAIN)
# Both set remembered_line, "" if there is none. Status: 0 it is well formed; 1 there is no such
# file; 2 there is one, but not as Cairn writes it. Then something was known, which is not nothing:
# who asks has to be careful.

# CHARACTERS is a set for tr.
remembered() { # FILE CHARACTERS
	remembered_line=""
	[ -e "$1" ] || return 1
	IFS= read -r remembered_line 2>/dev/null <"$1" || remembered_line=""
	# one line of these and nothing else, with its end
	[ -n "$remembered_line" ] && [ "$(tr -d "$2" <"$1" | wc -c)" -eq 1 ] &&
		[ "$(wc -c <"$1")" -eq $((${#remembered_line} + 1)) ]
}

remembered_private() {
	remembered "$1" 'a-z0-9 -' && case $remembered_line in ' '* | *' ' | *'  '*) false ;; esac
	malformed $? "$1"
}

remembered_prune() {
	remembered "$1" 0-9 && [ "${#remembered_line}" -le 9 ] &&
		case $remembered_line in 0?*) false ;; esac
	malformed $? "$1"
}

malformed() { # STATUS FILE
	[ "$1" -ne 0 ] || return 0
	remembered_line=""
	[ -e "$2" ] || return 1
	return 2
}

# remembered_name FILE BASE    the name that this node took where another machine had BASE, that of
#                              node.conf. Sets remembered_name; status: 0 it is well formed and
#                              for this BASE
remembered_name() {
	remembered_name=""
	remembered "$1" 'A-Za-z0-9 -' || return 1
	case $remembered_line in "$2 "*) ;; *) return 1 ;; esac
	other_name "${remembered_line#"$2 "}" "$2" || return 1
	remembered_name=${remembered_line#"$2 "}
}

# other_name NAME BASE: may NAME stand for BASE? systemd-resolved puts a number in place of the
# digits at its end. More than four digits come from somebody who claims each name.
other_name() {
	stem=$2
	while :; do case $stem in *[0-9]) stem=${stem%?} ;; *) break ;; esac done
	case $1 in "$stem"*) ;; *) return 1 ;; esac
	[ "$1" != "$2" ] && [ "${#1}" -le 63 ] &&
		case ${1#"$stem"} in "" | 0* | *[!0-9]* | ?????*) false ;; esac
}
