//go:build cgo && linux

package gpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
	"github.com/ensemble-weather/ensemble/internal/allocs"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// fakes are the folders of the libraries of testdata, compiled once: "new", and "old",
// which lacks what older drivers lack and one function that we need.
var fakes string

func TestMain(m *testing.M) {
	code, err := func() (int, error) {
		dir, err := os.MkdirTemp("", "fake-cuda-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		fakes = dir
		for _, c := range []struct{ dir, file, source, define string }{
			{"new", "libcuda.so.1", "libcuda.c", "FAKE_NEW"},
			{"new", "libnvrtc.so.12", "libnvrtc.c", "FAKE_NEW"},
			{"new", "libnvrtc-builtins.so.12.4", "/dev/null", "FAKE_NEW"},
			{"old", "libcuda.so.1", "libcuda.c", "FAKE_OLD"},
			{"bare", "libcuda.so.1", "libcuda.c", "FAKE_NEW"},
			{"thirteen", "libcuda.so.1", "libcuda.c", "FAKE_NEW"},
			{"thirteen", "libnvrtc.so.13", "libnvrtc.c", "FAKE_NEW"},
			{"thirteen", "libnvrtc-builtins.so.13.0", "/dev/null", "FAKE_NEW"},
		} {
			if err := os.MkdirAll(filepath.Join(dir, c.dir), 0o755); err != nil {
				return 1, err
			}
			if !filepath.IsAbs(c.source) {
				c.source = filepath.Join("testdata", c.source)
			}
			if err := librariestest.Compile(filepath.Join(dir, c.dir, c.file), "-Wall", "-D"+c.define, "-x", "c", c.source); err != nil {
				return 1, err
			}
		}
		runtime.LockOSThread()
		return m.Run(), nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// fake makes the fake driver the driver, and returns the file with its calls.
func fake(t *testing.T) (log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	t.Setenv(libraries.PathVariable, filepath.Join(fakes, "new"))
	t.Setenv("FAKE_LOG", log)
	t.Setenv("FAKE_FAIL", "")
	t.Setenv("FAKE_VALUES", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("CUDA_HOME", fakes) // no toolkit, and no Python packages
	t.Setenv("HOME", fakes)
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		t.Setenv(v, "")
	}
	return log
}

// lines are the lines of a file, none if it is not there.
func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// open opens the fake device and checks in the end that nothing of it is left.
func open(t *testing.T) (d *gpu, log string) {
	t.Helper()
	log = fake(t)
	opened, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	d = opened.(*gpu)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error("a second Close:", err)
		}
		nothingLeft(t, log, "")
	})
	return d, log
}

// leaked is what the fake driver of folder "new" keeps because a test had it refuse to free.
var leaked int

// nothingLeft checks that the fake driver of a folder, "" for the usual one, has no more than before.
func nothingLeft(t *testing.T, log, folder string) {
	t.Helper()
	before := leaked
	if folder != "" { // a library of its own
		before = 0
	}
	if n := held(t, log); n != before {
		t.Errorf("%d things are left, before %d", n, before)
	}
}

// must fails the test on an error.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var program = device.Program{Name: "fill.cu", Source: "kernel fill pfl\nkernel all piluvf\nkernel none -", Defines: []string{"T=float"}}

// TestNoDriver: the error without a driver has the reason and a fix.
func TestNoDriver(t *testing.T) {
	t.Setenv(libraries.PathVariable, t.TempDir())
	if _, err := dl.Open(libraries.Driver.Files...); err == nil {
		t.Skip("skipped: this machine has a driver")
	}
	for _, f := range []func() error{
		func() error { _, err := Open(0); return err },
		func() error { _, err := Count(); return err },
	} {
		err := f()
		var e *exit.Error
		if !errors.Is(err, device.ErrNoDevice) || !errors.Is(err, dl.ErrNotFound) || !errors.As(err, &e) || e.Code != exit.NoDevice {
			t.Fatalf("got %v", err)
		}
		for _, want := range []string{"cannot use a GPU", "no libcuda.so.1", "install the NVIDIA driver"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in %v", want, err)
			}
		}
	}
}

