#!/bin/sh
# Makes the release in dist/ again and compares it byte by byte: in another folder, later, in another time zone and with other
# permissions of new files. If this is root, also as another user. Only the base root of the image is taken from the release, as
# everybody can: the packages of Debian that it has may be gone.
#
#   again.sh VERSION [ONLY]
set -eu
cd "$(dirname "$0")/../.."
top=$PWD version=$1 only=${2:-}
[ -s dist/SHA256SUMS ] || { echo "there is no release in dist/: run make release first"; exit 1; }
[ -z "$(git status --porcelain)" ] || { echo "the work tree has files that are not committed: commit them, then make the release"; exit 1; }
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

git clone -q --no-hardlinks "$top" "$work/other"
[ ! -e "dist/skein_${version}_oci.tar" ] ||
	(cd tools/release && GOWORK=off go run . -roots-of "$top/dist/skein_${version}_oci.tar" -base "$work/roots")

# The modules come from the cache of this user, by links: the other one cannot read it. npm asks its registry again.
proxy=$(go env GOPROXY)
if cp -al "$(go env GOMODCACHE)/cache/download" "$work/modules" 2>/dev/null; then
	proxy=file://$work/modules,$proxy
fi
mkdir "$work/home"
chmod 755 "$work"
as=
if [ "$(id -u)" = 0 ]; then
	chown -R 65534:65534 "$work/other" "$work/home"
	[ ! -e "$work/roots" ] || chown -R 65534:65534 "$work/roots"
	as="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
umask 077
(cd "$work/other" && $as env -u CI -u SKEIN_RELEASE_KEY -u GOFLAGS HOME="$work/home" GOENV=off GOPROXY="$proxy" GOMODCACHE="$work/home/modules" \
	GOCACHE="$work/home/cache" TMPDIR="$work/home" TZ=Pacific/Auckland LC_ALL=C npm_config_cache="$work/home/npm" \
	make release VERSION="$version" ONLY="$only" ROOTS="$work/roots" SIGN=)

differ=0 same=0
while read -r _ name; do
	if cmp "dist/$name" "$work/other/dist/$name"; then same=$((same + 1)); else differ=$((differ + 1)); fi
done <dist/SHA256SUMS
cmp dist/SHA256SUMS "$work/other/dist/SHA256SUMS" || differ=$((differ + 1))
echo "$same files are equal, $differ differ"
[ "$differ" = 0 ]
