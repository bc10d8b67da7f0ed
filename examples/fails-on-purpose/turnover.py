#!/usr/bin/env python3
"""Multiplies what was sold by its price; writes turnover.csv."""
import csv
import json
import os
from collections import Counter
from pathlib import Path

out = Path(os.environ["OUT"])
work = out / os.environ["SKEIN_RUN_ID"]
prices = json.loads((work / "prices.json").read_text(encoding="utf-8"))

sold = Counter()
with (work / "receipts.csv").open(encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        sold[row["article"]] += int(row["quantity"])

total = 0
# Written beside its place and renamed: whoever looks sees the whole file or none.
draft = out / f".turnover.{os.environ['SKEIN_RUN_ID']}.csv"
with draft.open("w", encoding="utf-8", newline="") as file:
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["article", "sold", "cents"])
    for article, quantity in sorted(sold.items()):
        cents = quantity * prices[article]
        total += cents
        table.writerow([article, quantity, cents])
draft.replace(out / "turnover.csv")

with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"cents={total}", file=output)
print(f"turnover of the day: {total / 100:.2f}, by article in {out / 'turnover.csv'}")
