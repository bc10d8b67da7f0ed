#!/usr/bin/env python3
"""Writes incident.md about the worst burst: what failed, for whom, and the last good and first failing request."""
import csv
import os
from collections import Counter
from pathlib import Path

out, run = Path(os.environ["OUT"]), os.environ["SKEIN_RUN_ID"]
begin, end = os.environ["FROM"], os.environ["TO"]

with (out / run / "requests.csv").open(encoding="utf-8", newline="") as file:
    within = [row for row in csv.DictReader(file) if begin <= row["time"] < end]
failed = [row for row in within if row["status"] >= "500"]


def table(title, column):
    lines = [f"| {title} | requests |", "|---|---:|"]
    counts = sorted(Counter(row[column].split("?")[0] for row in failed).items(), key=lambda item: (-item[1], item[0]))
    return "\n".join(lines + [f"| {value} | {count} |" for value, count in counts[:8]])


text = f"""# Server errors, {begin} to {end}

{len(failed)} of {len(within)} requests failed, for {len({row['visitor'] for row in failed})} visitors.
First at {failed[0]['time']}, last at {failed[-1]['time']}.

{table('status', 'status')}

{table('page', 'path')}
"""
draft = out / f".incident.{run}.md"
draft.write_text(text, encoding="utf-8")
draft.replace(out / "incident.md")
print(text)
