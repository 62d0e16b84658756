#!/bin/bash
# step.sh predict|amend CYCLE [FLAGS...]: the products of one init, as a step of any suite.
#
#   predict   waits until the deadline, then continues with the available input (predict.yaml)
#   amend     waits for missing input, and replaces degraded products
#
# From the environment: OPS (this folder), SITE (site.sh), TRY and TRIES (number of this
# attempt, and of all attempts of the suite). Exit codes for the suite:
#
#   0   published
#   10  published, degraded; operators have been notified
#   75  try again
#   1   do not try again; operators have been notified
set -u
step=${1:?predict or amend} cycle=${2:?the start, such as 2026010100}
shift 2
: "${OPS:?the folder of step.sh}" "${SITE:?the site file, site.sh}" "${TRY:=1}" "${TRIES:=1}"
. "$SITE" || exit 1
mkdir -p "$LOGS" || exit 1
# The policy of a step is in the environment, not in flags: products state the command line,
# and those of both steps must be the same bytes.
export ENSEMBLE_MEMBERS_DEADLINE=$DEADLINE
if [ "$step" = amend ]; then
  export ENSEMBLE_MEMBERS_DEADLINE=$AMEND_DEADLINE ENSEMBLE_MEMBERS_ON_MISSING=fail
fi

answer="$LOGS/$step-$cycle.json"
"$ENSEMBLE" predict -c "$OPS/predict.yaml" --run-dir "$RUN_DIR" --input "$INPUT/*$cycle*.grib2" --init "$cycle" \
  --out "$PRODUCTS" --progress none "$@" \
  --json --log-format json --log-file "$LOGS/predict.jsonl" >"$answer" 2>/dev/null </dev/null &
pid=$!
echo $pid >"$LOGS/$step-$cycle.pid"
trap 'kill -TERM $pid 2>/dev/null' TERM INT USR1 HUP # the program stops with 75
wait $pid
code=$?
while kill -0 $pid 2>/dev/null; do # a signal interrupts wait
  wait $pid
  code=$?
done
rm -f "$LOGS/$step-$cycle.pid"

why=$(sed -n -e 's/\\"/`/g' -e 's/.*"error":{"code":"[^"]*","what":"\([^"]*\)","at":"\([^"]*\)".*/\1: \2/p' -e t \
  -e 's/.*"error":{"code":"[^"]*","what":"\([^"]*\)".*/\1/p' "$answer")
again=no
case $code in
0)
  grep -q '"status":"degraded"' "$answer" || exit 0
  "$ALARM" degraded "$cycle" "published with less than expected, see $PRODUCTS/$cycle/manifest.json"
  exit 10
  ;;
66 | 71 | 75) again=yes ;;             # missing input, a lost rank, stopped
69) again=yes ;;                       # another node may have the device
74) again=yes ;;                       # a full disk, a stale handle
137 | 143) again=yes ;;                # killed: by hand, by the node, for memory
126 | 127) why="$ENSEMBLE cannot be run" ;;
esac
if [ $again = yes ] && [ "$TRY" -lt "$TRIES" ]; then exit 75; fi
if [ $again = yes ]; then word=gave_up; else word=refused; fi
"$ALARM" $word "$cycle" "$step ended with $code: ${why:-no answer}, see $LOGS/predict.jsonl"
exit 1
