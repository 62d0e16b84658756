// Package librariestest has helpers for tests of packages that call a CUDA library: a
// fake library, compiled from testdata/fake.c with fake.h, and NVIDIA's own with its
// headers for tests with the build tag long.
package librariestest

import (
	_ "embed" // fake.h
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// fake compiles testdata/fake.c once for all tests of a package.
var fake = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fake-library")
	if err != nil {
		return "", err
	}
	so := filepath.Join(dir, "libfake.so")
	return so, Compile(so, "-Wall", "-Werror", "-pthread", "testdata/fake.c")
})

//go:embed fake.h
var header []byte

// Compile builds a shared library from C, which may include fake.h.
func Compile(so string, args ...string) error {
	dir, err := os.MkdirTemp("", "fake-header")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "fake.h"), header, 0o600); err != nil {
		return err
	}
	args = append([]string{"-I", dir}, args...)
	if out, err := exec.Command("cc", append([]string{"-shared", "-fPIC", "-o", so}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("cc: %w\n%s", err, out)
	}
	return nil
}

// Main runs the tests of a package and removes the compiled fake.
func Main(m *testing.M) {
	code := m.Run()
	if so, err := fake(); err == nil {
		_ = os.RemoveAll(filepath.Dir(so))
	}
	os.Exit(code)
}

// Fake returns a function that finds the fake library, and one that returns its calls
// since the last time. The environment variables of the fake are empty at first.
func Fake(t *testing.T, variables ...string) (find func(libraries.Library) (*dl.Library, error), log func() []string) {
	t.Helper()
	so, err := fake()
	if err != nil {
		t.Skipf("skipped: no C compiler: %v", err)
	}
	path := filepath.Join(t.TempDir(), "log")
	t.Setenv("FAKE_LOG", path)
	for _, v := range append(variables, "FAKE_FAIL", "FAKE_VALUES") {
		t.Setenv(v, "")
	}
	return File(so), func() []string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// File returns a function that finds any library in one file.
func File(name string) func(libraries.Library) (*dl.Library, error) {
	return func(libraries.Library) (*dl.Library, error) { return dl.Open(name) }
}

// Missing checks the errors of a missing library and of one without the functions: exit
// code 69, and the names of the missing functions, some of which are given.
func Missing(t *testing.T, open func(find func(libraries.Library) (*dl.Library, error)) error, unavailable error, functions ...string) {
	t.Helper()
	err := open(func(l libraries.Library) (*dl.Library, error) {
		return nil, &exit.Error{Code: exit.NoDevice, What: "cannot open " + l.Name, Err: dl.ErrNotFound}
	})
	if exit.CodeOf(err) != exit.NoDevice || !errors.Is(err, unavailable) || !errors.Is(err, dl.ErrNotFound) {
		t.Errorf("no library: got %v", err)
	}
	err = open(File("libm.so.6"))
	if exit.CodeOf(err) != exit.NoDevice || !errors.Is(err, dl.ErrNoSymbol) {
		t.Errorf("another library: got %v", err)
	}
	for _, want := range append(functions, "libm.so.6") {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

// FakeAddress returns an address that is not in the memory of this program; n must be
// at least that of the second page.
func FakeAddress(n uintptr) device.Pointer { return unsafe.Add(unsafe.Pointer(nil), n) }

// FakeHandles implements device.NativeHandles with a fake stream.
type FakeHandles uintptr

// Stream returns FakeAddress of the number.
func (l FakeHandles) Stream() device.Pointer { return FakeAddress(uintptr(l)) }

// Context returns nil.
func (FakeHandles) Context() device.Pointer { return nil }

// MakeCurrent does nothing.
func (FakeHandles) MakeCurrent() error { return nil }

// Headers compiles testdata/check.c, which compares our prototypes and constants with a
// header in NVIDIA's Python packages; $ENSEMBLE_CUDA_PATH names their directory nvidia.
func Headers(t *testing.T, header string) {
	t.Helper()
	args := []string{"-Wall", "-Werror", "-fsyntax-only", "testdata/check.c"}
	for _, dir := range Includes(t, header) {
		args = append(args, "-I"+dir)
	}
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("api.h and NVIDIA's headers differ: %v\n%s", err, out)
	}
}

// Includes returns the directories of a header and of the CUDA headers that it
// includes. It skips the test if they are missing.
func Includes(t *testing.T, header string) (all []string) {
	t.Helper()
	folder := os.Getenv(libraries.PathVariable)
	for _, file := range []string{header, "cuda_runtime.h", "crt/host_defines.h"} {
		found, err := filepath.Glob(filepath.Join(folder, "*", "include", file))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			t.Skipf("skipped: no %s in the folder nvidia of a site-packages that %s names: the wheels of the library, of nvidia-cuda-runtime and of nvidia-cuda-nvcc or nvidia-cuda-crt have them", file, libraries.PathVariable)
		}
		all = append(all, strings.TrimSuffix(found[0], file))
	}
	return all
}

// Driver loads a fake driver on machines without one, so that NVIDIA's libraries can be
// opened: it accepts code, and all other calls fail as without a device.
func Driver(t *testing.T) {
	t.Helper()
	const name = "libcuda.so.1"
	if _, err := dl.Open(name); err == nil {
		return
	}
	var s strings.Builder
	for _, f := range []string{"cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction", "cuModuleLoadData", "cuModuleGetFunction",
		"cuKernelGetAttribute", "cuDriverGetVersion", "cuLinkCreate"} {
		fmt.Fprintf(&s, "int %s(int *out) { *out = 1024; return 0; }\n", f)
	}
	for _, f := range []string{"cuKernelSetAttribute", "cuLibraryUnload", "cuModuleUnload"} {
		fmt.Fprintf(&s, "int %s(void) { return 0; }\n", f)
	}
	for _, f := range []string{"cuGetErrorString", "cuGetErrorName", "cuCtxGetCurrent", "cuCtxGetLimit", "cuCtxPopCurrent", "cuCtxPushCurrent",
		"cuDeviceGet", "cuDeviceGetCount", "cuLaunchCooperativeKernel", "cuLaunchKernel", "cuLaunchKernelEx", "cuLibraryLoadFromFile",
		"cuLinkAddData", "cuLinkComplete", "cuLinkDestroy", "cuOccupancyMaxPotentialClusterSize", "cuStreamGetCtx",
		"cuTensorMapEncodeIm2col", "cuTensorMapEncodeTiled"} {
		fmt.Fprintf(&s, "int %s(void) { return 100; }\n", f)
	}
	dir := t.TempDir()
	c, so := filepath.Join(dir, "driver.c"), filepath.Join(dir, name)
	if err := os.WriteFile(c, []byte(s.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Compile(so, "-w", "-Wl,-soname,"+name, c); err != nil {
		t.Fatal(err)
	}
	if _, err := dl.Open(so); err != nil {
		t.Fatal(err)
	}
}
