#!/usr/bin/env bash
# Makes build/ensemble_VERSION_ARCH.deb from the checkout: both programs, manual
# pages, completions, examples, licences, and beside it ensemble_VERSION_ARCH.cdx.json, the list of
# all parts, which the package has too. The same commit on the same system gives the same bytes
# (scripts/reproduce.sh).
#
#   scripts/deb.sh VERSION        VERSION as `git describe --tags --always --dirty` gives it
#
# Exit: 0 made; otherwise the exit code of dpkg or the compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
described=$1
export LC_ALL=C TZ=UTC
go=$PWD/build/go/bin/go
arch=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
day=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)

# In Debian's form: v1.2.3 -> 1.2.3, five commits later 1.2.3+5.gabcdef, and before
# there is a tag a version that is older than all with one.
case $described in
  v[0-9]*) version=$(sed -E 's/^v//; s/-([0-9]+)-(g[0-9a-f]+)/+\1.\2/; s/-/+/g' <<<"$described") ;;
  *) version="0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d.%H%M%S).${described//-/+}" ;;
esac

work=build/deb
root=$PWD/$work/root
rm -rf "$work"
mkdir -p "$root/usr/bin" "$root/usr/share/man" "$root/DEBIAN" "$work/debian"

# supported FLAG...: does the compiler take the flags without a warning?
supported() { gcc -Werror -O2 "$@" -x c -c -o /dev/null - <<<'#include <stdlib.h>' 2>/dev/null; }

# Protections against faults of C code, and programs whose addresses are random (decision 0047). Variables of the caller
# do not change the bytes.
cflags="-O2 -g -Wno-deprecated-declarations -U_FORTIFY_SOURCE"
if supported -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3; then cflags+=" -D_FORTIFY_SOURCE=3"; else cflags+=" -D_FORTIFY_SOURCE=2"; fi
for flag in -fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard; do
  ! supported "$flag" || cflags+=" $flag"
done
# program NAME BIND: builds a program whose functions of libraries are bound at its start (now) or when they are first called (lazy).
program() (
  unset CGO_CPPFLAGS CGO_LDFLAGS GOAMD64 GOARM64 GOEXPERIMENT
  export GOFLAGS=-trimpath CC=gcc CGO_ENABLED=1 CGO_CFLAGS=$cflags
  "$go" build -p 2 -buildvcs=false -buildmode=pie -ldflags "-s -w -extldflags=-Wl,-z,relro,-z,$2,-z,noexecstack \
    -X github.com/ensemble-weather/ensemble/internal/version.described=$described" -o "$root/usr/bin/" "./cmd/$1"
)
program ensemble lazy # go-nvml leaves the functions of NVML to be found after its library is opened
program ensemble-decode now
ensemble=$root/usr/bin/ensemble
"$go" run ./scripts/hardened -lazy "$ensemble"
"$go" run ./scripts/hardened "$root/usr/bin/ensemble-decode"

"$ensemble" man --out "$root/usr/share/man" --date "$day" >/dev/null
"$ensemble" completion bash | install -D -m 644 /dev/stdin "$root/usr/share/bash-completion/completions/ensemble"
"$ensemble" completion zsh | install -D -m 644 /dev/stdin "$root/usr/share/zsh/vendor-completions/_ensemble"
"$ensemble" completion fish | install -D -m 644 /dev/stdin "$root/usr/share/fish/vendor_completions.d/ensemble.fish"

doc=$root/usr/share/doc/ensemble
share=$root/usr/share/ensemble # what operations need: minimal images leave /usr/share/doc out
install -D -m 644 ensemble/run/demo/demo.yaml "$doc/examples/train.yaml"
mkdir -p "$share"
install -m 644 docs/examples/*.yaml "$share/"
for f in experiments/*/*.yaml; do install -D -m 644 "$f" "$doc/examples/${f#experiments/}"; done
cp -r docs/ops "$share/"
find "$share" -type d -exec chmod 755 {} + -o -perm /111 -exec chmod 755 {} + -o -exec chmod 644 {} +
for f in docs/ops/*.service; do
  [ ! -e "$f" ] || install -D -m 644 "$f" "$root/lib/systemd/system/${f##*/}"
done
"$go" run ./scripts/licences ./cmd/... | install -m 644 /dev/stdin "$doc/copyright"
maintainer=$(git log -1 --format='%an <%ae>')
{
  printf 'ensemble (%s) unstable; urgency=medium\n\n  * Built from %s; see changelog.gz.\n\n' "$version" "$described"
  printf ' -- %s  %s\n' "$maintainer" "$(date -u -d "@$SOURCE_DATE_EPOCH" -R)"
} | gzip -n9 >"$doc/changelog.Debian.gz"
gzip -n9 <CHANGELOG.md >"$doc/changelog.gz"
find "$root/usr/share/man" -type f -exec gzip -n9 {} +

# The shared libraries that the programs are linked with become packages and versions.
cat >"$work/debian/control" <<CONTROL
Source: ensemble

Package: ensemble
Architecture: any
CONTROL
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/ensemble root/usr/bin/ensemble-decode | sed -n 's/^shlibs:Depends=//p')

# Libraries opened at run time are recommended or suggested. Debian names oneDNN after its
# interface; the library that was found here is the one that was tested.
onednn=$(dpkg -S '/usr/lib/*/libdnnl.so.*' | sed -n '1s/:.*//p')
library=$(ls /usr/lib/*/libdnnl.so.? | sed -n 1p)
"$go" run ./scripts/sbom -version "$version" -epoch "$SOURCE_DATE_EPOCH" -opened "${library##*/}" \
  "$ensemble" "$root/usr/bin/ensemble-decode" | install -m 644 /dev/stdin "$share/ensemble.cdx.json"
# Every file in whole KiB and 1 KiB for anything else, as dpkg-gencontrol counts: sizes of folders depend on the file system.
size=$(find "$root" -path "$root/DEBIAN" -prune -o -printf '%y %s\n' | awk '{kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1} END {print kib}')
cat >"$root/DEBIAN/control" <<CONTROL
Package: ensemble
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $size
Depends: $depends
Recommends: ${onednn:-libdnnl2}
Suggests: openmpi-bin | mpich, libeccodes-tools, cdo
Section: science
Priority: optional
Homepage: https://github.com/ensemble-weather/ensemble
Description: calibrated distributions from ensemble weather forecasts
 ensemble learns from past forecasts and analyses to turn a few members of an
 ensemble weather forecast into a calibrated distribution: mean, spread,
 quantiles, probabilities and members, as CF NetCDF, GRIB2 or Zarr.
 .
 It reads GRIB, NetCDF and Zarr, trains 3-D U-Nets and other networks on an
 engine of its own, and scores what it predicts. "ensemble self-test" says
 whether an installation works.
CONTROL
# Scripts that dpkg runs after an upgrade, and before and after a removal.
install -m 755 scripts/debian/postinst scripts/debian/prerm scripts/debian/postrm "$root/DEBIAN/"
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

deb=build/ensemble_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz -z6 --build "$root" "$deb" >/dev/null
cp "$share/ensemble.cdx.json" "${deb%.deb}.cdx.json"
rm -rf "$work"
ls -l "$deb" "${deb%.deb}.cdx.json"
sha256sum "$deb"
