# One step of an initialisation. A signal to the job stops it, and so does its time limit.
timeout --kill-after=2m %TIME_LIMIT% "$OPS/step.sh" %TASK% %INIT% &
child=$!
trap 'kill -TERM $child' TERM INT HUP USR1 XCPU
wait $child
rc=$?
while kill -0 $child 2>/dev/null; do
  wait $child
  rc=$?
done
why="ended with $rc, see the alarms"
case $rc in
124 | 137)
  why="stopped after %TIME_LIMIT%, or killed"
  (. "$SITE" && "$ALARM" failed %INIT% "%TASK%: $why")
  ;;
esac
case $rc in 0 | 10 | 11) ;; *) exit ;; esac
