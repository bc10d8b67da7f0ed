#!/bin/sh
# In a bare Debian: unpacks /skein.tar.gz and runs hello as a plain user.
set -eu
. /try.sh
useradd --create-home --home-dir /home/ada ada
tar xzf /skein.tar.gz -C /home/ada --strip-components 1
[ "$(/home/ada/skein version | head -n 1 | cut -d ' ' -f 2)" = "$1" ]
try /home/ada/skein /home/ada ada:ada
echo "unpacked, ran hello"
