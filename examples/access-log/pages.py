#!/usr/bin/env python3
"""Ranks the pages by successful requests, without the query and without static files; writes pages.json."""
import csv
import json
import os
from collections import Counter
from pathlib import Path

work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]
with (work / "requests.csv").open(encoding="utf-8", newline="") as file:
    pages = Counter(row["path"].split("?")[0] for row in csv.DictReader(file)
                    if row["status"] < "400" and not row["path"].startswith(("/static/", "/robots.txt")))

ranking = [{"path": path, "requests": count} for path, count in sorted(pages.items(), key=lambda page: (-page[1], page[0]))]
(work / "pages.json").write_text(json.dumps(ranking, indent=1), encoding="utf-8")
top = ranking[0] if ranking else {"path": "none", "requests": 0}
with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"top={json.dumps(top)}", file=output)
for page in ranking[:10]:
    print(f"{page['requests']:6}  {page['path']}")
