#!/bin/bash
# The head of every task: reports its begin to the server, and an abort with the reason if it
# ends other than by tail.h. It always exits with 0: the server treats another exit status
# of its job as an abort too, and would abort the next run.
set -u
export ECF_PORT=%ECF_PORT% ECF_HOST=%ECF_HOST% ECF_NAME=%ECF_NAME% ECF_PASS='%ECF_PASS%' ECF_TRYNO=%ECF_TRYNO% ECF_RID=$$
export OPS='%OPS%' SITE='%SITE%'
ecflow_client --init=$$
why="the script ended early"
aborted() {
  trap - EXIT TERM INT HUP USR1 XCPU
  ecflow_client --abort="$1"
  exit 0
}
trap 'aborted "$why"' EXIT
