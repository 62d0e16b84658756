#!/bin/bash
# The head of every task: tells the server that it began, and if it ends in any way but by
# tail.h that it was aborted, with the reason. It always exits with 0: the server takes another
# status of a job that it started for an abort too, and would abort the next try.
set -u
export ECF_PORT=%ECF_PORT% ECF_HOST=%ECF_HOST% ECF_NAME=%ECF_NAME% ECF_PASS='%ECF_PASS%' ECF_TRYNO=%ECF_TRYNO% ECF_RID=$$
export OPS='%OPS%' SITE='%SITE%' TRY=%ECF_TRYNO% TRIES=%TRIES%
ecflow_client --init=$$
ecflow_client --alter=delete variable ECF_TRIES "$ECF_NAME" >/dev/null 2>&1 || true # of step.h, if it said so before
why="the script ended early"
aborted() {
  trap - EXIT TERM INT HUP USR1 XCPU
  ecflow_client --abort="$1"
  exit 0
}
trap 'aborted "$why"' EXIT
trap 'why="a signal"' TERM INT HUP USR1 XCPU # the task goes on until its command has ended
