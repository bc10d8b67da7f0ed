#!/bin/sh
# Runs what is too long for each change, prints one table, and fails if a step failed.
#
#   tools/nightly/run.sh [STEP...]        without a step: all of them; make nightly STEPS='deb rpm'
#
# Each step has a log in dist/nightly. A step whose tool or right is missing is skipped with the name of what is missing; if CI=true
# it fails instead.
set -u
cd "$(dirname "$0")/../.."
top=$PWD
out=$top/dist/nightly
version=${VERSION:-0.0.0}
all="release again module size deb rpm tar image soak kills chaos clusters networks patroni year screenshots"
steps=${*:-$all}
missed=3 # the exit status of a step that cannot run here

missing() {
	echo "skipped: $*"
	exit $missed
}

needs() {
	for tool; do
		command -v "$tool" >/dev/null || missing "it needs $tool"
	done
}

# The release that the other steps try. Its folder is made again, so the logs wait elsewhere until it is there.
# Without a key of yours (SIGN, or SKEIN_RELEASE_KEY), it is signed with a key that is made for this run.
step_release() {
	if [ -z "${SIGN:-}${SKEIN_RELEASE_KEY:-}" ]; then
		needs ssh-keygen
		keys=$(mktemp -d)
		trap 'rm -rf "$keys"' EXIT
		ssh-keygen -q -t ed25519 -N '' -C nightly -f "$keys/key" || exit 1
		echo "packages@skein.dev namespaces=\"skein-release\" $(cat "$keys/key.pub")" >"$keys/allowed_signers"
		SIGN=$keys/key SIGNERS=$keys/allowed_signers
	fi
	make release VERSION="$version" ROOTS="${ROOTS:-}" ONLY="${ONLY:-}" SIGN="${SIGN:-}" SIGNERS="${SIGNERS:-}"
}

# The same release once more, elsewhere, must have the same bytes.
step_again() {
	needs git
	tools/nightly/again.sh "$version" "${ONLY:-}"
}

step_module() {
	(export GOWORK=off && cd tools/release && go vet ./... && go test -count 1 ./...)
}

# The bounds of the program: 48 MB (10^6 bytes) with its page, and 0.3 s until it answers.
step_size() {
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	tar xzf dist/skein_"$version"_linux_"$(go env GOARCH)".tar.gz -C "$folder" --strip-components 1 || exit 1
	bytes=$(stat -c %s "$folder/skein")
	python3 tools/nightly/start.py "$folder/skein" 0.3 || exit 1
	[ "$bytes" -le 48000000 ] || { echo "the program has $bytes bytes, more than 48,000,000"; exit 1; }
	echo "the program has $bytes bytes"
}

# A small Debian, made once for all steps, with what the packages need, and rpm.
bare() {
	[ "$(id -u)" = 0 ] || missing "it needs to be root, for a root folder of its own"
	needs mmdebstrap unshare chroot
	base=${TMPDIR:-/tmp}/skein-nightly-$(id -u)-$$.tar
	[ -s "$NIGHTLY_BASE" ] || {
		mmdebstrap --quiet --variant=minbase --include=systemd,procps,rpm bookworm "$base" || exit 1
		mv "$base" "$NIGHTLY_BASE"
	}
	root=$(mktemp -d)
	trap 'rm -rf --one-file-system "$root"' EXIT
	tar xf "$NIGHTLY_BASE" -C "$root" --exclude './dev/*' || exit 1
}

# Runs a script of tools/nightly in the root, in namespaces of its own: when it ends, so does all that it has started.
within() {
	cp "tools/nightly/$1" tools/nightly/try.sh "$root/"
	shift_to=$1
	shift
	unshare --mount --pid --fork --kill-child --propagation private sh -c '
		set -e
		mount --bind "$0" "$0"
		cd "$0"
		mkdir -p proc dev
		mount -t proc proc proc
		mount -t tmpfs -o mode=755 tmpfs dev
		for d in null zero full random urandom tty; do touch dev/$d; mount --bind /dev/$d dev/$d; done
		ln -s /proc/self/fd dev/fd
		mkdir dev/shm && chmod 1777 dev/shm
		exec chroot . "$@"' "$root" /bin/sh "/$shift_to" "$@"
}

step_deb() {
	bare
	cp dist/skein_"$version"_"$(go env GOARCH)".deb "$root/skein.deb" || exit 1
	within deb.sh "$version"
}

step_rpm() {
	bare
	cp dist/skein-"$version"-1."$(uname -m)".rpm "$root/skein.rpm" || exit 1
	within rpm.sh "$version"
}

step_tar() {
	bare
	cp dist/skein_"$version"_linux_"$(go env GOARCH)".tar.gz "$root/skein.tar.gz" || exit 1
	within tar.sh "$version"
}

# The image: loaded, its version, a node, a run through it, and an end within the drain.
step_image() {
	needs podman
	file=dist/skein_"$version"_oci.tar
	[ -e "$file" ] || missing "there is no $file"
	sh tools/nightly/image.sh "$file" "$version" "$top/examples"
}

step_soak() { make soak SEEDS="${SEEDS:-1000000}"; }
step_kills() { make kills KILLS="${KILLS:-1000}"; }
step_chaos() { make chaos SPAN="${SPAN:-10m}"; }
step_clusters() { make clusters; }
step_networks() { make networks SPAN="${SPAN:-10m}"; }
step_patroni() { make patroni ROUNDS="${ROUNDS:-5}"; }
step_year() { make year YEAR="${YEAR:-1000x365}"; }
step_screenshots() { make screenshots; }

# One step, in a process of its own.
if [ "${NIGHTLY_STEP:-}" ]; then
	"step_$NIGHTLY_STEP"
	exit
fi

for step in $steps; do
	case " $all " in
	*" $step "*) ;;
	*) echo "nightly: there is no step $step; there are: $all" >&2; exit 2 ;;
	esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export NIGHTLY_BASE="${NIGHTLY_BASE:-$work/base.tar}"
failed=0
: >"$work/table"
for step in $steps; do
	echo "nightly: $step" >&2
	from=$(date +%s)
	NIGHTLY_STEP=$step sh "$top/tools/nightly/run.sh" >"$work/$step.log" 2>&1
	status=$?
	took=$(($(date +%s) - from))
	last=$(tail -n 1 "$work/$step.log" | cut -c 1-100)
	case $status in
	0) word=ok ;;
	"$missed")
		word=skipped
		[ "${CI:-}" = true ] && failed=1
		;;
	*)
		word=FAILED failed=1
		tail -n 40 "$work/$step.log" >&2
		;;
	esac
	printf '%-12s %-8s %6d s  %s\n' "$step" "$word" "$took" "$last" >>"$work/table"
	mkdir -p "$out" && cp "$work/$step.log" "$out/"
done
cat "$work/table"
exit $failed
