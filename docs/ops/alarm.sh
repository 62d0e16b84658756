#!/bin/bash
# alarm.sh WORD INIT TEXT: notifies operators. WORD is degraded, late, refused, gave_up or failed; for a failed
# service INIT is the name of its unit. Replace it by the notification of your site; this one writes to the system
# log and to a file.
set -u
line="$(date -u +%Y-%m-%dT%H:%M:%SZ) $1 $2 $3"
{ printf '%s\n' "$line" >>"$LOGS/alarms"; } 2>/dev/null
file=$?
if ! logger -t ensemble -p user.err -- "$line" 2>/dev/null && [ $file -ne 0 ]; then
  printf '%s\n' "$line" >&2 # neither could be written: into the log of the job
  exit 1
fi
exit 0
