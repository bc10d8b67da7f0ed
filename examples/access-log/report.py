#!/usr/bin/env python3
"""Makes report.html from what the other tasks found: one file, no scripts, nothing loaded from elsewhere."""
import json
import os
from html import escape
from pathlib import Path

STYLE = """
:root { --paper:#fbfaf7; --card:#fff; --ink:#1f2933; --soft:#66727f; --line:#e4e0d8; --ok:#2f6fb5; --bad:#c2352b; --rest:#c9d8ea }
@media (prefers-color-scheme: dark) {
  :root { --paper:#14181d; --card:#1c2229; --ink:#e6e9ec; --soft:#98a4b0; --line:#303841; --ok:#6ea8e6; --bad:#ef7a70; --rest:#2f4257 } }
* { box-sizing:border-box }
body { margin:0; background:var(--paper); color:var(--ink); font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif }
main { max-width:1000px; margin:0 auto; padding:40px 20px 60px }
h1 { font-size:30px; line-height:1.2; margin:0 0 6px } h2 { font-size:18px; margin:0 0 12px } p { margin:0; color:var(--soft) }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(170px,1fr)); gap:14px; margin:24px 0 18px }
.card, section { background:var(--card); border:1px solid var(--line); border-radius:10px }
.card { padding:14px 18px } .card b { display:block; font-size:26px; line-height:1.25; font-variant-numeric:tabular-nums }
.card span { color:var(--soft); font-size:14px } .card.bad b { color:var(--bad) }
section { padding:20px; margin:0 0 18px; overflow-x:auto }
.two { display:grid; grid-template-columns:repeat(auto-fit,minmax(320px,1fr)); gap:18px } .two section { margin:0 } .two { margin-bottom:18px }
svg { display:block; width:100%; min-width:620px; height:auto } svg .soft { fill:var(--soft); font:12px system-ui,sans-serif }
.grid { stroke:var(--line) } .ok { fill:var(--ok) } .rest { fill:var(--rest) } .burst { fill:var(--bad); fill-opacity:.4 }
.key { display:inline-block; width:10px; height:10px; margin:0 5px 0 12px } .key.ok { background:var(--ok) } .key.rest { background:var(--rest) }
.key.burst { background:var(--bad); opacity:.4 }
table { border-collapse:collapse; width:100%; font-size:15px } th { text-align:left; color:var(--soft); font-weight:500 }
th, td { padding:6px 10px 6px 0; border-bottom:1px solid var(--line) } tr:last-child td { border:0 }
td.n, th.n { text-align:right; font-variant-numeric:tabular-nums } td { overflow-wrap:anywhere } .bad { color:var(--bad) }
footer { color:var(--soft); font-size:14px }
"""


def hours_chart(hours, bursts):
    """Requests by hour, the visitors within them, and the bursts of errors over both."""
    left, right, top, bottom = 44, 950, 12, 230
    most = max(hour["requests"] for hour in hours) or 1
    step = next(step for scale in (1, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7) for step in (scale, 2 * scale, 5 * scale)
                if most <= 6 * step)
    width = (right - left) / 24

    def y(value):
        return bottom - (bottom - top) * value / max(most, step)

    svg = ['<svg viewBox="0 0 960 256" role="img" aria-label="Requests and visitors by hour">']
    for value in range(0, most + 1, step):
        svg.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
                   f'<text class="soft" x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    for hour in hours:
        x = left + width * hour["hour"]
        title = f'<title>{hour["hour"]}:00 – {hour["requests"]} requests, {hour["visitors"]} visitors</title>'
        svg.append(f'<g>{title}<rect class="rest" x="{x + 5:.1f}" width="{width - 10:.1f}" y="{y(hour["requests"]):.1f}" '
                   f'height="{bottom - y(hour["requests"]):.1f}"/>'
                   f'<rect class="ok" x="{x + 5:.1f}" width="{width - 10:.1f}" y="{y(hour["visitors"]):.1f}" '
                   f'height="{bottom - y(hour["visitors"]):.1f}"/></g>')
        if hour["hour"] % 3 == 0:
            svg.append(f'<text class="soft" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{hour["hour"]:02}:00</text>')
    for burst in bursts:
        begin, end = (int(burst[at][11:13]) + int(burst[at][14:16]) / 60 for at in ("from", "to"))
        svg.append(f'<rect class="burst" x="{left + width * begin - 2:.1f}" width="{width * (end - begin) % (width * 24) + 4:.1f}" '
                   f'y="{top}" height="{bottom - top}"><title>{burst["errors"]} of {burst["requests"]} requests failed, '
                   f'{burst["from"][11:16]} to {burst["to"][11:16]}</title></rect>')
    svg.append("</svg>")
    return "\n".join(svg)


