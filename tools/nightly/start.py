"""Measures the start of a node: start.py PROGRAM SECONDS. Fails if the fastest of five starts takes longer."""
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

program, bound = sys.argv[1], float(sys.argv[2])


def start() -> float:
    """Return the seconds until a new node with an empty folder is ready."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"HOME": folder, "PATH": os.environ["PATH"], "SKEIN_DATA": folder + "/data"}
        log = open(folder + "/log", "w+")
        began = time.monotonic()
        node = subprocess.Popen([program, "server"], env=env, stdout=log, stderr=log)
        try:
            while time.monotonic() - began < 30:
                log.seek(0)
                address = re.search(r"https?://127\.0\.0\.1:\d+", log.read())
                if address:
                    try:
                        urllib.request.urlopen(address[0] + "/readyz", timeout=1).close()
                        return time.monotonic() - began
                    except (urllib.error.URLError, OSError):
                        pass
                time.sleep(0.002)
            log.seek(0)
            sys.exit("the node is not ready after 30 s:\n" + log.read())
        finally:
            node.terminate()
            node.wait()
            log.close()


fastest = min(start() for _ in range(5))
print(f"a node is ready after {fastest:.3f} s")
if fastest > bound:
    sys.exit(f"that is longer than {bound} s")
