#!/usr/bin/env python3
"""Reads the price list and refuses it if a line cannot be understood."""
import csv
import json
import os
import sys
from pathlib import Path

source = Path(os.environ["PRICE_LIST"])
work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]

prices = {}
with source.open(encoding="utf-8", newline="") as file:
    rows = csv.DictReader(file)
    for row in rows:
        if not row["cents"].isdigit():
            sys.exit(f"{source}:{rows.line_num}: the price of {row['article']!r} is {row['cents']!r}, "
                     "which is not a number of cents")
        prices[row["article"]] = int(row["cents"])

(work / "prices.json").write_text(json.dumps(prices, indent=1, sort_keys=True), encoding="utf-8")
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"articles={len(prices)}", file=output)
print(f"{len(prices)} prices read from {source}")
