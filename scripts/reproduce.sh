#!/usr/bin/env bash
# Makes the Debian package of the commit twice and compares: once in this checkout, with Go's build cache as it is, and once from
# a clone in another folder with a path of another length, with an empty build cache, another umask, time zone, language and folder of temporary files,
# and at another time. Modules come from the same module cache, where go.sum verifies them.
#
#   scripts/reproduce.sh [CACHE]      CACHE: build cache of the second build, with no objects that were compiled in this checkout
#
# Exit: 0 the packages are equal; 1 they differ, with the names of the files that differ; 65 the checkout has changes; otherwise the exit
# code of what failed.
set -euo pipefail
cache=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain)" ] || { echo "reproduce: the checkout has changes: commit them, or run this in a clone" >&2; exit 65; }
described=$(git describe --tags --always --abbrev=12)

# made FOLDER: the package that was made there last.
made() { ls -t "$1"/build/ensemble_*.deb | sed -n 1p; }

scripts/deb.sh "$described"
first=$(made .)

there=$(mktemp -d)
trap 'chmod -R u+w "$there" && rm -rf "$there"' EXIT
clone=$there/a/folder/whose/name/is/much/longer/than/that/of/the/checkout
git clone --quiet --no-checkout . "$clone"
git -C "$clone" checkout --quiet --detach "$(git rev-parse HEAD)"
mkdir -p "$clone/build" "$there/tmp"
ln -s "$(readlink -f build/go)" "$clone/build/go"
(umask 077 && GOCACHE=${cache:-$there/cache} TMPDIR=$there/tmp TZ=Asia/Kathmandu LANG=C.UTF-8 CGO_CFLAGS=-O0 "$clone/scripts/deb.sh" "$described")
second=$(made "$clone")

sha256sum "$first" "$second"
if cmp -s "$first" "$second"; then
  echo "reproduce: two builds of $described have the same bytes"
  exit 0
fi
dpkg-deb -R "$first" "$there/first"
dpkg-deb -R "$second" "$there/second"
echo "reproduce: two builds of $described differ:" >&2
diff -rq "$there/first" "$there/second" >&2 || true
exit 1