def table(head, rows):
    cells = [f"<th{' class=n' if number else ''}>{escape(title)}</th>" for number, title in enumerate(head)]
    lines = ["<table><thead><tr>" + "".join(cells) + "</tr></thead><tbody>"]
    for row in rows:
        lines.append("<tr>" + "".join(f"<td{' class=n' if number else ''}>{escape(str(value))}</td>"
                                      for number, value in enumerate(row)) + "</tr>")
    return "\n".join(lines + ["</tbody></table>"])


def card(value, what, bad=False):
    return f'<div class="card{" bad" if bad else ""}"><b>{escape(value)}</b><span>{escape(what)}</span></div>'


def main():
    out, run, given = Path(os.environ["OUT"]), os.environ["SKEIN_RUN_ID"], os.environ

    def found(name):
        return json.loads((out / run / f"{name}.json").read_text(encoding="utf-8"))

    status, pages, hours, slow, bursts = map(found, ("status", "pages", "hours", "slow", "bursts"))
    errors, peak = int(given["SERVER_ERRORS"]), int(given["PEAK_HOUR"])
    rate = float(given["ERROR_RATE"])
    incidents = table(["from", "to", "failed", "of"], [[burst["from"][11:16], burst["to"][11:16], burst["errors"], burst["requests"]]
                                                       for burst in bursts]) if bursts else "<p>None.</p>"
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The web server on {escape(given["DAY"])}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>The web server on {escape(given["DAY"])}</h1>
<p>{int(given["REQUESTS"]):,} requests; {escape(given["MALFORMED"])} lines of the log could not be read. Times are UTC.
Most visited: {escape(given["TOP_PAGE"])}.</p>
<div class="cards">
{card(f'{int(given["VISITORS"]):,}', "visitors, robots not counted")}
{card(f"{peak:02}:00", "the busiest hour")}
{card(f"{rate:.1%}", f"server errors ({errors})", bad=bool(bursts))}
{card(given["SLOW"], f'requests of {given["SLOW_MS"]} ms or more')}
{card(f'{float(given["P95_MS"]):.0f} ms', "95 of 100 requests are faster")}
</div>
<section>
<h2>By hour</h2>
<p style="margin-bottom:12px"><i class="key ok" style="margin-left:0"></i>visitors <i class="key rest"></i>requests
<i class="key burst"></i>burst of server errors</p>
{hours_chart(hours, bursts)}
</section>
<div class="two">
<section><h2>Bursts of server errors</h2>{incidents}</section>
<section><h2>Status codes</h2>{table(["status", "requests"], status.items())}</section>
<section><h2>Most visited</h2>{table(["page", "requests"], [[page["path"], page["requests"]] for page in pages[:8]])}</section>
<section><h2>Slow pages</h2>{table(["page", "slow", "longest"], [[page["path"], page["requests"], f'{page["longest_ms"]} ms']
                                                                for page in slow[:8]])}</section>
</div>
<footer>Made by Skein, run {escape(run)}</footer>
</main>
</body>
</html>
"""
    draft = out / f".report.{run}.html"
    draft.write_text(page, encoding="utf-8")
    draft.replace(out / "report.html")
    print(f"the report is ready: {(out / 'report.html').resolve()}")


main()
