#!/bin/sh
# Removes the work folder of this run, whatever became of the run. May run twice.
set -eu
rm -rf -- "${OUT:?}/${SKEIN_RUN_ID:?}"
echo "work folder $OUT/$SKEIN_RUN_ID removed"
