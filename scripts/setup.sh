#!/usr/bin/env bash
# Installs what `make build` (stage "build"), `make test` (stage "test"), `make deb` (stage
# "deb") and notebooks (stage "kernel") need, and nothing that is already installed; the last three
# include the first. Running it again is free. It leaves in the checkout build/go, a link to a
# Go tool chain that is new enough; for notebooks and tests build/kernel, the Go kernel of
# notebooks; for notebooks also gopls there, and JupyterLab in build/jupyter; and build/venv and build/cylc, Python
# packages that only tests and the package of clients/python use.
#
# The stage "kernel-parts" installs nothing for notebooks: it fails if a part of the stage "kernel" that the tests do not have
# cannot be fetched.
#
#   scripts/setup.sh build|test|deb|kernel|kernel-parts
#
# Exit: 0 all is installed; 69 this system is unsupported or cannot be changed, with the
# list of missing packages.
set -euo pipefail
cd "$(dirname "$0")/.."

stage=${1:-build}
case $stage in build | test | deb | kernel | kernel-parts) ;; *) echo "usage: scripts/setup.sh build|test|deb|kernel|kernel-parts" >&2; exit 64 ;; esac

go_want=1.26.10 # the tool chain that go.mod names; packages are built with no older one
build_packages=(ca-certificates git make gcc libc6-dev pkg-config libnetcdf-dev libhdf5-dev libeccodes-dev libaec-dev libdeflate-dev libdnnl-dev)
test_packages=(g++ python3 python3-venv openmpi-bin mpich cdo nco gdal-bin r-base-core r-cran-ncdf4 libeccodes-tools fonts-liberation chromium graphviz hunspell hunspell-en-gb mandoc groff-base bash-completion zsh fish
  ecflow-server ecflow-client slurm-wlm munge rsync systemd prometheus curl)
deb_packages=(dpkg-dev xz-utils)

say() { echo "setup: $*" >&2; }

# watch PID TEXT LOG: while a process runs, shows for how long and the last line of its log: one line that is updated
# on a terminal, a line every 20 seconds elsewhere. Returns the exit code of the process.
watch() {
  local begun=$SECONDS shown=$SECONDS text last
  while kill -0 "$1" 2>/dev/null; do
    last=$(tail -n 1 "$3" 2>/dev/null | tr -d '\r' | tr -c '[:print:]' ' ') || true
    text="setup: $2, $((SECONDS - begun)) s${last:+: $last}"
    if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; then
      printf '\r\033[K%s' "${text:0:$(($(tput cols 2>/dev/null || echo 80) - 1))}" >&2
    elif [ $((SECONDS - shown)) -ge 20 ]; then
      echo "$text" >&2
      shown=$SECONDS
    fi
    sleep 0.5
  done
  if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; then printf '\r\033[K' >&2; fi
  wait "$1"
}
fail() { # fail WHAT WHY FIX
  printf 'ensemble: error[E069]: %s\n  at: scripts/setup.sh %s\n  why: %s\n  fix: %s\n' "$1" "$stage" "$2" "$3" >&2
  exit 69
}

# --- system packages -------------------------------------------------------------

# known_system: does this system use apt, as Debian and Ubuntu do?
known_system() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

# lacking PACKAGE...: the packages of the list that are not installed, by name.
lacking() {
  local p
  for p in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
  done
}

# probe: on other systems, a text about what cannot be found.
probe() {
  local lib
  for lib in git make gcc pkg-config; do command -v $lib >/dev/null || echo "$lib"; done
  command -v pkg-config >/dev/null && for lib in netcdf hdf5 eccodes; do pkg-config --exists $lib || echo "$lib (library and headers)"; done
  command -v gcc >/dev/null && { echo '#include <dnnl.h>' | gcc -E - >/dev/null 2>&1 || echo "oneDNN 2.6 or later (library and headers)"; }
  for lib in libaec libdeflate; do command -v gcc >/dev/null && { echo "#include <$lib.h>" | gcc -E - >/dev/null 2>&1 || echo "$lib (library and headers)"; }; done
  [ "$stage" != test ] || for lib in g++ python3 cdo ncks gdalinfo Rscript grib_ls chromium; do command -v $lib >/dev/null || echo "$lib"; done
}

