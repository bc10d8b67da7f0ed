#!/bin/sh
# Finishes the base root of the image, as a hook of mmdebstrap. The packages are only extracted: their scripts may be programs
# of another architecture, so none of them has run. Here is what they would have done that Skein and its tasks need.
#
#   finish-root.sh ROOT
set -eu
export LC_ALL=C
cd "$1"

# Accounts: those of Debian, and the user of deploy/Dockerfile.
cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
echo 'skein:x:999:999::/var/lib/skein:/bin/sh' >>etc/passwd
echo 'skein:x:999:' >>etc/group
install -d -o 999 -g 999 -m 700 var/lib/skein
for d in api db node password worker; do
	install -d -o 999 -g 999 -m 700 "run/skein/$d"
done

# Authorities, for GnuTLS (wget) and for OpenSSL (Python).
cat usr/share/ca-certificates/mozilla/*.crt >etc/ssl/certs/ca-certificates.crt
mkdir -p usr/lib/ssl
ln -sf /etc/ssl/certs/ca-certificates.crt usr/lib/ssl/cert.pem

rm -rf var/run var/lock
ln -s /run var/run
ln -s /run/lock var/lock
ln -sf mawk usr/bin/awk
ln -sf which.debianutils usr/bin/which

# A list of the packages for programs that look for known holes in images.
mkdir -p var/lib/dpkg/status.d
for deb in var/cache/apt/archives/*.deb; do
	dpkg-deb -f "$deb" >"var/lib/dpkg/status.d/$(dpkg-deb -f "$deb" Package)"
done

# Nothing of a host, and nothing that only a person at a terminal reads. Copyrights stay.
rm -f etc/hostname etc/resolv.conf
rm -rf usr/share/man usr/share/info usr/share/locale usr/share/lintian
find usr/share/doc -depth ! -type d ! -name copyright -delete
find usr/share/doc -depth -type d -empty -delete
