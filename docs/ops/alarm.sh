#!/bin/bash
# alarm.sh WORD CYCLE TEXT: tells people. WORD is degraded, refused or gave_up. Replace it by
# what your site has; this one writes to the system's log, and to a file.
set -u
line="$(date -u +%Y-%m-%dT%H:%M:%SZ) $1 $2 $3"
printf '%s\n' "$line" >>"$LOGS/alarms"
logger -t ensemble -p user.err -- "$line" 2>/dev/null || true
