#!/bin/bash
# Slurm: submits the predictions of all cycles from day FIRST to day LAST. Each job begins DUE
# seconds after its initialisation. Once a day by cron, for the next day:
#
#   submit.sh FIRST [LAST]       such as submit.sh 20260101
#
# Ends with 64, and submits nothing, if AMEND_DEADLINE is a duration (deadline.sh).
set -eu
day=${1:?the first day, such as 20260101} last=${2:-$1}
: "${CYCLES:=00 12}" "${DUE:=10800}" "${OPS:=$(cd "$(dirname "$0")/.." && pwd)}"
export OPS
"$OPS/slurm/deadline.sh"
while [ "$day" -le "$last" ]; do
  for hour in $CYCLES; do
    begin=$(date -u -d "@$(($(date -u -d "$day $hour:00" +%s) + DUE))" +%Y-%m-%dT%H:%M:%S)
    # sbatch takes times of day in its time zone; the job has this one too.
    TZ=UTC sbatch --begin="$begin" --export=ALL,INIT="$day$hour" --job-name="predict-$day$hour" "$OPS/slurm/predict.sbatch"
  done
  day=$(date -u -d "$day 1 day" +%Y%m%d)
done
