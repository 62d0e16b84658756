# One step of an init, and its report to the server. An abort is tried again, up to
# ECF_TRIES times, unless step.sh reports that another attempt is useless.
"$OPS/step.sh" %TASK% %YMD%%HH% &
child=$!
trap 'kill -TERM $child' TERM INT HUP USR1 XCPU
wait $child
rc=$?
while kill -0 $child 2>/dev/null; do
  wait $child
  rc=$?
done
case $rc in
0) ecflow_client --label=info "published" ;;
10)
  ecflow_client --label=info "published, degraded"
  ecflow_client --event=degraded
  ;;
75)
  ecflow_client --label=info "try $TRY ends, again"
  why="try again"
  exit
  ;;
*)
  ecflow_client --label=info "not published, see the alarms"
  ecflow_client --alter=add variable ECF_TRIES 1 "$ECF_NAME" # for this task, until it is run by hand
  why="not to be tried again"
  exit
  ;;
esac
