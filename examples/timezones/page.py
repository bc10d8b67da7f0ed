#!/usr/bin/env python3
"""Makes clock-changes.html from the joined table: one file, no scripts, nothing loaded from elsewhere."""
import csv
import json
import os
from collections import Counter, defaultdict
from datetime import date
from html import escape
from pathlib import Path

KNOWN = ["Europe/London", "Europe/Berlin", "Europe/Athens", "America/New_York", "America/Chicago", "America/Los_Angeles",
         "America/Havana", "America/Santiago", "America/Asuncion", "Australia/Sydney", "Australia/Adelaide",
         "Pacific/Auckland", "Africa/Cairo", "Africa/Casablanca", "Asia/Jerusalem", "Asia/Beirut", "Atlantic/Azores",
         "America/Nuuk", "Europe/Chisinau", "Asia/Gaza", "Pacific/Easter", "Pacific/Norfolk"]
DAYS_SHOWN = 14

STYLE = """
:root { --paper:#fbfaf7; --card:#fff; --ink:#1f2933; --soft:#66727f; --line:#e4e0d8; --fwd:#d9730d; --back:#2f6fb5; --rest:#d9d5cb }
@media (prefers-color-scheme: dark) {
  :root { --paper:#14181d; --card:#1c2229; --ink:#e6e9ec; --soft:#98a4b0; --line:#303841; --fwd:#f0964a; --back:#6ea8e6; --rest:#3a434d } }
* { box-sizing:border-box }
body { margin:0; background:var(--paper); color:var(--ink); font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif }
main { max-width:1120px; margin:0 auto; padding:40px 20px 60px }
h1 { font-size:30px; line-height:1.2; margin:0 0 6px; letter-spacing:-.01em }
h2 { font-size:18px; margin:0 0 4px }
p { margin:0 0 14px; color:var(--soft) }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(190px,1fr)); gap:14px; margin:24px 0 }
.card, section { background:var(--card); border:1px solid var(--line); border-radius:10px }
.card { padding:14px 18px } .card b { display:block; font-size:26px; line-height:1.25; font-variant-numeric:tabular-nums }
.card span { color:var(--soft); font-size:14px }
section { padding:20px; margin:0 0 18px; overflow-x:auto }
svg { display:block; width:100%; min-width:720px; height:auto }
svg text { fill:var(--ink); font:13px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif } svg .soft { fill:var(--soft) }
.grid { stroke:var(--line) } .fwd { fill:var(--fwd) } .back { fill:var(--back) } .rest { fill:var(--rest) }
circle { fill-opacity:.8 } circle:hover { fill-opacity:1; stroke:var(--ink) }
.key { display:inline-block; width:10px; height:10px; border-radius:50%; margin:0 5px 0 12px }
.key.fwd { background:var(--fwd) } .key.back { background:var(--back) } .key.rest { background:var(--rest) }
table { border-collapse:collapse; width:100%; font-size:15px } th { text-align:left; color:var(--soft); font-weight:500 }
th, td { padding:7px 12px 7px 0; border-bottom:1px solid var(--line); vertical-align:top } tr:last-child td { border:0 }
td.n, th.n { text-align:right; font-variant-numeric:tabular-nums; padding-right:20px } td.d { white-space:nowrap }
.up { color:var(--fwd); white-space:nowrap } .down { color:var(--back); white-space:nowrap }
footer { color:var(--soft); font-size:14px }
"""


def plural(count, noun):
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def timeline(rows, regions, since, years):
    """A lane per region: changes forward above its line, changes back below, the area is the number of zones."""
    left, right, lane, top = 96, 1064, 46, 30
    per_day = Counter((row["region"], row["utc"][:10], int(row["change_min"]) > 0) for row in rows)
    days = (date(since.year + years, since.month, min(since.day, 28)) - since).days

    def x(day):
        return left + (right - left) * (day - since).days / days

    bottom = top + lane * len(regions)
    svg = [f'<svg viewBox="0 0 1080 {bottom + 8}" role="img" aria-label="Clock changes by region and day">']
    step = max(1, -(-years // 20))
    for year in range(since.year + 1, since.year + years + 1, step):
        at = x(date(year, 1, 1))
        if at <= right:
            svg.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top - 8}" y2="{bottom}"/>'
                       f'<text class="soft" x="{at:.1f}" y="14" text-anchor="middle">{year}</text>')
    for number, region in enumerate(regions):
        middle = top + lane * number + lane / 2
        svg.append(f'<text x="0" y="{middle + 4:.1f}">{escape(region)}</text>'
                   f'<line class="grid" x1="{left}" x2="{right}" y1="{middle:.1f}" y2="{middle:.1f}"/>')
        dots = sorted(item for item in per_day.items() if item[0][0] == region)
        if not dots:
            svg.append(f'<text class="soft" x="{left + 14}" y="{middle - 5:.1f}">no zone changes its clocks</text>')
        for (_, day, forward), count in dots:
            radius = min(10.0, 2.2 + 0.75 * count ** 0.5)
            svg.append(f'<circle class="{"fwd" if forward else "back"}" cx="{x(date.fromisoformat(day)):.1f}" '
                       f'cy="{middle + (-10 if forward else 10):.1f}" r="{radius:.1f}">'
                       f'<title>{escape(region)}, {day}: {plural(count, "zone")} '
                       f'{"forward" if forward else "back"}</title></circle>')
    svg.append("</svg>")
    return "\n".join(svg)


