# The two commands of the README are `make demo` and `make test`; the rest is for
# those who change the program. Every target installs what it needs first, through
# scripts/setup.sh, which does nothing when all is there.

SHELL   := /bin/bash
GO      := $(CURDIR)/build/go/bin/go
# The same length of the digest in every clone, whatever number of objects it has.
VERSION := $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null)
MODULE  := github.com/ensemble-weather/ensemble
# Without git the program names itself by its digest. The go command's own stamp has no tags, and it refuses to build
# in a clone of another owner: hence -buildvcs=false.
LDFLAGS := $(if $(VERSION),-X $(MODULE)/internal/version.described=$(VERSION))
# What the built program says, as a recipe's shell gets it.
BUILT   := $$(bin/ensemble version | sed 's/^ensemble \([^,]*\),.*/\1/')
THREADS := 2

# go-nvml includes headers that warn about names of their own.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
# Objects do not depend on the folder of the checkout, so that another clone finds them in Go's build cache, the C
# kernels too.
export GOFLAGS := $(strip -trimpath $(filter-out -trimpath,$(GOFLAGS)))
# The tool chain in build/go is the one that is used, also by `go tool`.
export PATH := $(CURDIR)/build/go/bin:$(PATH)

# What builds and passes its tests without a C compiler.
PUREGO := ./ensemble/... ./engine/... ./unet3d/... ./postproc/... ./internal/...

.PHONY: build demo test build-gpu check check-long race race-sample purego purego-sample fuzz bench lint format vet staticcheck arch links golden cover notebooks clean setup-build setup-test

