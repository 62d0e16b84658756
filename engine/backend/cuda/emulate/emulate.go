//go:build cgo && linux

package emulate

/*
#include <stdlib.h>
#include <sys/mman.h>

typedef void (*launcher)(const unsigned *grid, const unsigned *block, unsigned bytes, void **args);
typedef const char *(*describer)(void);

static void emulate_launch(void *f, const unsigned *size, unsigned bytes, void **args) {
	((launcher)f)(size, size + 3, bytes, args);
}
static const char *emulate_kinds(void *f) { return ((describer)f)(); }

// Arguments as a kernel takes them: pointers to values of eight bytes.
static void **emulate_arguments(const unsigned long long *values, int n) {
	void **p = malloc((n + 1) * (sizeof(void *) + 8));
	unsigned long long *v = (unsigned long long *)(p + n + 1);
	for (int i = 0; i < n; i++) {
		v[i] = values[i];
		p[i] = &v[i];
	}
	return p;
}

static void *emulate_map(size_t bytes) {
	void *p = mmap(0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? 0 : p;
}
static int emulate_protect(void *p, size_t bytes, int open) { return mprotect(p, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE); }
static void emulate_unmap(void *p, size_t bytes) { munmap(p, bytes); }
*/
import "C"

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/internal/dl"
)

//go:embed emulate.h
var header string

// launching serialises kernels: their shared memory is static.
var launching sync.Mutex

// Device is an emulated device. Work is executed when it is enqueued. One goroutine uses
// it at a time, as the context of a GPU.
type Device struct {
	limit       int64 // size of its memory in bytes
	used        int64
	regions     map[device.Pointer]region
	host        map[device.Pointer]int64 // bytes of each allocation
	recording   *recording
	args        []unsafe.Pointer // arguments of calls, freed by Close
	pending     []*asyncWork     // asynchronous work, in order
	transferred int64            // bytes copied between host and device
	closed      bool
}

// region is memory between two protected pages, so that accesses outside of it fault.
type region struct {
	base          device.Pointer
	mapped, bytes int64
}

// page is the granularity of protection, a multiple of the alignment of the memory.
const page = 4096

// Open returns a device with the given amount of memory in bytes.
//
// Errors: no C++ compiler on the path.
func Open(memory int64) (*Device, error) {
	if _, err := exec.LookPath(compiler); err != nil {
		return nil, fmt.Errorf("emulate: no compiler %s on the path; install it (Debian: apt-get install g++): %w", compiler, err)
	}
	return &Device{limit: memory, regions: map[device.Pointer]region{}, host: map[device.Pointer]int64{}}, nil
}

// Properties returns the limits of compute capability 8.0.
func (d *Device) Properties() device.Properties {
	return device.Properties{Name: "emulated", Architecture: 80, Multiprocessors: 2, SharedBytes: 227 << 10, MemoryBytes: d.limit, MemoryBandwidth: 1e9, Emulated: true}
}

// Alloc allocates memory that only kernels and copies may access. All its bits are set,
// which is NaN in every floating-point type.
//
// The pages before and after it stay protected, so an access beyond the end faults at
// once if the size is a multiple of 256 bytes, else after the padding of the alignment.
//
// Errors: device.ErrOutOfMemory above the limit of Open.
func (d *Device) Alloc(bytes int64) (device.Pointer, error) {
	if bytes > d.limit-d.used {
		return nil, fmt.Errorf("%w: %d bytes requested, %d of %d free", device.ErrOutOfMemory, bytes, d.limit-d.used, d.limit)
	}
	r := region{bytes: (bytes + page - 1) / page * page}
	r.mapped = r.bytes + 2*page
	if r.base = C.emulate_map(C.size_t(r.mapped)); r.base == nil {
		return nil, fmt.Errorf("%w: the host has no more", device.ErrOutOfMemory)
	}
	// The end of the memory is that of its last page, as far as its alignment lets it.
	const align = 256
	p := unsafe.Add(r.base, page+(r.bytes-bytes)/align*align)
	d.regions[p] = r
	d.used += r.bytes
	return p, d.open(func() error {
		for i := range unsafe.Slice((*byte)(unsafe.Add(r.base, page)), r.bytes) {
			*(*byte)(unsafe.Add(r.base, page+i)) = 0xff
		}
		return nil
	})
}