def shares(rows, regions):
    """A bar per region: zones that change their clocks, and zones that do not."""
    changing = defaultdict(set)
    for row in rows:
        changing[row["region"]].add(row["zone"])
    most = max(len(zones) for zones in regions.values())
    left, right, lane = 96, 900, 28
    svg = [f'<svg viewBox="0 0 1080 {lane * len(regions)}" role="img" aria-label="Zones that change their clocks, by region">']
    for number, (region, zones) in enumerate(regions.items()):
        y, change, total = lane * number, len(changing[region]), len(zones)
        scale = (right - left) / most
        svg.append(f'<text x="0" y="{y + 18}">{escape(region)}</text>'
                   f'<rect class="fwd" x="{left}" y="{y + 5}" width="{change * scale:.1f}" height="18"/>'
                   f'<rect class="rest" x="{left + change * scale:.1f}" y="{y + 5}" width="{(total - change) * scale:.1f}" height="18"/>'
                   f'<text class="soft" x="{left + total * scale + 8:.1f}" y="{y + 18}">{change} of {total}</text>')
    svg.append("</svg>")
    return "\n".join(svg)


def direction(minutes):
    size = f"{abs(minutes) // 60} h" if minutes % 60 == 0 else f"{abs(minutes)} min"
    return f'<span class="up">▲ {size}</span>' if minutes > 0 else f'<span class="down">▼ {size}</span>'


def example(rows):
    """The best-known zone among the rows, with its clock before and after."""
    row = min(rows, key=lambda row: (KNOWN.index(row["zone"]) if row["zone"] in KNOWN else len(KNOWN), row["zone"]))
    return (f'{escape(row["zone"].replace("_", " "))} <span style="color:var(--soft)">'
            f'{row["local_before"][11:16]} → {row["local_after"][11:16]}</span>')


def next_days(rows):
    groups = defaultdict(list)
    for row in rows:
        groups[row["utc"][:10], int(row["change_min"])].append(row)
    lines = []
    for (day, minutes), group in sorted(groups.items())[:DAYS_SHOWN]:
        weekday = date.fromisoformat(day).strftime("%a")
        lines.append(f'<tr><td class="d">{weekday} {day}</td><td>{direction(minutes)}</td>'
                     f'<td class="n">{len(group)}</td><td>{example(group)}</td></tr>')
    return "\n".join(lines)


def oddities(rows):
    """Zones whose clocks move by something else than one hour."""
    groups = defaultdict(set)
    for row in rows:
        if abs(int(row["change_min"])) != 60:
            groups[abs(int(row["change_min"]))].add(row["zone"])
    return "\n".join(f'<tr><td class="d">{minutes} minutes</td><td>{escape(", ".join(sorted(zones)))}</td></tr>'
                     for minutes, zones in sorted(groups.items()))


def main():
    out, run = Path(os.environ["OUT"]), os.environ["SKEIN_RUN_ID"]
    since, years = date.fromisoformat(os.environ["SINCE"]), int(os.environ["YEARS"])
    regions = json.loads((out / run / "zones.json").read_text(encoding="utf-8"))
    with (out / run / "clock-changes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    zones = sum(len(names) for names in regions.values())
    changing = len({row["zone"] for row in rows})
    if rows:
        day = rows[0]["utc"][:10]
        first = f'<b>{day}</b><span>next change, in {plural(sum(row["utc"][:10] == day for row in rows), "zone")}</span>'
    else:
        first = "<b>none</b><span>no clock changes at all</span>"
    odd = oddities(rows)
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>When do the clocks change?</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>When do the clocks change?</h1>
<p>Every zone of this machine's time-zone database ({escape(os.environ["VERSION"])}), {plural(years, "year")} from {since}.
Days are days in UTC. Several names may stand for one clock.</p>
<div class="cards">
<div class="card"><b>{zones:,}</b><span>zones known here</span></div>
<div class="card"><b>{changing:,}</b><span>of them change their clocks</span></div>
<div class="card"><b>{len(rows):,}</b><span>changes in all</span></div>
<div class="card">{first}</div>
</div>
<section>
<h2>Changes by region</h2>
<p><i class="key fwd" style="margin-left:0"></i>forward <i class="key back"></i>back; the larger the dot, the more zones</p>
{timeline(rows, list(regions), since, years)}
</section>
<section>
<h2>Who changes at all</h2>
<p><i class="key fwd" style="margin-left:0"></i>zones that change their clocks <i class="key rest"></i>zones that do not</p>
{shares(rows, regions)}
</section>
<section>
<h2>The next days of change</h2>
<table><thead><tr><th>Day</th><th>Clocks go</th><th class="n">Zones</th><th>For example</th></tr></thead>
<tbody>
{next_days(rows)}
</tbody></table>
</section>
{f'<section><h2>Not by one hour</h2><table><tbody>{odd}</tbody></table></section>' if odd else ''}
<footer>The whole table: clock-changes.csv · made by Skein, run {escape(run)}</footer>
</main>
</body>
</html>
"""
    draft = out / f".clock-changes.{run}.html"
    draft.write_text(page, encoding="utf-8")
    draft.replace(out / "clock-changes.html")
    print(f"the page is ready: {(out / 'clock-changes.html').resolve()}")


main()
