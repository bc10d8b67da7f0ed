#!/usr/bin/env python3
"""Counts the articles sold; writes sold.csv into the work folder of the run."""
import csv
import os
from collections import Counter
from pathlib import Path

work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]

sold = Counter()
with (work / "receipts.csv").open(encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        sold[row["article"]] += int(row["quantity"])

with (work / "sold.csv").open("w", encoding="utf-8", newline="") as file:
    table = csv.writer(file, lineterminator="\n")
    table.writerows(sorted(sold.items()))
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"sold={sum(sold.values())}", file=output)
print(f"{sum(sold.values())} pieces of {len(sold)} articles sold")
