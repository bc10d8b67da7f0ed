#!/bin/sh
# In a bare Debian with rpm: installs /skein.rpm, checks its units, runs hello as the user skein, and removes it.
# Debian's own packages are not in the database of rpm, so what the package needs is compared by name.
set -eu
. /try.sh
rpm --initdb
files >/before
needs=$(rpm -qp --requires /skein.rpm 2>/dev/null | grep -v -E '^(rpmlib|/bin/sh)' | sort | tr '\n' ' ')
[ "$needs" = "shadow-utils util-linux " ] || { echo "it needs '$needs', want shadow-utils and util-linux"; exit 1; }
rpm -i --nodeps /skein.rpm
[ "$(skein version | head -n 1 | cut -d ' ' -f 2)" = "$1" ]
systemd-analyze verify /usr/lib/systemd/system/skein*.service
install -d -o skein -g skein -m 700 /var/lib/skein
try /usr/bin/skein /var/lib/skein skein:skein
rpm -e skein
files >/after
nothing_left /before /after
echo "installed, verified, ran hello, removed without leftovers"
