#!/bin/sh
# Says what happened and how to go on, in the log and in a file.
set -eu
mkdir -p "$OUT"
# Where the workflow file is seen from here, its path can be run as it stands; else its name is known to the server.
again=$SKEIN_WORKFLOW
if [ -f workflow.yaml ]; then again="$PWD/workflow.yaml"; fi
draft="$OUT/.NOTICE.$SKEIN_RUN_ID.txt"
cat > "$draft" <<TEXT
The price list could not be read, so the turnover was not computed. The stock branch went on.

  skein run get $SKEIN_RUN_ID        every task with its state and attempts
  skein logs $SKEIN_RUN_ID/prices    what the failing task said
  skein explain $SKEIN_RUN_ID        why the run ended as it did

Then mend the cause, here by choosing the good price list, and run again:

  skein run $again -p broken=false
TEXT
mv "$draft" "$OUT/NOTICE.txt"
cat "$OUT/NOTICE.txt"