// Free frees memory from Alloc.
func (d *Device) Free(p device.Pointer) error {
	if p == nil {
		return nil
	}
	r, ok := d.regions[p]
	if !ok {
		return errors.New("emulate: Free of memory that was not allocated")
	}
	delete(d.regions, p)
	d.used -= r.bytes
	C.emulate_unmap(r.base, C.size_t(r.mapped))
	return nil
}

// AllocHost allocates memory of the process. It is set to 0. It stands for page-locked
// memory, which copies read and write in the order of the stream.
func (d *Device) AllocHost(bytes int64) (device.Pointer, error) {
	p := C.calloc(C.size_t(max(bytes, 1)+64), 1)
	if p == nil {
		return nil, fmt.Errorf("%w: the host has no more", device.ErrOutOfMemory)
	}
	d.host[p] = bytes
	return p, nil
}

// FreeHost frees memory from AllocHost.
func (d *Device) FreeHost(p device.Pointer) error {
	if p != nil {
		delete(d.host, p)
		C.free(p)
	}
	return nil
}

// open makes the memory of the device accessible while f runs. A program that accesses
// memory of the device at another time faults, as with a GPU. Cost: two calls of
// mprotect for each allocation.
func (d *Device) open(f func() error) error {
	for _, r := range d.regions {
		if C.emulate_protect(unsafe.Add(r.base, page), C.size_t(r.bytes), 1) != 0 {
			return errors.New("emulate: mprotect: cannot permit access to device memory")
		}
	}
	err := f()
	for _, r := range d.regions {
		if C.emulate_protect(unsafe.Add(r.base, page), C.size_t(r.bytes), 0) != 0 {
			return errors.Join(err, errors.New("emulate: mprotect: cannot protect device memory"))
		}
	}
	return err
}

// do executes work, or adds it to the recording.
//
// Errors: a device that is closed; those of f.
func (d *Device) do(f func() error) error {
	if d.closed {
		return errors.New("emulate: the device is closed")
	}
	if d.recording != nil {
		d.recording.work = append(d.recording.work, f)
		return nil
	}
	return d.open(f)
}

// BytesTransferred returns the number of bytes copied between host and device so far,
// in both directions.
func (d *Device) BytesTransferred() int64 { return d.transferred }

// countTransfer counts an executed copy.
func (d *Device) countTransfer(dst, src device.Pointer, bytes int64) {
	if d.owns(dst) != d.owns(src) {
		d.transferred += bytes
	}
}

// owns reports whether an address is in the memory of the device.
func (d *Device) owns(p device.Pointer) bool {
	for base, r := range d.regions {
		if uintptr(p) >= uintptr(base) && uintptr(p) < uintptr(base)+uintptr(max(r.bytes, 1)) {
			return true
		}
	}
	return false
}

// Copy copies between memories.
func (d *Device) Copy(dst, src device.Pointer, bytes int64) error {
	return d.do(func() error {
		d.countTransfer(dst, src, bytes)
		copy(unsafe.Slice((*byte)(dst), bytes), unsafe.Slice((*byte)(src), bytes))
		return nil
	})
}

// asyncCopy is a copy in progress. Its result is stored at Join.
type asyncCopy struct {
	dst, src device.Pointer
	data     []byte
	ended    bool
}

