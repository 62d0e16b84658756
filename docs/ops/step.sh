#!/bin/bash
# step.sh predict|deliver|amend INIT: a step of one initialisation, such as 2026010100, in any suite.
#
#   predict   waits for the input until DEADLINE, then publishes what the policy of predict.yaml allows
#   deliver   passes the products on
#   amend     until AMEND_DEADLINE, publishes and delivers products of more input, when it is complete
#             and every AMEND_EVERY seconds; with a shorter AMEND_WAIT it waits for that many seconds,
#             once, and the suite runs it again after AMEND_EVERY
#
# From the environment: OPS (this folder) and SITE (site.sh). Errors that may pass are tried
# again here. Exit codes for the suite:
#
#   0    done
#   10   predict: published, degraded; amend may complete it
#   11   predict: not published, its input is missing or refused; amend may make it
#   12   amend, with AMEND_WAIT: more input may come
#   75   stopped by a signal
#   1    failed
#
# Operators have been notified of 10, 11 and 1.
set -u
step=${1:?predict, deliver or amend} init=${2:?the initialisation, such as 2026010100}
: "${OPS:?the folder of step.sh}" "${SITE:?the site file, site.sh}"
. "$SITE" || exit 1
alarm() { "$ALARM" "$1" "$init" "$step: $2"; }
if ! mkdir -p "$LOGS"; then
  alarm failed "cannot create $LOGS"
  exit 1
fi

predict() {
  exec "$ENSEMBLE" predict -c "$OPS/predict.yaml" --run-dir "$RUN_DIR" --input "$INPUT/*$init*.grib2" --init "$init" \
    --out "$PRODUCTS" --progress none --json --log-format json --log-file "$LOGS/predict.jsonl" 2>/dev/null </dev/null
}
deliver() { exec "$DELIVER" "$init" 2>&1 </dev/null; }
handover() { exec "$OPS/step.sh" deliver "$init"; }
pause() { exec sleep "$RETRY_DELAY"; }

# run predict|deliver|handover|pause: in the background, where a signal reaches it at once; sets code, and answer
# to what it writes. It is read through a pipe, since the disk of $LOGS may be full.
child='' stopped=''
trap 'stopped=yes; kill -TERM $child 2>/dev/null' TERM INT HUP USR1 XCPU
run() {
  local pipe part
  exec {pipe}< <("$1")
  child=$!
  answer=
  while :; do
    IFS= read -r -d '' -u "$pipe" part
    code=$?
    answer+=$part
    [ $code -gt 128 ] || break # a signal interrupts read
  done
  exec {pipe}<&-
  wait $child
  code=$?
  while kill -0 $child 2>/dev/null; do # a signal interrupts wait
    wait $child
    code=$?
  done
  [ -z "$stopped" ] || exit 75
}

# attempt predict|deliver: runs it, again where another try may end in another way; sets code.
attempt() {
  local try
  for ((try = 1; try <= TRIES; try++)); do
    [ $try -eq 1 ] || run pause
    run "$1"
    { printf '%s\n' "$answer" >"$LOGS/$step-$init.out"; } 2>/dev/null
    case $1-$code in
    *-0 | predict-65 | predict-66) return ;;
    predict-1 | predict-64 | predict-70 | predict-73 | predict-12[67]) break ;;
    esac # others: no device, a lost rank, a full disk, killed; deliver.sh
  done
  case $1-$code in predict-12[67]) answer="$ENSEMBLE cannot be run" ;; esac
  alarm failed "ended with $code, try $((try > TRIES ? TRIES : try)) of $TRIES: $(why)"
  exit 1
}
why() { # the error in an answer, else its last line
  printf '%s\n' "$answer" | sed -n -e 's/\\"/`/g' -e 's/.*"error":{"code":"[^"]*","what":"\([^"]*\)","at":"\([^"]*\)".*/\1: \2/p' -e t \
    -e 's/.*"error":{"code":"[^"]*","what":"\([^"]*\)".*/\1/p' -e t -e '$p'
}
degraded() { [[ $answer == *'"status":"degraded"'* ]]; }

# The policy of a step is in the environment, not in flags: products state the command line, and
# those of predict and amend must have the same bytes.
case $step in
predict)
  export ENSEMBLE_MEMBERS_DEADLINE=$DEADLINE
  attempt predict
  case $code in
  65) alarm refused "$(why)" ;;
  66) alarm late "$(why)" ;;
  *)
    degraded || exit 0
    alarm degraded "published with less than expected, see $PRODUCTS/$init/manifest.json"
    exit 10
    ;;
  esac
  exit 11
  ;;
deliver) attempt deliver ;;
amend)
  : "${AMEND_WAIT:=$AMEND_EVERY}"
  export ENSEMBLE_MEMBERS_DEADLINE=$AMEND_DEADLINE ENSEMBLE_MEMBERS_WAIT=${AMEND_WAIT}s
  begin=$SECONDS again=''
  while attempt predict; do
    if [ $code -eq 0 ]; then
      published=$answer
      if [[ $answer == *'"existing":0'* ]]; then run handover; fi
      [ $code -eq 0 ] && answer=$published degraded || exit $code
    fi
    if [ $((SECONDS - begin)) -lt "$AMEND_WAIT" ]; then # it is the deadline, or files changed while they were read
      [ $code -ne 0 ] && [ -z "$again" ] || break
      again=yes
      run pause
    elif [ "$AMEND_WAIT" -lt "$AMEND_EVERY" ]; then
      exit 12
    fi
    begin=$SECONDS
  done
  [ -f "$PRODUCTS/$init/manifest.json" ] && exit 0
  alarm gave_up "nothing is published: $(why)"
  exit 1
  ;;
*)
  echo "step.sh: $step is not predict, deliver or amend" >&2
  exit 1
  ;;
esac
