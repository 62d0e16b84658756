#!/usr/bin/env bash
# Makes the image of Containerfile by the first builder that is here.
#
#   scripts/image.sh NAME VERSION [OPTION…]      OPTIONs of the builder
#
# Base images are used by their digests, so that the same commit and lock give the same base. image.lock, if it is there, has
# them, a line "NAME DIGEST" for each. Otherwise the present ones are asked for and written to build/image.lock: copy that file
# to image.lock to keep them.
#
# Exit: 0 made; 64 a lock without a base image; 66 no clone; 69 no builder; otherwise that of the builder.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 version=$2
shift 2

for builder in podman buildah docker ''; do [ -z "$builder" ] || ! command -v "$builder" >/dev/null || break; done
[ -n "$builder" ] || { echo "make image: none of podman, buildah and docker is here" >&2; exit 69; }
[ -d .git ] || { echo "make image: the image is made from a clone, and .git is not a folder here" >&2; exit 66; }

# digest IMAGE: what its name stands for at present.
digest() {
  "$builder" pull "$1" >&2
  case $builder in
  buildah) buildah inspect --type image --format '{{.FromImageDigest}}' "$1" ;;
  *) "$builder" image inspect --format '{{index .RepoDigests 0}}' "$1" | sed 's/.*@//' ;;
  esac
}

images=$(sed -n 's/^ARG [A-Z]*BASE=//p' Containerfile)
lock=image.lock
if [ ! -e $lock ]; then
  lock=build/image.lock
  mkdir -p build
  for i in $images; do
    sum=$(digest "$i") || sum=
    [[ $sum == sha256:* ]] || { echo "make image: $builder has no digest of $i, but \"$sum\"" >&2; exit 69; }
    printf '%s %s\n' "$i" "$sum"
  done >$lock.new
  mv $lock.new $lock
fi
options=(--label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.revision=$(git rev-parse HEAD)"
  --label "org.opencontainers.image.created=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)")
while IFS='= ' read -r _ arg image; do
  sum=$(awk -v image="$image" '$1 == image {print $2}' $lock)
  [ -n "$sum" ] || { echo "make image: $lock has no digest of $image: add a line \"$image DIGEST\"" >&2; exit 64; }
  options+=(--build-arg "$arg=${image%:*}@$sum")
  base=$image basesum=$sum # the last one is that of the image itself
done < <(grep '^ARG [A-Z]*BASE=' Containerfile)
options+=(--label "org.opencontainers.image.base.name=$base" --label "org.opencontainers.image.base.digest=$basesum")
[ "$builder" = docker ] || options+=(--format docker) # OCI's form of images has no health check
exec "$builder" build "${options[@]}" "$@" -t "$name" -f Containerfile .
