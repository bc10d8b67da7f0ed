#!/usr/bin/env python3
"""Reads the access log, also a .gz, into requests.csv, one line per request; counts what cannot be read."""
import csv
import gzip
import os
import re
import sys
from datetime import datetime, timezone
from pathlib import Path

LINE = re.compile(r'(?P<visitor>\S+) \S+ \S+ \[(?P<time>[^]]+)\] "(?P<method>[A-Z]+) (?P<path>\S+) HTTP/[0-9.]+" '
                  r'(?P<status>\d{3}) (?P<bytes>\d+|-) "[^"]*" "(?P<agent>[^"]*)" (?P<took>\d+\.\d+)')

log = Path(os.environ["LOG"])
work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]
work.mkdir(parents=True, exist_ok=True)

requests, malformed, day = 0, 0, ""
try:
    lines = (gzip.open if log.suffix == ".gz" else open)(log, "rt", encoding="utf-8", errors="replace")
except OSError as error:
    sys.exit(f"cannot read the log: {error}")
with lines, (work / "requests.csv").open("w", encoding="utf-8", newline="") as file:
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["time", "visitor", "method", "path", "status", "bytes", "took_ms", "agent"])
    for line in lines:
        match = LINE.match(line)
        if not match:
            malformed += 1
            continue
        time = datetime.strptime(match["time"], "%d/%b/%Y:%H:%M:%S %z").astimezone(timezone.utc)
        day = day or time.date().isoformat()
        took = round(float(match["took"]) * 1000)
        size = 0 if match["bytes"] == "-" else int(match["bytes"])
        table.writerow([time.strftime("%Y-%m-%dT%H:%M:%SZ"), match["visitor"], match["method"], match["path"],
                        match["status"], size, took, match["agent"]])
        requests += 1

if requests == 0:
    sys.exit(f"{log}: none of its {malformed} lines is a request in combined format with the time taken")
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"requests={requests}", f"malformed={malformed}", f"day={day}", sep="\n", file=output)
print(f"{requests} requests on {day}, {malformed} lines could not be read")