// TestUnusable: each reason why a driver or a device cannot be used is an error of its own,
// and a device that was half opened leaves nothing.
func TestUnusable(t *testing.T) {
	for _, c := range []struct {
		folder, fail, values string
		index                int
		want                 string
		held                 bool // the context, until the error
	}{
		{folder: "old", want: "lacks cuEventElapsedTime"},
		{fail: "cuInit=999", want: "cuInit: CUDA_ERROR_999 (what it means)"},
		{fail: "cuInit=100", want: "CUDA_VISIBLE_DEVICES is \"7\""},
		{fail: "cuDeviceGetCount=3", want: "CUDA_ERROR_3"},
		{fail: "cuDriverGetVersion=3", want: "cuDriverGetVersion"},
		{values: "version=11080", want: "the driver supports CUDA 11.8"},
		{values: "count=0", want: "there are 0"},
		{index: 2, want: "there are 2, counted from 0"},
		{index: -1, want: "there are 2, counted from 0"},
		{fail: "cuDeviceGet=101", want: "cuDeviceGet: "},
		{fail: "cuDevicePrimaryCtxRetain=46", want: "cuDevicePrimaryCtxRetain: CUDA_ERROR_46"},
		{fail: "cuCtxSetCurrent=201@1", want: "cuCtxSetCurrent", held: true},
		{fail: "cuStreamCreate=2", want: "cuStreamCreate", held: true},
		{fail: "cuEventCreate=2@1", want: "cuEventCreate", held: true},
		{fail: "cuEventCreate=2@2", want: "cuEventCreate", held: true},
		{fail: "cuEventCreate=2@3", want: "cuEventCreate", held: true},
		{fail: "cuStreamCreate=2@3", want: "cuStreamCreate", held: true},
		{fail: "cuDeviceGetName=1", want: "cuDeviceGetName", held: true},
		{fail: "cuDeviceGetUuid_v2=1", want: "cuDeviceGetUuid", held: true},
		{fail: "cuDeviceTotalMem_v2=1", want: "cuDeviceTotalMem", held: true},
		{fail: "cuDeviceGetAttribute=1@3", want: "cuDeviceGetAttribute", held: true},
		{values: "unified=0", want: "no unified addressing", held: true},
		{folder: "bare", want: "cannot open CUDA runtime compiler", held: true},
		{values: "version=11999", want: "update the NVIDIA driver to 525"},
	} {
		log := fake(t)
		if c.folder == "bare" && hasNVRTC(t) {
			t.Log("this machine has NVRTC where the system keeps it")
			continue
		}
		t.Setenv("CUDA_VISIBLE_DEVICES", "7")
		if c.folder != "" {
			t.Setenv(libraries.PathVariable, filepath.Join(fakes, c.folder))
		}
		t.Setenv("FAKE_FAIL", c.fail)
		t.Setenv("FAKE_VALUES", c.values)
		index := c.index
		if index == 0 {
			index = 1
		}
		d, err := Open(index)
		if err == nil || d != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v", c, err)
			continue
		}
		if c.held {
			nothingLeft(t, log, c.folder)
		} else if !errors.Is(err, device.ErrNoDevice) || exit.CodeOf(err) != exit.NoDevice {
			t.Errorf("%+v: %v is not device.ErrNone with its code", c, err)
		}
	}
}

// hasNVRTC reports whether the machine has the real one, beside the fake.
func hasNVRTC(t *testing.T) bool {
	t.Helper()
	path := os.Getenv(libraries.PathVariable)
	t.Setenv(libraries.PathVariable, "")
	_, err := libraries.Find(libraries.NVRTC)
	t.Setenv(libraries.PathVariable, path)
	return err == nil
}

func TestCountAndProperties(t *testing.T) {
	d, _ := open(t)
	if n, err := Count(); n != 2 || err != nil {
		t.Errorf("Count: %d, %v", n, err)
	}
	want := device.Properties{Name: "Fake 1", UUID: "GPU-00112233-4455-6677-8899-aabbccddeeff", Architecture: 90, Multiprocessors: 132, SharedBytes: 227 << 10, MemoryBytes: 1 << 20, MemoryBandwidth: 2 * 2619e6 * 640}
	if d.Properties() != want {
		t.Errorf("got %+v, want %+v", d.Properties(), want)
	}
	if d.Stream() == nil || d.Context() == nil {
		t.Error("no stream or context")
	}
}

