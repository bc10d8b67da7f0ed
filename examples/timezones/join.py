#!/usr/bin/env python3
"""Joins the tables of the regions into clock-changes.csv, in order of time, and checks that nothing is missing."""
import csv
import json
import os
import sys
from pathlib import Path

HEAD = ["region", "zone", "utc", "local_before", "local_after", "offset_before_min", "offset_after_min", "change_min"]

out = Path(os.environ["OUT"])
run = os.environ["SKEIN_RUN_ID"]
work = out / run
regions = json.loads((work / "zones.json").read_text(encoding="utf-8"))

zones = sum(len(names) for names in regions.values())
if zones != int(os.environ["ZONES"]):
    sys.exit(f"{zones} zones in zones.json, but {os.environ['ZONES']} were extracted")

rows = []
for region in regions:
    with (work / f"changes-{region}.csv").open(encoding="utf-8", newline="") as file:
        rows.extend(csv.reader(file))
if len(rows) != int(os.environ["CHANGES"]):
    sys.exit(f"{len(rows)} clock changes in the tables, but the regions counted {os.environ['CHANGES']}")
rows.sort(key=lambda row: (row[2], row[1]))

# Written beside its place and renamed: whoever looks sees the whole file or none. The copy in the work folder is for
# the next task, so that two runs at once do not read each other's table.
for place in (work / "clock-changes.csv", out / "clock-changes.csv"):
    draft = place.with_name(f".{place.name}.{run}")
    with draft.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(HEAD)
        table.writerows(rows)
    draft.replace(place)

changing = len({row[1] for row in rows})
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"changes={len(rows)}", f"changing={changing}", sep="\n", file=output)
print(f"{len(rows)} clock changes in {changing} of {zones} zones: {out / 'clock-changes.csv'}")
