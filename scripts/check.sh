#!/usr/bin/env bash
# The daily loop: gofmt, go vet and the tests of the packages that were changed since the branch left main, uncommitted and
# new files included, and a build of all.
#   scripts/check.sh GO [BASE]        BASE: compare with this commit instead of main
#
# Exit: 0 all passed; 1 something failed, after the rest has run.
set -uo pipefail
cd "$(dirname "$0")/.."
go=$1 base=$(git merge-base HEAD "${2:-main}" 2>/dev/null || git rev-parse HEAD)

mapfile -t changed < <({ git diff --name-only "$base" && git ls-files --others --exclude-standard; } | sort -u)
# A file belongs to the first folder above it that has Go files: so do testdata and embedded pages.
declare -A folders=()
sources=()
for file in "${changed[@]}"; do
  [[ $file != *.go || ! -e $file ]] || sources+=("$file")
  folder=$(dirname "$file")
  while [ "$folder" != . ] && ! compgen -G "$folder/*.go" >/dev/null; do folder=$(dirname "$folder"); done
  [ "$folder" = . ] || folders[./$folder]=1
done
mapfile -t packages < <(printf '%s\n' "${!folders[@]}" | sort)
if [ ${#folders[@]} -eq 0 ]; then
  echo "make check: no package was changed since $(git log -1 --format='%h' "$base")"
  exit 0
fi

failed=0
check() { # check COMMAND...: prints the command and its run time
  local start=$SECONDS
  echo "== $*"
  "$@" || failed=1
  echo "   $((SECONDS - start)) s"
}
gofmt() { # gofmt FLAGS FILES...: fails if it names any
  local files
  files=$(command gofmt "$@") && [ -z "$files" ] || { echo "gofmt would change: $files"; return 1; }
}
[ ${#sources[@]} -eq 0 ] || check gofmt -l "${sources[@]}"
check "$go" build ./...
check "$go" vet -cgocall=false "${packages[@]}"
check "$go" test "${packages[@]}"
exit $failed
