#!/bin/sh
# Stops the units before the program is removed. An upgrade leaves them running: restart them when you choose.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now skein.service skein-server.service skein-worker.service || true
	elif command -v systemctl >/dev/null; then
		systemctl disable skein.service skein-server.service skein-worker.service || true
	fi
	;;
esac
