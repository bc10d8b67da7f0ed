# Sourced in a bare Debian: tries the program at $1 as a user, from the home folder $2.

# try PROGRAM HOME USER: a node starts, hello runs through it and ends, and the node stops on a signal.
try() {
	program=$1 home=$2 user=$3
	as() { chroot --userspec="$user" / env -i HOME="$home" PATH=/usr/bin:/bin SKEIN_DATA="$home/data" "$@"; }
	# Not by as: a function in the background is a shell, and a signal would reach it instead of the node.
	chroot --userspec="$user" / env -i HOME="$home" PATH=/usr/bin:/bin SKEIN_DATA="$home/data" "$program" dev >/node.log 2>&1 &
	for i in $(seq 300); do
		as "$program" workflow list 2>/dev/null | grep -q hello && break # the examples are loaded after the start
		sleep 0.1
	done
	as "$program" run hello -p who=nightly --follow >/run.log 2>&1 || {
		cat /node.log /run.log
		echo "skein run hello failed"
		exit 1
	}
	grep -q nightly /run.log || { cat /run.log; echo "hello printed nothing"; exit 1; }
	as "$program" verify >/run.log 2>&1 || { cat /run.log; echo "skein verify failed"; exit 1; }
	kill -TERM $!
	wait $! || { cat /node.log; echo "the node ended with an error"; exit 1; }
	rm -f /node.log /run.log
}

# files lists all files but those that any package manager, or a program that ran, may change.
files() {
	find / -xdev \( -path /proc -o -path /dev -o -path /tmp -o -path /run -o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /root/.rpmdb \
		-o -path /var/log -o -path /var/cache \) -prune -o -print | sort
}

# nothing_left FROM UNTIL: a removed package left nothing but its user, and the data folder, which belongs to the operator.
nothing_left() {
	left=$(comm -13 "$1" "$2" | grep -v -E '^/(before|after)$|^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|^/etc/\.pwd\.lock$|^/var/lib/skein(/|$)' || true)
	[ -z "$left" ] || { echo "left after the removal: $left" | tr '\n' ' '; echo; exit 1; }
}
