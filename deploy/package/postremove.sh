#!/bin/sh
# Lets systemd forget the units.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