// CopyAsync reads the source at once and writes the destination at Join. Until then the
// destination contains NaN, and any change of source or destination is an error at
// Join.
func (d *Device) CopyAsync(dst, src device.Pointer, bytes int64) (device.Event, error) {
	t := newAsyncCopy(dst, src, bytes)
	return t, d.do(func() error {
		d.countTransfer(dst, src, bytes)
		return t.begin()
	})
}

func newAsyncCopy(dst, src device.Pointer, bytes int64) *asyncCopy {
	return &asyncCopy{dst: dst, src: src, data: make([]byte, bytes)}
}

func (a *asyncCopy) begin() error {
	a.ended = false
	copy(a.data, unsafe.Slice((*byte)(a.src), len(a.data)))
	to := unsafe.Slice((*byte)(a.dst), len(a.data))
	for i := range to {
		to[i] = inFlight
	}
	return nil
}

// inFlight is the byte that fills the destination of a copy in progress: NaN in every
// floating-point type.
const inFlight = 0xff

// CopyNow is CopyAsync: no work is in progress.
func (d *Device) CopyNow(dst, src device.Pointer, bytes int64) (device.Event, error) {
	return d.CopyAsync(dst, src, bytes)
}

// Join ends a copy or asynchronous work.
func (d *Device) Join(t device.Event) error {
	if b, ok := t.(*asyncWork); ok {
		return d.do(b.end)
	}
	return d.do(t.(*asyncCopy).end)
}

// end stores the result of a copy, once.
func (a *asyncCopy) end() error {
	if a.ended {
		return nil
	}
	a.ended = true
	if !bytes.Equal(unsafe.Slice((*byte)(a.src), len(a.data)), a.data) {
		return errors.New("emulate: the source of CopyAsync was changed before Join")
	}
	to := unsafe.Slice((*byte)(a.dst), len(a.data))
	for _, v := range to {
		if v != inFlight {
			return errors.New("emulate: the destination of CopyAsync was changed before Join")
		}
	}
	copy(to, a.data)
	return nil
}

// FreeBytes returns the free part of the memory.
func (d *Device) FreeBytes() (int64, error) { return d.limit - d.used, nil }

// RunInOrder executes f in the order of the stream, as a library would.
func (d *Device) RunInOrder(f func() error) error { return d.do(f) }

// Zero sets memory to zero.
func (d *Device) Zero(p device.Pointer, bytes int64) error {
	return d.do(func() error {
		clear(unsafe.Slice((*byte)(p), bytes))
		return nil
	})
}

// Wait ends asynchronous work; other work has been executed when it was enqueued.
func (d *Device) Wait() error {
	if d.recording != nil || d.closed || len(d.pending) == 0 {
		return nil
	}
	return d.open(d.finishAsync)
}

// Close frees all memory.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	for p := range d.regions {
		_ = d.Free(p) // it is one of them
	}
	for p := range d.host {
		C.free(p)
	}
	for _, p := range d.args {
		C.free(p)
	}
	return nil
}

type recording struct {
	d    *Device
	work []func() error
}

// Record records the work that f enqueues. Nothing is executed meanwhile, as in the
// capture of a CUDA graph.
func (d *Device) Record(f func() error) (device.Recording, error) {
	r := &recording{d: d}
	d.recording = r
	err := f()
	d.recording = nil
	return r, err
}

func (r *recording) Run() error {
	for _, f := range r.work {
		if err := r.d.do(f); err != nil {
			return err
		}
	}
	return nil
}

func (r *recording) Close() error { return nil }

const compiler = "g++"

