#!/usr/bin/env python3
import json
import os
import sys

with open(os.environ["SKEIN_INPUT"]) as f:
    given = json.load(f)
text = given["with"]["text"]
print("attempt", given["token"], "of", given["key"], "says:", text)

# sys.exit(75): the other side is away, try again later. sys.exit(78): failed, and a retry cannot help.
with open(os.environ["SKEIN_OUTPUT"], "a") as out:
    print("length=%d" % len(text), file=out)
sys.exit(0)
