#!/usr/bin/env python3
"""Counts the status codes; writes status.json."""
import csv
import json
import os
from collections import Counter
from pathlib import Path

work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]
with (work / "requests.csv").open(encoding="utf-8", newline="") as file:
    codes = Counter(row["status"] for row in csv.DictReader(file))

(work / "status.json").write_text(json.dumps(dict(sorted(codes.items())), indent=1), encoding="utf-8")
errors = sum(count for code, count in codes.items() if code >= "500")
rate = errors / sum(codes.values())
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"server_errors={errors}", f"error_rate={rate:.4f}", sep="\n", file=output)
for code, count in sorted(codes.items()):
    print(f"{code}  {count:6}")
