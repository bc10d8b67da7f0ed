#!/bin/sh
# A whole cluster on this machine: PostgreSQL, three nodes, two workers, all of it in one folder
# that is gone when you press Ctrl-C. Needs the programs of PostgreSQL 14 or newer, and bin/skein.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
skein=${SKEIN:-$root/bin/skein}
port=${PORT:-8081} # of the first node; the others follow, and the database stands 100 above
pg=${PGBIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)}

[ -x "$skein" ] || { echo "there is no $skein: run make build first" >&2; exit 1; }
[ -x "${pg:-}/initdb" ] || { echo "there is no PostgreSQL: apt-get install postgresql, or say PGBIN=/folder/of/initdb" >&2; exit 1; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/skein-cluster.XXXXXX")
pids=
stop() {
    trap '' INT TERM EXIT
    echo "stopping" >&2
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$pids" ] || { kill $pids 2>/dev/null; wait $pids 2>/dev/null; } || true
    as pg_ctl -D "$dir/pg" -m fast -w stop >/dev/null 2>&1 || true
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

# PostgreSQL does not run as root.
as() {
    if [ "$(id -u)" = 0 ]; then
        program=$pg/$1; shift
        setpriv --reuid=nobody --regid=nogroup --clear-groups "$program" "$@"
    else
        program=$pg/$1; shift
        "$program" "$@"
    fi
}

chmod 755 "$dir"
mkdir "$dir/pg"
[ "$(id -u)" != 0 ] || chown nobody:nogroup "$dir/pg"
(cd "$dir/pg" && as initdb -D "$dir/pg" -U skein --auth=trust --no-instructions >/dev/null)
(cd "$dir/pg" && as pg_ctl -D "$dir/pg" -w -l "$dir/pg/log" \
    -o "-p $((port + 100)) -c listen_addresses=127.0.0.1 -c unix_socket_directories=$dir/pg" start >/dev/null)
db=postgres://skein@127.0.0.1:$((port + 100))/postgres

servers=
for n in 1 2 3; do
    at=http://127.0.0.1:$((port + n - 1))
    "$skein" server --roles api,scheduler --db "$db" --name "n$n" --data "$dir/n$n" --listen "${at#http://}" 2>"$dir/n$n.log" &
    pids="$pids $!"
    servers=$servers${servers:+,}$at
done
for n in 1 2; do
    "$skein" worker --server "$servers" --name "w$n" --data "$dir/w$n" --slots 4 2>"$dir/w$n.log" &
    pids="$pids $!"
done

for at in $(echo "$servers" | tr , ' '); do
    tries=0
    until "$skein" --server "$at" node list >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { echo "the node at $at does not answer:" >&2; tail -n 5 "$dir"/n*.log >&2; exit 1; }
        sleep 0.2
    done
done

cat <<END
A cluster of three nodes and two workers. Their logs: $dir/*.log

  export SKEIN_SERVER=$servers
  $skein node list
  $skein workflow apply examples/job-center/workflow.yaml
  $skein run job-center --follow
  kill -9 \$(pgrep -f 'name n2')       # the others take over; nothing is lost

Ctrl-C stops all of it.
END
wait
