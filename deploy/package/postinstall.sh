#!/bin/sh
# Makes the user under which the units run. Nothing is started: enable the unit that you want.
set -e
if ! getent passwd skein >/dev/null; then
	group="--user-group"
	if getent group skein >/dev/null; then
		group="--gid skein"
	fi
	useradd --system $group --home-dir /var/lib/skein --no-create-home --shell /usr/sbin/nologin skein
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
