#!/usr/bin/env bash
# Runs every fuzz target of the module for a while each.
#   scripts/fuzz.sh GO TIME        for example: scripts/fuzz.sh go 20s
set -euo pipefail
go=$1 time=$2 found=0
for package in $("$go" list ./...); do
  while read -r target; do
    found=$((found + 1))
    echo "== $package $target"
    "$go" test "$package" -run='^$' -fuzz="^$target\$" -fuzztime="$time" -parallel=2
  done < <("$go" test "$package" -list='^Fuzz' | grep '^Fuzz' || true)
done
echo "$found fuzz targets, ${time} each, no failure"
