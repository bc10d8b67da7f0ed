#!/bin/sh
# Lists what has to be ordered again: everything of which more than three were sold.
set -eu
list="$OUT/reorder.txt"
draft="$OUT/.reorder.$SKEIN_RUN_ID.txt"
awk -F, '$2 > 3 {print $1 " x " $2}' "$OUT/$SKEIN_RUN_ID/sold.csv" > "$draft"
mv "$draft" "$list"
echo "of $SOLD pieces sold, order again:"
cat "$list"
