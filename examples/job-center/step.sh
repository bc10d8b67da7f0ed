#!/bin/sh
# Says which task it is, works for a moment, and fails if it is the one that FAIL names.
set -eu
echo "$SKEIN_TASK: started (attempt $SKEIN_ATTEMPT)"
sleep 0.3
if [ "${FAIL:-}" = "$SKEIN_TASK" ]; then
    echo "$SKEIN_TASK: failing, because the parameter 'fail' names it" >&2
    exit 1
fi
echo "$SKEIN_TASK: done"
