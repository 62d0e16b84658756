//go:build cgo && linux

package nvrtc

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
)

// library opens the compiler of build/venv, or that of the machine.
func library(t *testing.T) *Compiler {
	t.Helper()
	if os.Getenv(libraries.PathVariable) == "" {
		dir, err := filepath.Abs("../../../../build/venv")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(libraries.PathVariable, dir)
	}
	c, err := Open()
	if err != nil {
		t.Fatalf("%v\nscripts/setup.sh test installs it", err)
	}
	return c
}

// architectures that the engine supports: V100, A100, H100.
var architectures = []int{70, 80, 90}

// TestKernels compiles every file for all architectures, with the last of its macros: in
// float16 and with channels last where it has them. TestLongKernels compiles all.
func TestKernels(t *testing.T) {
	c := library(t)
	last := map[string]device.Program{}
	for _, p := range kernels.Variants() {
		last[p.Name] = p
	}
	var group sync.WaitGroup
	for _, a := range architectures {
		group.Go(func() {
			for _, name := range kernels.Files() {
				compiles(t, c, last[name], a)
			}
		})
	}
	// And what multiplies float16 on older devices than those: in quads, and by halves of a depth.
	conv, filter := kernels.ConvTilesOf(kernels.F16Quads)[0], kernels.FilterTilesOf(kernels.F16Quads)[0]
	compiles(t, c, kernels.Conv(conv, "f16", kernels.F16Quads, false), 70)
	compiles(t, c, kernels.ConvFilter(filter, "f16", kernels.F16Quads, kernels.SumLanes), 70)
	compiles(t, c, kernels.Conv(conv, "f16", kernels.F16, false), 75)
	// And products with 2:4 filters.
	for _, a := range architectures[1:] {
		for _, stored := range []string{"bf16", "f16"} {
			compiles(t, c, kernels.ConvPack(stored, kernels.TwoFour, false), a)
			compiles(t, c, kernels.Conv(kernels.ConvTilesOf(kernels.TwoFour)[0], stored, kernels.TwoFour, false), a)
		}
	}
	// And a convolution of integers, and what reads codes.
	compiles(t, c, kernels.ConvInt8(kernels.Int8Points[0], "u8"), 80)
	compiles(t, c, kernels.Program("windows.cu", "T=u8", "LAST=1"), 80)
	group.Wait()
}

// compiles checks that a program compiles, unless it did before, to machine code that has
// its kernels by their names.
func compiles(t *testing.T, c *Compiler, p device.Program, architecture int) {
	t.Helper()
	image, err := UserCache().Compile(c, p, architecture)
	if err != nil {
		t.Errorf("%s: %v", kernels.Variant(p), err)
		return
	}
	if !bytes.HasPrefix(image, []byte("\x7fELF")) {
		t.Errorf("%s is no machine code", kernels.Variant(p))
	}
	for _, m := range kernels.Names(p) {
		if !bytes.Contains(image, []byte(".text."+m+"\x00")) {
			t.Errorf("%s: no kernel %s", kernels.Variant(p), m)
		}
	}
}

var small = device.Program{Name: "small.cu", Source: "extern \"C\" __global__ void small(float *x) { x[threadIdx.x] = N; }\n", Defines: []string{"N=3"}}

// TestArchitectures: the code is for the architecture of the device if the compiler
// supports it, else for an older one; other major versions get PTX.
func TestArchitectures(t *testing.T) {
	c := &Compiler{path: "lib", major: 12, minor: 9, architectures: []int{70, 80, 86, 90}}
	for _, a := range []struct {
		architecture int
		want         string
		machine      bool
	}{
		{70, "sm_70", true}, {75, "sm_70", true}, {80, "sm_80", true}, {87, "sm_86", true}, {89, "sm_86", true},
		{90, "sm_90", true}, {100, "compute_90", false}, {121, "compute_90", false},
	} {
		options, machine, err := c.options(small, a.architecture)
		if err != nil || options[0] != "--gpu-architecture="+a.want || machine != a.machine || options[len(options)-1] != "-DN=3" {
			t.Errorf("%d: got %q, %v, %v, want %s", a.architecture, options, machine, err, a.want)
		}
	}
	specific := small
	specific.Specific = true
	for architecture, want := range map[int]string{80: "sm_80", 90: "sm_90a", 100: "compute_90"} {
		if options, _, err := c.options(specific, architecture); err != nil || options[0] != "--gpu-architecture="+want {
			t.Errorf("specific, %d: got %q, %v, want %s", architecture, options, err, want)
		}
	}
	if _, _, err := c.options(small, 61); err == nil || !strings.Contains(err.Error(), "7.0 and later, not 6.1") {
		t.Errorf("too old: %v", err)
	}
}

