#!/usr/bin/env bash
# Runs `go build -v` and shows how far it is: one line that is updated on a terminal, a line every 20 seconds
# elsewhere. Packages that are in the build cache are not compiled again and not counted. What the compiler
# prints is passed on.
#
#   scripts/build.sh GO FLAGS... PACKAGES
#
# Exit: that of go build.
set -euo pipefail
go=$1
shift

terminal=
if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; then terminal=yes; fi

begun=$SECONDS
total=0     # packages of the program, with those of Go itself
compiled=0  # of these, compiled until now
fetched=0   # modules fetched
now=        # what is done at the moment
shown=0     # SECONDS of the last line
cleared=yes # nothing is shown on the last line

clear_line() {
  [ -n "$cleared" ] || printf '\r\033[K' >&2
  cleared=yes
}

# show: what is done at the moment.
show() {
  local text
  if [ $compiled -eq 0 ] && [ $fetched -eq 0 ]; then text="build: checking what changed, linking"
  elif [ $compiled -eq 0 ]; then text="build: fetching modules, $fetched"
  else text="build: compiling, $compiled of at most $total packages"; fi
  text+=", $((SECONDS - begun)) s${now:+: ${now#github.com/ensemble-weather/ensemble/}}"
  if [ -n "$terminal" ]; then
    local columns
    columns=$(tput cols 2>/dev/null || echo 80)
    printf '\r\033[K%s' "${text:0:$((columns - 1))}" >&2
    cleared=
  elif [ $((SECONDS - shown)) -ge 20 ]; then
    echo "$text" >&2
    shown=$SECONDS
  fi
}

# take LINE: a line that go build printed.
take() {
  case $1 in
  "go: downloading "*) fetched=$((fetched + 1)) now=${1#go: downloading } ;;
  *[[:space:]]* | "") clear_line; printf '%s\n' "$1" >&2 ;;
  *) compiled=$((compiled + 1)) now=$1 ;;
  esac
}

show
total=$("$go" list -deps "${@: -1}" 2>/dev/null | wc -l) || true
shown=$SECONDS
part=
code=0
# The last line has the exit code, as a process substitution has none.
while true; do
  status=0
  IFS= read -r -t 1 line || status=$?
  part+=$line
  if [ $status -gt 128 ]; then show; continue; fi # a second passed
  if [ $status -ne 0 ]; then break; fi
  case $part in
  "exit code "*) code=${part#exit code } ;;
  *) take "$part"; show ;;
  esac
  part=
done < <("$go" build -v "$@" 2>&1; echo "exit code $?")
clear_line
if [ $compiled -gt 0 ] && [ "$code" -eq 0 ]; then
  echo "build: $compiled packages compiled in $((SECONDS - begun)) s" >&2
fi
exit "$code"
