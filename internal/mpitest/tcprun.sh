#!/bin/bash
# tcprun -n K PROGRAM [: -n K PROGRAM]...: starts the processes of a job over TCP on this machine, as mpirun does under MPI.
# When one has failed, the others have five seconds to end. The exit code is that of the first failure.
programs=()
while [ $# -gt 0 ]; do
  n=$2; shift 2
  program=()
  while [ $# -gt 0 ] && [ "$1" != : ]; do program+=("$1"); shift; done
  shift
  for ((; n > 0; n--)); do programs+=("$(printf '%q ' "${program[@]}")"); done
done
export ENSEMBLE_RANKS=${#programs[@]} ENSEMBLE_COORDINATOR=127.0.0.1:$((20000 + RANDOM % 10000))
declare -A rank
for r in "${!programs[@]}"; do
  ENSEMBLE_RANK=$r bash -c "exec ${programs[r]}" &
  rank[$!]=$r
done
code=0
for _ in "${programs[@]}"; do
  wait -n -p ended
  status=$?
  if [ $status -gt 128 ]; then
    echo "rank ${rank[$ended]} was killed by signal $((status - 128))" >&2
  elif [ $status -gt 0 ]; then
    echo "rank ${rank[$ended]} ended with exit code $status" >&2
  fi
  unset "rank[$ended]"
  if [ $status -ne 0 ] && [ $code -eq 0 ]; then
    code=$status
    others=${!rank[*]}
    if [ -n "$others" ]; then
      { sleep 5 && kill -KILL $others; } >/dev/null 2>&1 & # not the output of the job, whose reader waits until all have closed it
      killer=$!
      disown
    fi
  fi
done
[ -n "$killer" ] && kill "$killer" 2>/dev/null
exit $code
