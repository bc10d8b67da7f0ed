#!/usr/bin/env python3
"""Looks for bursts of server errors: neighbouring five-minute windows with too large a share; writes bursts.json."""
import csv
import json
import os
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

WINDOW = timedelta(minutes=5)
ERRORS_MIN = 5  # fewer errors in a window are no burst, however quiet the hour

share = float(os.environ["ERROR_SHARE"])
work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]
requests, errors = Counter(), Counter()
with (work / "requests.csv").open(encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        time = datetime.strptime(row["time"], "%Y-%m-%dT%H:%M:%SZ")
        window = time - timedelta(minutes=time.minute % 5, seconds=time.second)
        requests[window] += 1
        errors[window] += row["status"] >= "500"

bursts = []
for window in sorted(requests):
    if errors[window] < ERRORS_MIN or errors[window] / requests[window] <= share:
        continue
    if bursts and bursts[-1]["to"] == window:
        bursts[-1]["to"] = window + WINDOW
    else:
        bursts.append({"from": window, "to": window + WINDOW, "errors": 0, "requests": 0})
    bursts[-1]["errors"] += errors[window]
    bursts[-1]["requests"] += requests[window]
for burst in bursts:
    burst["from"], burst["to"] = (burst[end].strftime("%Y-%m-%dT%H:%M:%SZ") for end in ("from", "to"))

(work / "bursts.json").write_text(json.dumps(bursts, indent=1), encoding="utf-8")
worst = max(bursts, key=lambda burst: burst["errors"], default={"from": "", "to": "", "errors": 0, "requests": 0})
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"bursts={len(bursts)}", f"worst={json.dumps(worst)}", sep="\n", file=output)
print(f"{len(bursts)} bursts of server errors")
for burst in bursts:
    print(f"  {burst['from']} to {burst['to']}: {burst['errors']} of {burst['requests']} requests failed")