build: setup-build
	@scripts/build.sh $(GO) -buildvcs=false -p $(THREADS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# What a machine with a GPU and nothing else needs to say where the engine stands there:
# copy build/gpu, or its archive, and run gpu.sh (docs/performance.md).
build-gpu: setup-build
	rm -rf build/gpu && mkdir -p build/gpu
	$(GO) build -buildvcs=false -trimpath -p $(THREADS) -ldflags '-s -w $(LDFLAGS)' -o build/gpu/ ./cmd/ensemble
	for p in engine/backend/conformance engine/backend/cuda engine/backend/cuda/cudnn spatial/comm/nccl; do \
	  $(GO) test -c -trimpath -p $(THREADS) -ldflags '-s -w' -o build/gpu/$${p##*/}.test ./$$p || exit 1; done
	cp benchmarks/gpu.sh benchmarks/gpu_pytorch.py benchmarks/pytorch.py build/gpu/
	tar -C build -czf build/ensemble-gpu.tar.gz gpu
	@ls -l build/ensemble-gpu.tar.gz

.PHONY: deb
# build/ensemble_VERSION_ARCH.deb for the Debian or Ubuntu that it is made on, and the list of its parts.
deb: setup-build
	@scripts/setup.sh deb
	scripts/deb.sh '$(VERSION)'

.PHONY: reproduce
# The package again from a clone in another folder, without Go's build cache: the same bytes? Half an hour on two processors.
reproduce: setup-build
	@scripts/setup.sh deb
	scripts/reproduce.sh

.PHONY: image
# The image of Containerfile, by the first builder that is here, with its options in IMAGE_ARGS.
IMAGE := ensemble
image:
	@scripts/image.sh '$(IMAGE)' '$(VERSION)' $(IMAGE_ARGS)

.PHONY: site
# The documentation as a site in build/site, with the report of `make demo` as its gallery.
site: build setup-test
	bin/ensemble demo -q >/dev/null
	rm -rf build/man && bin/ensemble man --out build/man >/dev/null
	$(GO) run ./scripts/site -out build/site -man build/man -report runs/demo/report -version "$(BUILT)"
	@echo "build/site/index.html; search needs a web server: build/venv/bin/python -m http.server -d build/site"

.PHONY: wheel test-python
# The Python package of clients/python as build/wheel/*.whl.
wheel: setup-test
	rm -rf build/wheel
	cd clients/python && $(CURDIR)/build/venv/bin/python -m hatchling build -t wheel -d $(CURDIR)/build/wheel

# Its tests, on outputs of the program, and its types. PYTHON= names another Python, for example with PyTorch, which
# scripts/setup.sh does not install: without it the tests of exported networks are skipped.
PYTHON = $(CURDIR)/build/venv/bin/python
test-python: build setup-test
	@$(PYTHON) -c 'import pytest, mypy' || { echo "make test-python: skipped: $(PYTHON) has no pytest or no mypy" >&2; exit 0; }; \
	  cd clients/python && PYTHONPATH=src $(PYTHON) -m pytest tests --program=$(CURDIR)/bin/ensemble && $(PYTHON) -m mypy

.PHONY: kernel
# All that notebooks need, from the kernel to JupyterLab; the packages of cells are compiled.
kernel:
	@scripts/setup.sh kernel

.PHONY: kernel-parts
# What of `make kernel` tests do not have can be fetched; nothing is compiled.
kernel-parts:
	@scripts/setup.sh kernel-parts

demo: build
	bin/ensemble demo

# gotestsum sums up what go test says: what failed, what was skipped and why, and at the end one line with the counts.
TOOL      := $(GO) tool -modfile=scripts/tools/go.mod
GOTESTSUM := $(TOOL) gotestsum --format-icons text --format-hide-empty-pkg

# Packages that are tested at once: one more than a small machine has processors, as tests of ranks and services wait.
TESTS ?= 3

# The packages whose tests take longest begin first, so that none of them is left alone at the end. On a busy machine
# they take several times as long as on a quiet one, which is no failure.
# The demonstration that tests of jobs read is made once, by the first package that needs it. `make vet` checks more than
# go test would, once. RERUN has flags of gotestsum for failed tests.
# Without debugging information (-ldflags=-w) linking takes half as long.
test: export ENSEMBLE_TEST_DEMO := $(or $(TMPDIR),/tmp)/ensemble-test-demo-$(shell id -u)-$(shell echo '$(CURDIR)' | cksum | cut -d ' ' -f 1)
test: build setup-test
	rm -rf "$$ENSEMBLE_TEST_DEMO"
	$(GOTESTSUM) --format pkgname-and-test-fails --jsonfile build/test.json $(RERUN) --packages './ensemble/run/jobs ./cmd/ensemble ./ensemble/run/train ./spatial ./...' -- -vet=off -ldflags=-w -p $(TESTS) -timeout 40m; \
	  code=$$?; rm -rf "$$ENSEMBLE_TEST_DEMO"; echo "The slowest tests:"; $(TOOL) gotestsum tool slowest --jsonfile build/test.json --num 10; exit $$code

# What changed since the branch left main, in about a minute; BASE= names another commit to compare with.
check: setup-build
	@scripts/check.sh $(GO) $(BASE)

# Checks that take longer than a change may wait; what they gave is committed: results, and what tests logged.
check-long: build setup-test lint kernel-parts
	set -o pipefail; $(GOTESTSUM) --format standard-verbose -- -p 1 -tags long -run 'TestLong[A-Z]' -timeout 6h ./... | tee build/check-long.log; code=$$?; \
	  { echo "date $$(date -u +%FT%TZ)"; echo "version $(BUILT)"; echo "machine $$($(GO) env GOOS)/$$($(GO) env GOARCH), $$(nproc) CPUs, $$($(GO) env GOVERSION)"; echo; \
	    sed -E '/^=== (RUN|PAUSE|CONT|NAME) |^PASS$$|no test(s to run| files)\]?$$/d' build/check-long.log; } >docs/check-long.txt; exit $$code

# RACE= names other packages than all.
RACE ?= ./...
race: setup-test
	$(GO) test -p $(THREADS) -timeout 2h -race $(RACE)

# Where goroutines, processes and ranks share most, but for tests that run every program on many worlds, which take minutes.
race-sample: setup-test
	$(GO) test -p $(THREADS) -race -skip '^(TestPrograms|TestDelays|TestHostedPrograms)$$' \
	  ./internal/interrupt ./internal/lease ./internal/progress ./io/decode ./io/loader ./engine/tune ./spatial/comm

purego: setup-test
	CGO_ENABLED=0 $(GO) test -p $(THREADS) $(PUREGO)

# All of it and its tests compile, and those of plans and networks pass. vet compiles what others import and checks the types
# of the rest. `make vet` has the two checks that are left out, which have to read Go's own packages and all modules too.
purego-sample: setup-build
	CGO_ENABLED=0 $(GO) vet -printf=false -lostcancel=false $(PUREGO)
	CGO_ENABLED=0 $(GO) test -p $(THREADS) ./engine ./engine/graph ./engine/pass ./unet3d ./postproc/dist ./internal/version

FUZZTIME := 20s
fuzz: setup-build
	scripts/fuzz.sh $(GO) $(FUZZTIME)

bench: setup-build
	$(GO) test -p 1 -run '^$$' -bench . -benchmem ./...

lint: format vet staticcheck

format: setup-build
	@files=$$(git ls-files --cached --others --exclude-standard '*.go' | xargs ls -d 2>/dev/null | xargs gofmt -l) && [ -z "$$files" ] || { echo "gofmt would change:" $$files; exit 1; }

# With -trimpath the build cache names files of cgo by the folder in which they were first compiled. cgocall opens them there,
# and the folder may be gone. What it would find the runtime checks at every call of the tests (cgocheck=1).
vet: setup-build
	$(GO) vet -cgocall=false ./...

staticcheck: setup-build
	$(TOOL) staticcheck ./...

.PHONY: vulnerabilities
# Known vulnerabilities of functions that the programs may call; VULNDB= names another database than that of scripts/vulndb.
VULNDB :=
vulnerabilities: setup-build
	$(GO) run ./scripts/vulnerabilities -db '$(VULNDB)' ./cmd/...

arch: setup-build
	$(GO) test ./internal/archtest

# Every relative link and anchor of the pages has a target.
links: setup-test
	$(GO) test ./scripts/site

# Writes the golden files again; look at every changed line before committing it.
golden: setup-test
	for p in $$($(GO) list -f '{{.Dir}}' ./...); do \
	  grep -lqs 'flag.Bool("update"' $$p/*_test.go && $(GO) test $$p -update; done; git diff --stat

cover: setup-test
	$(GO) test -p $(THREADS) -coverprofile build/cover.out ./... && $(GO) tool cover -func build/cover.out | tail -n 1

# Executes the notebooks from scratch and keeps their outputs; look at them before committing.
NOTEBOOKS := $(addprefix notebooks/,first-forecast.ipynb verification.ipynb engine-internals.ipynb spatial-splits.ipynb)
notebooks: build setup-test
	rm -rf notebooks/runs
	GOFLAGS= PATH=$(CURDIR)/build/kernel:$$PATH JUPYTER_DATA_DIR=$(CURDIR)/build/kernel/jupyter build/venv/bin/python scripts/notebooks.py --keep $(NOTEBOOKS) 2>build/notebooks.log

clean:
	rm -rf bin build/cover.out

setup-build:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh test
