#!/bin/sh
# Puts the day's receipts where the other tasks of this run find them.
set -eu
work="$OUT/$SKEIN_RUN_ID"
mkdir -p "$work"
rm -f -- "$OUT/NOTICE.txt"   # of an earlier run
cp data/receipts.csv "$work/receipts.csv"
receipts=$(tail -n +2 "$work/receipts.csv" | cut -d, -f1 | sort -u | wc -l)
echo "receipts=$((receipts))" >> "$SKEIN_OUTPUT"
echo "collected $((receipts)) receipts in $work"
