#!/usr/bin/env python3
"""Lists every zone of the machine's time-zone database, by region; writes zones.json."""
import json
import os
import sys
from datetime import date
from pathlib import Path

if sys.version_info < (3, 9):
    sys.exit(f"python3 is {sys.version.split()[0]}; reading the time-zone database needs 3.9 or newer")

import zoneinfo  # noqa: E402  (after the check of the version, so that its message is seen)

REGIONS = ["Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic",
           "Australia", "Europe", "Indian", "Pacific"]


def database_version():
    """The release of the database, such as 2025b, if the machine tells."""
    for folder in map(Path, zoneinfo.TZPATH):
        for name in ("tzdata.zi", "+VERSION"):
            try:
                first = (folder / name).open(encoding="utf-8", errors="replace").readline()
            except OSError:
                continue
            words = first.split()
            if words:
                return words[-1]
    try:
        import tzdata
        return tzdata.IANA_VERSION
    except (ImportError, AttributeError):
        return "unknown"


since = os.environ.get("SINCE") or date.today().isoformat()
try:
    date.fromisoformat(since)
except ValueError:
    sys.exit(f"the parameter 'since' is {since!r}; it must be a day such as 2027-01-31, or empty for today")

names = sorted(zoneinfo.available_timezones())
if not names:
    looked = ", ".join(zoneinfo.TZPATH) or "no folder at all"
    sys.exit(f"this machine has no time-zone database (looked in {looked}, and for the Python package tzdata); "
             "install the package 'tzdata', or name its folder as PYTHONTZPATH under 'env' in workflow.yaml")

regions = {region: [] for region in REGIONS + ["Other"]}
for name in names:
    region = name.split("/")[0]
    regions[region if region in REGIONS and "/" in name else "Other"].append(name)

work = Path(os.environ["OUT"]) / os.environ["SKEIN_RUN_ID"]
work.mkdir(parents=True, exist_ok=True)
(work / "zones.json").write_text(json.dumps(regions, indent=1), encoding="utf-8")

with open(os.environ["SKEIN_OUTPUT"], "a", encoding="utf-8") as output:
    print(f"zones={len(names)}", f"since={since}", f"version={database_version()}", sep="\n", file=output)
print(f"{len(names)} zones, database {database_version()}, looking ahead from {since}")
for region, zones in regions.items():
    print(f"  {region:<10} {len(zones):4}")
