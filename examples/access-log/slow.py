#!/usr/bin/env python3
"""Finds the slow requests and which pages they belong to; writes slow.json."""
import csv
import json
import os
from collections import defaultdict
from pathlib import Path

limit = int(os.environ["SLOW_MS"])
work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]
took, by_page = [], defaultdict(list)
with (work / "requests.csv").open(encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        took.append(int(row["took_ms"]))
        if took[-1] >= limit:
            by_page[row["path"].split("?")[0]].append(took[-1])

took.sort()
p95 = took[min(len(took) - 1, len(took) * 95 // 100)]
pages = [{"path": path, "requests": len(times), "longest_ms": max(times)} for path, times in by_page.items()]
pages.sort(key=lambda page: (-page["requests"], page["path"]))
(work / "slow.json").write_text(json.dumps(pages, indent=1), encoding="utf-8")

slow = sum(page["requests"] for page in pages)
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"slow={slow}", f"p95_ms={p95:.1f}", sep="\n", file=output)
print(f"{slow} requests took {limit} ms or more; 95 of 100 took less than {p95} ms")
for page in pages[:10]:
    print(f"{page['requests']:6}  up to {page['longest_ms']:5} ms  {page['path']}")
