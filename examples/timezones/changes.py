#!/usr/bin/env python3
"""Finds every clock change of one region's zones: changes.py REGION; writes changes-REGION.csv.

A clock change is an instant at which the distance to UTC changes. Between two looks a day apart the instant is found
by halving, so the answer is exact to the second as long as no zone changes twice within one day.
"""
import csv
import json
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo


def offset(zone, instant):
    """Seconds ahead of UTC at an instant given in seconds since 1970."""
    return int(datetime.fromtimestamp(instant, zone).utcoffset().total_seconds())


def changes(zone, begin, end):
    """Yields (instant, offset before, offset after) for begin < instant <= end."""
    day = 86400
    before = offset(zone, begin)
    for left in range(begin, end, day):
        right = min(left + day, end)
        after = offset(zone, right)
        if after == before:
            continue
        low, high = left, right
        while high - low > 1:
            middle = (low + high) // 2
            if offset(zone, middle) == before:
                low = middle
            else:
                high = middle
        yield high, before, after
        before = after


def main():
    region = sys.argv[1]
    years = int(os.environ["YEARS"])
    if not 1 <= years <= 100:
        sys.exit(f"the parameter 'years' is {years}; it must be 1 to 100")
    first = datetime.fromisoformat(os.environ["SINCE"]).replace(tzinfo=timezone.utc)
    try:
        last = first.replace(year=first.year + years)
    except ValueError:  # 29 February, and that year has none
        last = first.replace(year=first.year + years, month=3, day=1)
    begin, end = int(first.timestamp()), int(last.timestamp())

    work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]
    names = json.loads((work / "zones.json").read_text(encoding="utf-8"))[region]

    found, changing = 0, 0
    with (work / f"changes-{region}.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for name in names:
            of_zone = 0
            for instant, before, after in changes(ZoneInfo(name), begin, end):
                utc = datetime.fromtimestamp(instant, timezone.utc)
                table.writerow([
                    region, name, utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    (utc + timedelta(seconds=before)).strftime("%Y-%m-%d %H:%M:%S"),
                    (utc + timedelta(seconds=after)).strftime("%Y-%m-%d %H:%M:%S"),
                    before // 60, after // 60, (after - before) // 60,
                ])
                of_zone += 1
            found += of_zone
            changing += of_zone > 0

    with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
        print(f"zones={len(names)}", f"changes={found}", sep="\n", file=output)
    print(f"{region}: {found} clock changes in {changing} of {len(names)} zones")


main()
