#!/usr/bin/env python3
"""One beat: a line about this machine as it is now, appended to beats.csv."""
import datetime
import fcntl
import os
import shutil


def memory_percent():
    """Used memory where the kernel tells, else empty."""
    try:
        with open("/proc/meminfo") as f:
            kib = {line.split(":")[0]: int(line.split()[1]) for line in f}
        return round(100 * (1 - kib["MemAvailable"] / kib["MemTotal"]), 1)
    except (OSError, KeyError, ValueError, IndexError):
        return ""


at = datetime.datetime.now(datetime.timezone.utc)  # not the instant of the trigger: nobody can look at the past
disk = shutil.disk_usage(os.environ["WATCHED"])
disk_percent = round(100 * disk.used / disk.total, 1)
row = f"{at.isoformat(timespec='seconds')},{disk_percent},{memory_percent()},{round(os.getloadavg()[0], 2)}\n"

out = os.environ["OUT"]
os.makedirs(out, exist_ok=True)
with open(os.path.join(out, "beats.csv"), "a+") as beats:
    fcntl.flock(beats, fcntl.LOCK_EX)  # a run by hand may come at the same time
    beats.seek(0)
    if not beats.read(1):
        beats.write("at,disk_percent,memory_percent,load\n")
    beats.write(row)

print(row, end="")
with open(os.environ["SKEIN_OUTPUT"], "a") as output:
    print(f"disk_percent={disk_percent}", file=output)