# as_root COMMAND...: runs it as root, through sudo where we are not root.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "packages are missing and cannot be installed" "not root, and sudo is not here" "as root: apt-get install ${missing[*]}"; fi
}

# without_services COMMAND...: runs a command that installs packages as root. Until it ends, policy-rc.d forbids that
# packages start their services, such as Prometheus on port 9090: tests start what they need, on ports of their own. A
# policy that the system has already stays.
without_services() {
  # shellcheck disable=SC2016
  as_root sh -c 'policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ] && [ ! -L $policy ]; then
      trap "rm -f $policy" EXIT
      trap "exit 1" INT TERM HUP
      printf "#!/bin/sh\nexit 101\n" >$policy && chmod 755 $policy || exit 1
    fi
    "$@"' sh "$@"
}

install() {
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
  local log=build/setup-apt.log
  mkdir -p build
  { as_root "${apt[@]}" update && without_services "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null &
  if ! watch $! "installing ${#missing[@]} packages" "$log"; then
    tail -n 15 "$log" >&2
    fail "apt-get could not install ${missing[*]}" "see the lines above and $log" "install them by hand, then run this again"
  fi
}

# Ubuntu has Chromium as a snap only; an installed browser suffices.
browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

system_packages() {
  local wanted=("${build_packages[@]}")
  if ! known_system; then
    mapfile -t missing < <(probe)
    [ ${#missing[@]} -eq 0 ] || fail "missing: $(printf '%s; ' "${missing[@]}")" \
      "this is neither Debian nor Ubuntu, so the script does not know how to install them" \
      "install them by your system's means (Debian's names: ${build_packages[*]} ${test_packages[*]}), then run this again"
    return
  fi
  if [ "$stage" = test ]; then
    wanted+=("${test_packages[@]}")
    if browser >/dev/null || grep -qi '^ID=ubuntu' /etc/os-release; then wanted=("${wanted[@]/chromium/}"); fi
  fi
  [ "$stage" != deb ] || wanted+=("${deb_packages[@]}")
  [ "$stage" != kernel ] || wanted+=(graphviz python3 python3-venv) # graphviz draws the graphs of a notebook
  local list=()
  for p in "${wanted[@]}"; do [ -z "$p" ] || list+=("$p"); done
  mapfile -t missing < <(lacking "${list[@]}")
  [ ${#missing[@]} -eq 0 ] || install
}

# --- Go ---------------------------------------------------------------------------

# version_of GO: its version as a number that compares, 1.26.10 -> 1026010; 0 if it does not run.
version_of() {
  local v
  v=$(cd / && GOTOOLCHAIN=local "$1" version 2>/dev/null | sed -n 's/.* go\([0-9.]*\).*/\1/p') || true
  awk -F. -v v="$v" 'BEGIN { n = split(v, a, "."); print n ? a[1]*1000000 + a[2]*1000 + a[3] : 0 }'
}

link_go() { # link_go GOROOT
  mkdir -p build
  ln -sfn "$1" build/go
}

# fetch_go GO: the tool chain go_want as a module, from wherever modules come from on this machine, verified by the
# checksum database. Any version of the go command can do that; an old one drops the run bits. False if it does not come.
fetch_go() {
  local arch root module scratch got=0
  arch=$(cd / && "$1" env GOARCH)
  module=golang.org/toolchain@v0.0.1-go$go_want.linux-$arch
  root=$(cd / && "$1" env GOMODCACHE)/$module
  say "fetching Go $go_want"
  mkdir -p build
  scratch=$(mktemp -d)
  (cd "$scratch" && GOTOOLCHAIN=local GOFLAGS= "$1" mod download "$module") >build/setup-go.log 2>&1 &
  watch $! "fetching Go $go_want" build/setup-go.log || got=1
  rm -rf "$scratch"
  [ $got -eq 0 ] || return 1
  chmod -R u+w "$root"
  chmod +x "$root"/bin/* "$root"/pkg/tool/*/*
  link_go "$root"
}

# go_toolchain: a Go of at least go_want in build/go. If it cannot be fetched, an older one that go.mod permits has to do,
# but not for packages.
go_toolchain() {
  local want minimum go found='' version=0
  want=$(awk -v v=$go_want 'BEGIN { split(v, a, "."); print a[1]*1000000 + a[2]*1000 + a[3] }')
  minimum=$((want / 1000 * 1000))
  for go in "$PWD/build/go/bin/go" "$(command -v go || true)" /usr/local/go/bin/go "$HOME/go/bin/go"; do
    if [ -n "$go" ] && [ -x "$go" ]; then
      version=$(version_of "$go")
      if [ "$version" -ge "$want" ]; then
        [ "$go" = "$PWD/build/go/bin/go" ] || link_go "$(cd / && GOTOOLCHAIN=local "$go" env GOROOT)"
        return
      fi
      [ -n "$found" ] || [ "$version" -lt $minimum ] || found=$go
    fi
  done
  go=${found:-$(command -v go || true)}
  if [ -z "$go" ]; then
    known_system || fail "Go ${go_want%.*} or later is missing" "it is not on PATH" "install it, then run this again"
    missing=(golang-go)
    install
    go=$(command -v go)
  fi
  if fetch_go "$go"; then
    [ "$(version_of "$PWD/build/go/bin/go")" -ge "$want" ] || fail "the fetched Go does not run" "$(readlink build/go)" "install Go $go_want or later, then run this again"
    return
  fi
  tail -n 15 build/setup-go.log >&2
  if [ -n "$found" ] && [ "$stage" != deb ]; then
    say "Go $go_want could not be fetched: $(cd / && GOTOOLCHAIN=local "$found" env GOVERSION) has known vulnerabilities (make vulnerabilities)"
    [ "$found" = "$PWD/build/go/bin/go" ] || link_go "$(cd / && GOTOOLCHAIN=local "$found" env GOROOT)"
    return
  fi
  fail "Go $go_want could not be fetched" "the go command's module proxy did not deliver it" "install Go $go_want or later, then run this again"
}

# --- reference programs of the tests ------------------------------------------------

# python_packages FOLDER FILE: the packages of a list, in a folder of their own.
python_packages() {
  local want
  want=$(cat "$2")
  [ "$(cat "$1/installed.txt" 2>/dev/null)" != "$want" ] || return 0
  say "installing the Python packages of $2"
  local python=python3
  [ ! -x /usr/bin/python3 ] || python=/usr/bin/python3
  { { [ -x "$1/bin/pip" ] || $python -m venv --clear "$1"; } &&
    "$1/bin/pip" install --progress-bar off --no-compile --disable-pip-version-check -r "$2"; } >build/setup-pip.log 2>&1 &
  if ! watch $! "installing Python packages" build/setup-pip.log; then
    tail -n 15 build/setup-pip.log >&2
    fail "the Python packages of $2 could not be installed" "see the lines above" "make PyPI or a mirror reachable (pip config), then run this again"
  fi
  printf '%s\n' "$want" >"$1/installed.txt"
}

# --- the kernel of notebooks ----------------------------------------------------------

# go_kernel: GoNB, and goimports, which must be in the same folder, in build/kernel, with the entry
# that Jupyter finds through JUPYTER_DATA_DIR=build/kernel/jupyter. With --raw_error compiler errors are text with the
# line of the cell, not HTML.
go_kernel() {
  local want
  want="$(sha256sum scripts/kernel/go.mod) --raw_error"
  [ "$(cat build/kernel/installed.txt 2>/dev/null)" != "$want" ] || return 0
  say "building the Go kernel of notebooks"
  local here=$PWD
  mkdir -p build/kernel
  { (cd scripts/kernel && GOFLAGS= "$here/build/go/bin/go" build -trimpath -ldflags '-s -w' -o "$here/build/kernel/" github.com/janpfeifer/gonb golang.org/x/tools/cmd/goimports) &&
    PATH=$here/build/kernel:$here/build/go/bin:$PATH JUPYTER_DATA_DIR=$here/build/kernel/jupyter build/kernel/gonb --install --force_deps --raw_error; } >build/setup-kernel.log 2>&1 &
  if ! watch $! "building the Go kernel" build/setup-kernel.log; then
    tail -n 15 build/setup-kernel.log >&2
    fail "the Go kernel of notebooks could not be built" "see the lines above" "make the module proxy reachable (go env GOPROXY), then run this again"
  fi
  printf '%s\n' "$want" >build/kernel/installed.txt
}

gopls_want=v0.21.1 # needs the Go of go_want

# language_server: gopls in the folder of the kernel, which asks it for completions and documentation.
language_server() {
  [ "$(cat build/kernel/gopls.txt 2>/dev/null)" != $gopls_want ] || return 0
  say "building gopls"
  GOFLAGS= GOBIN=$PWD/build/kernel build/go/bin/go install -trimpath -ldflags '-s -w' golang.org/x/tools/gopls@$gopls_want >build/setup-kernel.log 2>&1 &
  if ! watch $! "building gopls" build/setup-kernel.log; then
    tail -n 15 build/setup-kernel.log >&2
    fail "gopls could not be built" "see the lines above" "make the module proxy reachable (go env GOPROXY), then run this again"
  fi
  printf '%s\n' $gopls_want >build/kernel/gopls.txt
}

# compiled_cells: the packages of cells in Go's build cache, with the flags of the kernel, so that the first cell links
# only.
compiled_cells() {
  say "compiling what cells import"
  (unset GOFLAGS CGO_CFLAGS; build/go/bin/go build ./notebooks ./cmd/ensemble-decode) >build/setup-kernel.log 2>&1 &
  if ! watch $! "compiling what cells import" build/setup-kernel.log; then
    tail -n 15 build/setup-kernel.log >&2
    fail "the packages of cells do not compile" "see the lines above" "correct the code, then run this again"
  fi
}

# kernel_parts: can gopls, for this Go, and JupyterLab with all that it needs be fetched? The kernel itself is that of the tests.
kernel_parts() {
  local needs
  mkdir -p build
  needs=$(cd / && GOFLAGS= GOTOOLCHAIN=local "$OLDPWD/build/go/bin/go" list -m -f '{{.GoVersion}}' "golang.org/x/tools/gopls@$gopls_want" 2>"$OLDPWD/build/setup-kernel.log") || {
    tail -n 15 build/setup-kernel.log >&2
    fail "gopls $gopls_want cannot be fetched" "see the lines above" "correct gopls_want, or make the module proxy reachable (go env GOPROXY)"
  }
  [ "$(printf '%s\n' "$needs" "$go_want" | sort -V | tail -n 1)" = "$go_want" ] ||
    fail "gopls $gopls_want needs Go $needs" "notebooks have Go $go_want" "correct gopls_want"
  build/venv/bin/pip install --dry-run --ignore-installed --quiet --disable-pip-version-check -r scripts/requirements-kernel.txt >build/setup-kernel.log 2>&1 || {
    tail -n 15 build/setup-kernel.log >&2
    fail "the Python packages of scripts/requirements-kernel.txt cannot be fetched" "see the lines above" "correct the versions, or make PyPI or a mirror reachable (pip config)"
  }
}

missing=()
system_packages
go_toolchain
case $stage in test | kernel-parts) python_packages build/venv scripts/requirements-test.txt ;; esac
if [ "$stage" = test ]; then
  python_packages build/cylc scripts/requirements-cylc.txt
fi
case $stage in test | kernel) go_kernel ;; esac
[ "$stage" != kernel-parts ] || kernel_parts
if [ "$stage" = kernel ]; then
  language_server
  python_packages build/jupyter scripts/requirements-kernel.txt
  compiled_cells
  echo "Start JupyterLab with
  PATH=$PWD/build/kernel:$PWD/build/go/bin:\$PATH JUPYTER_DATA_DIR=$PWD/build/kernel/jupyter build/jupyter/bin/jupyter lab notebooks"
fi