// TestMemory: memory of both kinds, copies between them, and rejected calls.
func TestMemory(t *testing.T) {
	d, _ := open(t)
	start := must[int64](t)(d.FreeBytes())
	p := must[device.Pointer](t)(d.Alloc(4096))
	q := must[device.Pointer](t)(d.AllocHost(4096))
	if uintptr(p)%256 != 0 {
		t.Errorf("%p is not aligned", p)
	}
	from := unsafe.Slice((*byte)(q), 4096)
	for i := range from {
		from[i] = byte(i % 251)
	}
	to := make([]byte, 4096)
	for _, f := range []func() error{
		func() error { return d.Copy(p, q, 4096) },
		func() error { return d.Zero(unsafe.Add(p, 100), 7) },
		func() error { return d.Copy(unsafe.Pointer(&to[0]), p, 4095) },
		func() error { return d.Copy(p, p, 0) },
		func() error { return d.Zero(p, 0) },
		d.Wait,
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range to {
		want := from[i]
		if i >= 100 && i < 107 || i == 4095 {
			want = 0
		}
		if v != want {
			t.Fatalf("byte %d is %d, want %d", i, v, want)
		}
	}
	free, err := d.FreeBytes()
	if free != start-4096 || err != nil {
		t.Errorf("free: %d of %d, %v", free, start, err)
	}
	_, err = d.Alloc(1 << 20)
	if !errors.Is(err, device.ErrOutOfMemory) || !strings.Contains(err.Error(), fmt.Sprintf("1048576 bytes requested, %d of 1048576 free", free)) {
		t.Errorf("too much: %v", err)
	}
	if zero, err := d.Alloc(0); err != nil || zero == nil || d.Free(zero) != nil {
		t.Errorf("no bytes: %v", err)
	}
	for what, err := range map[string]error{
		"negative":             errOf(d.Alloc(-1)),
		"negative of the host": errOf(d.AllocHost(-1)),
		"negative copy":        d.Copy(p, q, -1),
		"negative zero":        d.Zero(p, -1),
		"free of another":      d.Free(q),
		"free of the host's":   d.FreeHost(p),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for _, err := range []error{d.Free(p), d.FreeHost(q), d.Free(nil), d.FreeHost(nil)} {
		if err != nil {
			t.Error(err)
		}
	}
	must[device.Pointer](t)(d.Alloc(512)) // Close frees the rest
	must[device.Pointer](t)(d.AllocHost(512))
}

func errOf[T any](_ T, err error) error { return err }

// TestCall: a kernel gets its size and its arguments, and runs without allocation.
func TestCall(t *testing.T) {
	d, log := open(t)
	compiled := filepath.Join(t.TempDir(), "compiled")
	t.Setenv("FAKE_NVRTC_LOG", compiled)
	m := must[device.Module](t)(d.Load(program))
	if again := must[device.Module](t)(d.Load(program)); again != m {
		t.Error("a program is loaded twice")
	}
	other := program
	other.Defines = []string{"T=bf16"}
	if again := must[device.Module](t)(d.Load(other)); again == m {
		t.Error("other macros give the same module")
	}
	if got := lines(t, compiled); len(got) != 2 {
		t.Errorf("compiled %d times, want 2", len(got))
	}
	p := must[device.Pointer](t)(d.Alloc(400))
	c := must[device.Call](t)(m.Call("all", device.Size{Grid: [3]int{7, 2}, Block: [3]int{32, 1, 4}, Shared: 100},
		p, int32(-5), int64(-1<<40), uint32(1<<32-1), uint64(1<<63), float32(0.1)))
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	fill := must[device.Call](t)(m.Call("fill", device.Size{}, p, float32(2.5), int64(100)))
	if n := allocs.PerRun(10, func() {
		if fill.Run() != nil {
			t.Error("it does not run")
		}
	}); n > 0 {
		t.Errorf("a call allocates %v times", n)
	}
	got := make([]float32, 100)
	if err := d.Copy(unsafe.Pointer(&got[0]), p, 400); err != nil {
		t.Fatal(err)
	}
	if got[0] != 2.5 || got[99] != 2.5 {
		t.Errorf("got %v", got)
	}
	all := lines(t, log)
	for _, want := range []string{
		"launch all 7x2x1 of 32x1x4 100: p -5 -1099511627776 4294967295 9223372036854775808 0.1",
		"launch fill 1x1x1 of 1x1x1 0: p 2.5 100",
	} {
		if !slices.Contains(all, want) {
			t.Errorf("no %q in %q", want, all)
		}
	}
}

// TestCallRefused: what the driver would refuse later, or worse, take, is refused with the
// names of the program and the kernel.
func TestCallRefused(t *testing.T) {
	d, log := open(t)
	m := must[device.Module](t)(d.Load(program))
	fill := []any{unsafe.Pointer(nil), float32(1), int64(1)}
	for _, c := range []struct {
		kernel string
		size   device.Size
		args   []any
		want   string
	}{
		{"nothing", device.Size{}, nil, "fill.cu: kernel nothing: the program has no kernel of this name"},
		{"fill", device.Size{}, fill[:2], "2 arguments for 3 parameters"},
		{"fill", device.Size{}, append(fill[:3:3], int32(1)), "4 arguments for 3 parameters"},
		{"fill", device.Size{}, []any{fill[0], fill[1], int32(1)}, "argument 2: got 4 bytes, want 8"},
		{"fill", device.Size{}, []any{fill[0], fill[1], 1}, "argument 2: type int"},
		{"fill", device.Size{Block: [3]int{1025}}, fill, "blocks [1025 0 0]"},
		{"fill", device.Size{Block: [3]int{32, 33}}, fill, "blocks of 1056 threads"},
		{"fill", device.Size{Grid: [3]int{-1}}, fill, "grid [-1 0 0]"},
		{"fill", device.Size{Grid: [3]int{1, 65536}}, fill, "65535 along y and z"},
		{"fill", device.Size{Grid: [3]int{1 << 31}}, fill, "at most 2147483647"},
		{"fill", device.Size{Shared: 226<<10 + 1}, fill, "1024 bytes of static shared memory, want at most 232448"},
		{"fill", device.Size{Shared: -1}, fill, "shared memory"},
	} {
		_, err := m.Call(c.kernel, c.size, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "fill.cu: kernel "+c.kernel) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	// More than 48 KiB of shared memory needs an opt-in, once per size increase.
	for _, bytes := range []int{1024, 48 << 10, 100 << 10, 64 << 10, 226 << 10} {
		must[device.Call](t)(m.Call("fill", device.Size{Shared: bytes}, fill...))
	}
	var asked []string
	for _, l := range lines(t, log) {
		if strings.HasPrefix(l, "shared") {
			asked = append(asked, l)
		}
	}
	if want := []string{"shared fill 49152", "shared fill 102400", "shared fill 65536", "shared fill 231424"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q", asked)
	}
	t.Setenv("FAKE_VALUES", "threads=256")
	if _, err := m.Call("fill", device.Size{Block: [3]int{512}}, fill...); err == nil || !strings.Contains(err.Error(), "at most 256") {
		t.Errorf("bounds of the kernel: %v", err)
	}
}

// TestRecord: recorded work is executed in every run, and only then.
func TestRecord(t *testing.T) {
	d, _ := open(t)
	m := must[device.Module](t)(d.Load(program))
	p := must[device.Pointer](t)(d.Alloc(40))
	q := must[device.Pointer](t)(d.AllocHost(40))
	host := unsafe.Slice((*float32)(q), 10)
	clear(host)
	fill := must[device.Call](t)(m.Call("fill", device.Size{}, p, float32(3), int64(9)))
	refused := errors.New("refused")
	if r, err := d.Record(func() error { return refused }); r != nil || !errors.Is(err, refused) {
		t.Errorf("an error of f: %v, %v", r, err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic of f is gone")
			}
		}()
		_, _ = d.Record(func() error { panic("f") })
	}()
	r, err := d.Record(func() error {
		for what, err := range map[string]error{
			"Wait": d.Wait(), "Record": errOf(d.Record(func() error { return nil })), "Load": errOf(d.Load(program)),
			"Time": errOf(d.Time(func() error { return nil })), "Free": d.Free(p), "CopyNow": errOf(d.CopyNow(p, q, 4)),
		} {
			if !errors.Is(err, errRecording) {
				t.Errorf("%s while work is recorded: %v", what, err)
			}
		}
		return errors.Join(d.Zero(p, 40), fill.Run(), d.Copy(q, p, 40))
	})
	if err != nil {
		t.Fatal(err)
	}
	if host[0] != 0 {
		t.Error("the recording has done the work")
	}
	host[9] = 5
	if n := allocs.PerRun(3, func() {
		if err := r.Run(); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("a recording allocates %v times", n)
	}
	if host[0] != 3 || host[8] != 3 || host[9] != 0 {
		t.Errorf("got %v", host)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := r.Run(); !errors.Is(err, errRecordingClosed) {
		t.Errorf("a closed recording runs: %v", err)
	}
	must[device.Recording](t)(d.Record(fill.Run)) // Close deletes it
}

// TestCopyAsync: copies run in the stream of their direction, alone and in a recording, which
// must join them.
func TestCopyAsync(t *testing.T) {
	d, log := open(t)
	p := must[device.Pointer](t)(d.Alloc(64))
	q := must[device.Pointer](t)(d.AllocHost(64))
	host := unsafe.Slice((*byte)(q), 64)
	host[0] = 7
	there := must[device.Event](t)(d.CopyAsync(p, q, 32))
	back := must[device.Event](t)(d.CopyAsync(unsafe.Add(q, 32), p, 32))
	if err := errors.Join(d.Join(there), d.Join(back), d.Join(there), d.Wait()); err != nil {
		t.Fatal(err)
	}
	if host[32] != 7 {
		t.Error("nothing was copied")
	}
	if got := lines(t, log); !slices.Equal(got[1:], []string{"copy in stream 1", "copy in stream 2"}) {
		t.Errorf("got %q", got)
	}
	host[0] = 8
	if err := errors.Join(d.Join(must[device.Event](t)(d.CopyNow(p, q, 32))), d.Join(must[device.Event](t)(d.CopyNow(unsafe.Add(q, 32), p, 32)))); err != nil || host[32] != 8 {
		t.Errorf("now: %d, %v", host[32], err)
	}
	open := must[device.Event](t)(d.CopyAsync(p, q, 32))
	var left device.Event
	copies := func(join bool) func() error {
		return func() error {
			for range 3 {
				if err := d.Join(open); err == nil || !strings.Contains(err.Error(), "another recording") {
					t.Errorf("a copy of before is joined: %v", err)
				}
				a, err := d.CopyAsync(p, q, 32)
				b, err2 := d.CopyAsync(unsafe.Add(q, 32), p, 32)
				if err := errors.Join(err, err2); err != nil || !join {
					left = a
					return err
				}
				if err := errors.Join(d.Join(a), d.Join(b)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if _, err := d.Record(copies(false)); err == nil || !strings.Contains(err.Error(), "recording with 2 copies that are not joined") {
		t.Errorf("copies that are not joined: %v", err)
	}
	if err := d.Join(left); err != nil {
		t.Errorf("the recording that failed has joined them: %v", err)
	}
	refused := errors.New("refused")
	if _, err := d.Record(func() error { return errors.Join(copies(false)(), refused) }); !errors.Is(err, refused) {
		t.Errorf("an error of f: %v", err)
	}
	r := must[device.Recording](t)(d.Record(copies(true)))
	host[0], host[32] = 9, 0
	if err := errors.Join(d.Join(open), r.Run(), d.Wait()); err != nil || host[32] != 9 {
		t.Errorf("got %v, %v", host[32], err)
	}
	if len(d.events) > 3 {
		t.Errorf("%d events for at most 3 copies at a time", len(d.events))
	}
	if err := d.Join("x"); err == nil {
		t.Error("a text is joined")
	}
	for _, f := range []string{"cuEventRecord", "cuStreamWaitEvent", "cuMemcpyAsync"} {
		t.Setenv("FAKE_FAIL", f+"=1@1")
		if _, err := d.CopyAsync(p, q, 8); err == nil || !strings.Contains(err.Error(), "asynchronous copy of 8 bytes: CUDA_ERROR_1") {
			t.Errorf("%s fails: %v", f, err)
		}
	}
}

// TestRunAsync: libraries use a stream of their own, after the work so far; their calls are joined
// like a copy.
func TestRunAsync(t *testing.T) {
	d, _ := open(t)
	var stream device.Pointer
	work := func(p device.Pointer) error { stream = p; return nil }
	first := must[device.Event](t)(d.RunAsync(work))
	if stream == nil || stream == d.Stream() {
		t.Errorf("the stream %v, that of work is %v", stream, d.Stream())
	}
	if _, err := d.Record(func() error {
		if err := d.Join(first); err == nil || !strings.Contains(err.Error(), "another recording") {
			t.Errorf("work of before is joined: %v", err)
		}
		_, err := d.RunAsync(work)
		return err
	}); err == nil || !strings.Contains(err.Error(), "not joined") {
		t.Errorf("work that is not joined: %v", err)
	}
	r := must[device.Recording](t)(d.Record(func() error {
		a, err := d.RunAsync(work)
		b, err2 := d.RunAsync(work)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		return errors.Join(d.Join(b), d.Join(a))
	}))
	if err := errors.Join(d.Join(first), r.Run(), d.Wait()); err != nil {
		t.Error(err)
	}
	refused := errors.New("refused")
	fails := func() error {
		_, err := d.RunAsync(func(device.Pointer) error { return refused })
		return err
	}
	if err := fails(); !errors.Is(err, refused) {
		t.Errorf("an error of the library: %v", err)
	}
	if _, err := d.Record(fails); !errors.Is(err, refused) {
		t.Errorf("an error of the library in a recording: %v", err)
	}
	if len(d.events) > 3 {
		t.Errorf("%d events for work of three at a time", len(d.events))
	}
	for _, f := range []string{"cuEventRecord=1@1", "cuEventRecord=1@2", "cuStreamWaitEvent=1@1"} {
		t.Setenv("FAKE_FAIL", f)
		if _, err := d.RunAsync(work); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_1") {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestTime: the fake device takes half a millisecond for each thing.
func TestTime(t *testing.T) {
	d, _ := open(t)
	p := must[device.Pointer](t)(d.Alloc(8))
	s, err := d.Time(func() error { return errors.Join(d.Zero(p, 8), d.Zero(p, 8), d.Zero(p, 8)) })
	if err != nil || s != 1.5e-3 {
		t.Errorf("got %v s, %v", s, err)
	}
	refused := errors.New("refused")
	if _, err := d.Time(func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("an error of f: %v", err)
	}
}

// TestThreads: the context is current wherever a goroutine runs.
func TestThreads(t *testing.T) {
	d, _ := open(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the test has its own
		done <- d.Wait()
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestFailures: when a call of the driver fails, the error names it, and nothing is left
// behind; the device is lost after the codes that define it.
func TestFailures(t *testing.T) {
	for _, code := range []int{1, 700} {
		for _, c := range []struct {
			function string
			do       func(d *gpu, p, q device.Pointer, m device.Module, fill device.Call, r device.Recording) error
		}{
			{"cuMemGetInfo_v2", func(d *gpu, _, _ device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return errOf(d.FreeBytes())
			}},
			{"cuMemAlloc_v2", func(d *gpu, _, _ device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return errOf(d.Alloc(1))
			}},
			{"cuMemFree_v2", func(d *gpu, p, _ device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return d.Free(p)
			}},
			{"cuMemHostAlloc", func(d *gpu, _, _ device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return errOf(d.AllocHost(1))
			}},
			{"cuMemFreeHost", func(d *gpu, _, q device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return d.FreeHost(q)
			}},
			{"cuMemcpyAsync", func(d *gpu, p, q device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return d.Copy(p, q, 4)
			}},
			{"cuMemsetD8Async", func(d *gpu, p, _ device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return d.Zero(p, 4)
			}},
			{"cuStreamSynchronize", func(d *gpu, _, _ device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return d.Wait()
			}},
			{"cuModuleGetFunction", func(_ *gpu, p, _ device.Pointer, m device.Module, _ device.Call, _ device.Recording) error {
				return errOf(m.Call("fill", device.Size{}, p, float32(1), int64(1)))
			}},
			{"cuFuncGetAttribute", func(_ *gpu, p, _ device.Pointer, m device.Module, _ device.Call, _ device.Recording) error {
				return errOf(m.Call("fill", device.Size{}, p, float32(1), int64(1)))
			}},
			{"cuFuncSetAttribute", func(_ *gpu, p, _ device.Pointer, m device.Module, _ device.Call, _ device.Recording) error {
				return errOf(m.Call("fill", device.Size{Shared: 64 << 10}, p, float32(1), int64(1)))
			}},
			{"cuLaunchKernel", func(_ *gpu, _, _ device.Pointer, _ device.Module, fill device.Call, _ device.Recording) error {
				return fill.Run()
			}},
			{"cuStreamBeginCapture_v2", func(d *gpu, _, _ device.Pointer, _ device.Module, fill device.Call, _ device.Recording) error {
				return errOf(d.Record(fill.Run))
			}},
			{"cuStreamEndCapture", func(d *gpu, _, _ device.Pointer, _ device.Module, _ device.Call, _ device.Recording) error {
				return errOf(d.Record(func() error { return nil }))
			}},
			{"cuGraphInstantiateWithFlags", func(d *gpu, _, _ device.Pointer, _ device.Module, fill device.Call, _ device.Recording) error {
				return errOf(d.Record(fill.Run))
			}},
			{"cuGraphUpload", func(d *gpu, _, _ device.Pointer, _ device.Module, fill device.Call, _ device.Recording) error {
				return errOf(d.Record(fill.Run))
			}},
			{"cuGraphDestroy", func(d *gpu, _, _ device.Pointer, _ device.Module, fill device.Call, _ device.Recording) error {
				return errOf(d.Record(fill.Run))
			}},
			{"cuGraphLaunch", func(_ *gpu, _, _ device.Pointer, _ device.Module, _ device.Call, r device.Recording) error {
				return r.Run()
			}},
			{"cuGraphExecDestroy", func(_ *gpu, _, _ device.Pointer, _ device.Module, _ device.Call, r device.Recording) error {
				return r.Close()
			}},
			{"cuEventRecord", func(d *gpu, _, _ device.Pointer, _ device.Module, fill device.Call, _ device.Recording) error {
				return errOf(d.Time(fill.Run))
			}},
			{"cuEventSynchronize", func(d *gpu, _, _ device.Pointer, _ device.Module, fill device.Call, _ device.Recording) error {
				return errOf(d.Time(fill.Run))
			}},
			{"cuEventElapsedTime", func(d *gpu, _, _ device.Pointer, _ device.Module, fill device.Call, _ device.Recording) error {
				return errOf(d.Time(fill.Run))
			}},
		} {
			t.Run(fmt.Sprintf("%s=%d", c.function, code), func(t *testing.T) {
				d, _ := open(t)
				m := must[device.Module](t)(d.Load(program))
				p := must[device.Pointer](t)(d.Alloc(64))
				q := must[device.Pointer](t)(d.AllocHost(64))
				fill := must[device.Call](t)(m.Call("fill", device.Size{}, p, float32(1), int64(1)))
				r := must[device.Recording](t)(d.Record(fill.Run))
				if err := fill.Run(); err != nil {
					t.Fatal(err)
				}
				t.Setenv("FAKE_FAIL", fmt.Sprintf("%s=%d", c.function, code))
				err := c.do(d, p, q, m, fill, r)
				t.Setenv("FAKE_FAIL", "")
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("CUDA_ERROR_%d (what it means)", code)) || !strings.Contains(err.Error(), "GPU 1: ") {
					t.Fatalf("got %v", err)
				}
				last := "the last call was fill.cu: fill"
				if c.function == "cuGraphLaunch" {
					last = "the last call was a recording"
				}
				after := d.Wait()
				if code == 1 {
					if after != nil || errors.Is(err, device.ErrLost) {
						t.Errorf("the device is lost after %v: %v", err, after)
					}
					return
				}
				if !errors.Is(err, device.ErrLost) || !errors.Is(after, device.ErrLost) || !strings.Contains(err.Error(), last) {
					t.Errorf("not lost, or by nothing: %v, then %v", err, after)
				}
			})
		}
	}
}

// TestLoadFails: errors contain the logs of the compiler and of the driver.
func TestLoadFails(t *testing.T) {
	d, _ := open(t)
	if _, err := d.Load(device.Program{Name: "bad.cu", Source: "wrong"}); err == nil ||
		!strings.Contains(err.Error(), "compile bad.cu with --gpu-architecture=sm_90 --std=c++17") || !strings.Contains(err.Error(), "line 1: this is wrong") {
		t.Errorf("got %v", err)
	}
	t.Setenv("FAKE_FAIL", "cuModuleLoadDataEx=209")
	if _, err := d.Load(program); err == nil || !strings.Contains(err.Error(), "load fill.cu: CUDA_ERROR_209") || !strings.Contains(err.Error(), "log of the driver") {
		t.Errorf("got %v", err)
	}
	t.Setenv("FAKE_FAIL", "")
	must[device.Module](t)(d.Load(program))
}

// TestNewerThanNVRTC: the compiler's newest PTX, which the driver translates.
func TestNewerThanNVRTC(t *testing.T) {
	fake(t)
	t.Setenv("FAKE_VALUES", "major=12")
	log := os.Getenv("FAKE_LOG")
	d := must[device.Device](t)(Open(1))
	defer d.Close()
	must[device.Module](t)(d.Load(program))
	if got := lines(t, log); !slices.Contains(got, "load ptx --gpu-architecture=compute_90") {
		t.Errorf("got %q", got)
	}
}

// held is how many things of the fake driver were left when its context was last released.
func held(t *testing.T, log string) int {
	t.Helper()
	all := lines(t, log)
	last := all[len(all)-1]
	var device int
	n := make([]int, 8)
	if _, err := fmt.Sscanf(last, "release %d memory=%d host=%d modules=%d streams=%d events=%d graphs=%d execs=%d references=%d", &device,
		&n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]); err != nil {
		t.Fatalf("%s: %v", last, err)
	}
	sum := 0
	for _, v := range n {
		sum += v
	}
	return sum
}

// TestCloseFails: after any failure everything else is freed, and the first error is
// returned. The fake driver lists what was not freed.
func TestCloseFails(t *testing.T) {
	before := leaked
	defer func() { leaked = before }()
	for _, name := range []string{"cuStreamSynchronize", "cuGraphExecDestroy", "cuModuleUnload", "cuMemFree_v2", "cuMemFreeHost", "cuEventDestroy_v2", "cuStreamDestroy_v2", "cuDevicePrimaryCtxRelease_v2"} {
		log := fake(t)
		d := must[device.Device](t)(Open(1)).(*gpu)
		m := must[device.Module](t)(d.Load(program))
		p := must[device.Pointer](t)(d.Alloc(64))
		must[device.Pointer](t)(d.AllocHost(64))
		fill := must[device.Call](t)(m.Call("fill", device.Size{}, p, float32(1), int64(1)))
		must[device.Recording](t)(d.Record(fill.Run))
		t.Setenv("FAKE_FAIL", name+"=1@1")
		err := d.Close()
		t.Setenv("FAKE_FAIL", "")
		if short, _, _ := strings.Cut(name, "_"); err == nil || !strings.Contains(err.Error(), short) {
			t.Errorf("%s: got %v", name, err)
		}
		after := held(t, log)
		if after > before+1 {
			t.Errorf("%s: %d things are left, before %d", name, after, before)
		}
		before = after
		for what, err := range map[string]error{"Wait": d.Wait(), "call": fill.Run(), "Alloc": errOf(d.Alloc(1)), "Load": errOf(d.Load(program))} {
			if !errors.Is(err, errClosed) {
				t.Errorf("%s of a closed device: %v", what, err)
			}
		}
	}
}

// TestDriverCUDA: a compiler that is newer than the driver is not taken, one that it serves
// is.
func TestDriverCUDA(t *testing.T) {
	defer libraries.SetDriverCUDA(0)
	fake(t)
	t.Setenv(libraries.PathVariable, filepath.Join(fakes, "thirteen"))
	if _, err := Open(0); !hasNVRTC(t) && (err == nil || !strings.Contains(err.Error(), "the driver supports CUDA 12 and nothing newer")) {
		t.Errorf("NVRTC 13 on a driver of 12.4: %v", err)
	}
	t.Setenv("FAKE_VALUES", "version=13010")
	if err := must[device.Device](t)(Open(0)).Close(); err != nil {
		t.Error(err)
	}
	t.Setenv(libraries.PathVariable, filepath.Join(fakes, "thirteen")+":"+filepath.Join(fakes, "new"))
	t.Setenv("FAKE_VALUES", "")
	d := must[device.Device](t)(Open(0)).(*gpu)
	if got := d.compiler.Path(); got != filepath.Join(fakes, "new", "libnvrtc.so.12") {
		t.Errorf("took %s", got)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