// Load compiles a program, unless the user's cache directory has it.
//
// The name of the library has the digest of its source, so a changed kernel or header is
// compiled anew and old libraries are never loaded.
//
// Errors: those of the compiler, with its messages; a cache directory that cannot be
// written.
func (d *Device) Load(p device.Program) (device.Module, error) {
	var s strings.Builder
	s.WriteString(header)
	for _, m := range p.Defines {
		name, value, _ := strings.Cut(m, "=")
		fmt.Fprintf(&s, "#define %s %s\n", name, value)
	}
	fmt.Fprintf(&s, "#line 1 %q\n%s\n", p.Name, p.Source)
	for _, name := range kernels.Names(p) {
		fmt.Fprintf(&s, "EMULATED_ENTRY(%s)\n", name)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	dir = filepath.Join(dir, "ensemble", "emulated")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("emulate: %w", err)
	}
	file := filepath.Join(dir, fmt.Sprintf("%s-%x.so", strings.TrimSuffix(p.Name, ".cu"), sha256.Sum256([]byte(s.String()))))
	if _, err := os.Stat(file); err != nil {
		if err := compile(file, s.String()); err != nil {
			return nil, fmt.Errorf("compile %s: %w", p.Name, err)
		}
	}
	lib, err := dl.Open(file)
	if err != nil {
		return nil, err
	}
	return &module{d, lib, p.Name}, nil
}

// compile writes the library atomically: tests of several packages may compile it at
// the same time.
func compile(file, source string) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".compiling-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	if err := temporary.Close(); err != nil {
		return err
	}
	cmd := exec.Command(compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-nostdinc++", "-w", "-U_FORTIFY_SOURCE", "-o", temporary.Name(), "-x", "c++", "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return os.Rename(temporary.Name(), file)
}

type module struct {
	d    *Device
	lib  *dl.Library
	name string
}

// Call prepares a call and checks arguments and sizes.
//
// A GPU accepts an argument of another type of the same size, and computes with wrong
// values; here the kinds of arguments are compared with those that the C++ compiler has
// seen.
//
// Errors: an unknown kernel, arguments of other types, more threads or shared memory
// than Properties permits.
func (m *module) Call(kernel string, size device.Size, args ...any) (device.Call, error) {
	fail := func(err error) error { return fmt.Errorf("%s: kernel %s: %w", m.name, kernel, err) }
	launch, err := m.lib.Symbol("emulated_launch_" + kernel)
	if err != nil {
		return nil, fail(err)
	}
	describe, err := m.lib.Symbol("emulated_kinds_" + kernel)
	if err != nil {
		return nil, fail(err)
	}
	values, kinds, err := device.PackArguments(args)
	if err != nil {
		return nil, fail(err)
	}
	if want := C.GoString(C.emulate_kinds(describe)); want != kinds {
		return nil, fail(fmt.Errorf("types of arguments: got %s, want %s", kinds, want))
	}
	c := &call{d: m.d, launch: launch, shared: C.uint(size.Shared)}
	threads := 1
	for i := range 3 {
		c.size[i], c.size[3+i] = C.uint(max(size.Grid[i], 1)), C.uint(max(size.Block[i], 1))
		threads *= max(size.Block[i], 1)
	}
	p := m.d.Properties()
	if threads > 1024 || size.Shared > p.SharedBytes || max(size.Grid[1], size.Grid[2]) > 65535 {
		return nil, fail(fmt.Errorf("blocks of %d threads with %d bytes of shared memory in a grid of %v: want at most 1024 threads, %d bytes, and 65535 blocks along y and z", threads, size.Shared, size.Grid, p.SharedBytes))
	}
	values = append(values, 0) // never empty
	c.args = C.emulate_arguments((*C.ulonglong)(unsafe.Pointer(&values[0])), C.int(len(args)))
	m.d.args = append(m.d.args, unsafe.Pointer(c.args))
	c.run = func() error {
		launching.Lock()
		defer launching.Unlock()
		C.emulate_launch(c.launch, &c.size[0], c.shared, c.args)
		return nil
	}
	return c, nil
}

type call struct {
	d      *Device
	launch unsafe.Pointer
	size   [6]C.uint
	shared C.uint
	args   *unsafe.Pointer
	run    func() error
}

// Run runs all threads of the kernel.
func (c *call) Run() error { return c.d.do(c.run) }
