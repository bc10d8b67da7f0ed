#!/usr/bin/env python3
"""The 24 hours before an instant: how many beats came, the longest silence, the fullest disk, the highest load."""
import csv
import datetime
import os

at = datetime.datetime.fromisoformat(os.environ["AT"].replace("Z", "+00:00")).replace(microsecond=0)
begin = at - datetime.timedelta(hours=24)
out = os.environ["OUT"]

with open(os.path.join(out, "beats.csv")) as f:
    # The beat of this very run comes a little after its instant.
    until = at + datetime.timedelta(minutes=1)
    rows = [r for r in csv.DictReader(f) if begin < datetime.datetime.fromisoformat(r["at"]) <= until]
if not rows:
    print("no beats in these 24 hours")

times = sorted(datetime.datetime.fromisoformat(r["at"]) for r in rows)
silences = [b - a for a, b in zip([begin] + times, times + [max([at] + times)])]
most = lambda key: max((float(r[key]) for r in rows if r[key]), default=0.0)

name = os.path.join(out, f"heartbeat-{at.date()}.md")
with open(name + ".tmp", "w") as page:
    print(f"# Heartbeat of {begin:%Y-%m-%d %H:%M} to {at:%Y-%m-%d %H:%M} UTC\n", file=page)
    print(f"- beats: {len(rows)}", file=page)
    print(f"- longest silence: {max(silences)}", file=page)
    print(f"- fullest disk: {most('disk_percent')} %", file=page)
    print(f"- most memory in use: {most('memory_percent')} %", file=page)
    print(f"- highest load: {most('load')}", file=page)
os.replace(name + ".tmp", name)  # complete, or not there

print(open(name).read(), end="")
print(f"→ {name}")
with open(os.environ["SKEIN_OUTPUT"], "a") as output:
    print(f"beats={len(rows)}", file=output)
