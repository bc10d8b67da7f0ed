#!/usr/bin/env python3
"""Counts requests and different visitors by hour, without robots; writes hours.json."""
import csv
import json
import os
from collections import Counter, defaultdict
from pathlib import Path

work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]
requests, visitors, everyone = Counter(), defaultdict(set), set()
with (work / "requests.csv").open(encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        if "bot" in row["agent"].lower():
            continue
        hour = int(row["time"][11:13])
        requests[hour] += 1
        visitors[hour].add(row["visitor"])
        everyone.add(row["visitor"])

hours = [{"hour": hour, "requests": requests[hour], "visitors": len(visitors[hour])} for hour in range(24)]
(work / "hours.json").write_text(json.dumps(hours, indent=1), encoding="utf-8")
peak = max(hours, key=lambda hour: hour["visitors"])
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"visitors={len(everyone)}", f"peak_hour={peak['hour']}", sep="\n", file=output)
print(f"{len(everyone)} visitors; most of them between {peak['hour']}:00 and {peak['hour'] + 1}:00 ({peak['visitors']})")
