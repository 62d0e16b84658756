#!/bin/bash
# deliver.sh INIT: passes the products of an initialisation on, when they are published, and again
# when they were amended. Replace it by the processing of your site; this one checks them and
# writes a line to a file. Check copies by SHA256SUMS too: amend may replace the folder meanwhile.
set -eu
cd "$PRODUCTS/$1"
sha256sum --check --quiet --strict SHA256SUMS
status=$(sed -n 's/^ *"status": *"\([a-z]*\)".*/\1/p' manifest.json)
printf '%s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ) $1 $status" >>"$LOGS/delivered"
