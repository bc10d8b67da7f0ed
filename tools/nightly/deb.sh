#!/bin/sh
# In a bare Debian: installs /skein.deb, checks its units, runs hello as the user skein, and removes it.
set -eu
. /try.sh
files >/before
dpkg -i /skein.deb
[ "$(skein version | head -n 1 | cut -d ' ' -f 2)" = "$1" ]
systemd-analyze verify /usr/lib/systemd/system/skein*.service
systemd-tmpfiles --create /usr/lib/tmpfiles.d/skein.conf
install -d -o skein -g skein -m 700 /var/lib/skein
try /usr/bin/skein /var/lib/skein skein:skein
dpkg -r skein
[ -e /etc/skein/skein.env ] || { echo "a removal took the settings"; exit 1; }
dpkg -P skein
rm -rf /var/lib/skein-tmp
files >/after
nothing_left /before /after
echo "installed, verified, ran hello, removed without leftovers"
