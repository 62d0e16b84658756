#!/bin/bash
# Slurm: checks that AMEND_DEADLINE counts from the initialisation. An amend is a chain of jobs: a duration
# counts from the begin of each of them, so the chain would have no end. Ends with 64 and a message.
set -u
init=${INIT:-} # for settings of one initialisation
: "${SITE:=$OPS/site.sh}"
. "$SITE" || exit 1
case $AMEND_DEADLINE in
init+?* | [0-9]*:*) ;;
*)
  echo "AMEND_DEADLINE=$AMEND_DEADLINE does not count from the initialisation, so an amend, whose jobs all begin anew, would not end: $SITE: write init+18h, or a time of day such as 18:00Z" >&2
  exit 64
  ;;
esac