// TestCompile: machine code, PTX for architectures newer than the compiler, and the log
// of an error with its line.
func TestCompile(t *testing.T) {
	c := library(t)
	newer := c.architectures[len(c.architectures)-1] + 20
	if text, err := c.Compile(small, newer); err != nil || !bytes.Contains(text, []byte(".entry small")) || text[len(text)-1] != 0 {
		t.Errorf("newer: %.100q, %v", text, err)
	}
	wrong := device.Program{Name: "wrong.cu", Source: "\nextern \"C\" __global__ void k() { nothing(); }\n"}
	for _, compile := range []func(device.Program, int) ([]byte, error){c.Compile, func(p device.Program, a int) ([]byte, error) {
		return Cache{Dir: t.TempDir()}.Compile(c, p, a)
	}} {
		if _, err := compile(wrong, 80); err == nil || !strings.Contains(err.Error(), "compile wrong.cu with --gpu-architecture=sm_80") ||
			!strings.Contains(err.Error(), "wrong.cu(2): error: identifier \"nothing\" is undefined") {
			t.Errorf("got %v", err)
		}
	}
}

// entries are the files of a cache.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestCache: a stored program is used for the same source, macros and architecture
// only; a damaged one is compiled again.
func TestCache(t *testing.T) {
	c := library(t)
	k := Cache{Dir: filepath.Join(t.TempDir(), "a", "b")}
	compile := func(p device.Program, architecture int) []byte {
		t.Helper()
		image, err := k.Compile(c, p, architecture)
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	fresh := compile(small, 80)
	files := entries(t, k.Dir)
	if len(files) != 1 {
		t.Fatalf("%q", files)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	put := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(files[0], text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	Cache{Dir: filepath.Dir(other)}.write(other, []byte("of another time"))
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	put(text)
	if got := compile(small, 80); string(got) != "of another time" {
		t.Error("what is in the cache is not used")
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-9] ^= 4
	for _, damaged := range [][]byte{flipped, whole[:len(whole)-1], whole[:30], {}, append([]byte("older format 000\n"), whole...)} {
		put(damaged)
		if got := compile(small, 80); !bytes.Equal(got, fresh) {
			t.Error("a damaged file is used")
		}
		if text, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(text, whole) {
			t.Errorf("a damaged file is not replaced: %v", err)
		}
	}
	macros, source, name := small, small, small
	macros.Defines = []string{"N=4"}
	source.Source += " "
	name.Name = "other.cu"
	compile(macros, 80)
	compile(source, 80)
	compile(name, 80)
	compile(small, 90)
	later := *c
	later.minor++
	if _, err := k.Compile(&later, small, 80); err != nil {
		t.Fatal(err)
	}
	if n := len(entries(t, k.Dir)); n != 6 {
		t.Errorf("%d files for 6 different programs", n)
	}
}

// TestCacheBound: the files used last are kept.
func TestCacheBound(t *testing.T) {
	k := Cache{Dir: t.TempDir(), Max: 2}
	for i, name := range []string{"a", "b", "c"} {
		file := filepath.Join(k.Dir, name+suffix)
		k.write(file, []byte{1})
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if name == "b" {
			if _, ok := read(filepath.Join(k.Dir, "a"+suffix)); !ok { // which makes it new again
				t.Error("a is gone")
			}
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(k.Dir, "not ours"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, f := range entries(t, k.Dir) {
		names = append(names, filepath.Base(f))
	}
	if got := strings.Join(names, " "); got != "a.kernel c.kernel not ours" {
		t.Errorf("kept: %s", got)
	}
}

// TestCacheShared: several writers of one program, and a folder that cannot be written.
func TestCacheShared(t *testing.T) {
	c := library(t)
	k := Cache{Dir: t.TempDir()}
	var all [4][]byte
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			image, err := k.Compile(c, small, 80)
			if err != nil {
				t.Error(err)
			}
			all[i] = image
		})
	}
	group.Wait()
	for _, image := range all {
		if len(image) == 0 || !bytes.Equal(image, all[0]) {
			t.Error("writers differ")
		}
	}
	if files := entries(t, k.Dir); len(files) != 1 {
		t.Errorf("left: %q", files)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, ""} {
		if image, err := (Cache{Dir: dir}).Compile(c, small, 80); err != nil || !bytes.Equal(image, all[0]) {
			t.Errorf("cache in %q: %v", dir, err)
		}
	}
}
