#!/bin/sh
# Loads an image into podman and tries it without a network: image.sh ARCHIVE VERSION EXAMPLES
set -eu
image=localhost/skein:$2
name=skein-nightly-$$
# Control groups, a network and higher limits may be out of reach on a small machine; the image needs none of them.
flags="--network none --cgroups disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096"
# crun refuses a machine that has both versions of control groups, even if it shall use none: it gets one without the second.
if [ -d /sys/fs/cgroup/unified ] && [ -z "${SKEIN_WITHOUT_CGROUP2:-}" ]; then
	export SKEIN_WITHOUT_CGROUP2=1
	exec unshare --mount sh -c 'umount /sys/fs/cgroup/unified && exec sh "$0" "$@"' "$0" "$@"
fi
trap 'podman rm -f "$name" >/dev/null 2>&1; podman rmi -f "$image" >/dev/null 2>&1' EXIT
podman load -q -i "$1"
podman run --rm $flags "$image" version
[ "$(podman run --rm $flags "$image" version | head -n 1 | cut -d ' ' -f 2)" = "$2" ]
# As compose.yaml and the chart start it: a read-only root, no capability.
podman run -d --name "$name" $flags --read-only --cap-drop ALL --security-opt no-new-privileges --tmpfs /tmp:exec,mode=1777 \
	-e SKEIN_DRAIN=5s -v "$3:/examples:ro" "$image" >/dev/null
for i in $(seq 300); do
	podman exec "$name" wget -q -O- http://127.0.0.1:8080/readyz >/dev/null 2>&1 && break
	sleep 0.1
done
[ "$(podman exec "$name" id -u)" = 999 ]
podman exec "$name" skein run /examples/hello/workflow.yaml -p who=nightly --follow 2>&1 | grep "Hello, nightly"
podman exec "$name" python3 -c 'import ssl; assert ssl.create_default_context().get_ca_certs()'
# An attempt that outlasts the drain: the node waits for it, then ends it.
printf 'name: long\ntasks:\n  wait: {run: sleep 100}\n' | podman exec -i "$name" skein run - --detach
from=$(date +%s)
podman stop -t 30 "$name" >/dev/null
took=$(($(date +%s) - from))
code=$(podman inspect -f '{{.State.ExitCode}}' "$name")
[ "$code" = 0 ] || { podman logs "$name"; echo "it ended with $code"; exit 1; }
[ "$took" -le 15 ] || { echo "it took $took s to stop, more than its drain of 5 s and 10 s"; exit 1; }
echo "loaded, ran hello, stopped in $took s"
