// Package device defines what the engine needs of a GPU: memory, kernels compiled from
// source, and a stream in which they run. Package gpu implements it for NVIDIA GPUs.
// Package emulate runs the same sources on the host, for tests.
package device

import "unsafe"

// Pointer is an address in the memory of a device or of the host. Addresses are unique
// across memories. The program must not access memory of a device through it.
type Pointer = unsafe.Pointer

// Device is an open device with one stream: work runs in the order in which it is
// enqueued, while the caller continues. It must be used by one goroutine at a time,
// locked to its thread.
type Device interface {
	// Properties returns constant properties of the device.
	Properties() Properties
	// Alloc allocates memory of the device, aligned to 256 bytes and not initialised.
	//
	// Errors: ErrOutOfMemory, wrapped with the requested and the free size.
	Alloc(bytes int64) (Pointer, error)
	// Free frees memory after all enqueued work; nil does nothing.
	Free(p Pointer) error
	// AllocHost allocates page-locked memory of the host, which the device reads and
	// writes at full speed.
	AllocHost(bytes int64) (Pointer, error)
	// FreeHost frees memory from AllocHost; nil does nothing.
	FreeHost(p Pointer) error
	// Copy copies between memories of any kind.
	Copy(dst, src Pointer, bytes int64) error
	// CopyAsync starts a copy that waits for all work enqueued so far and runs
	// concurrently with later work, until Join. Host memory must be from AllocHost. Copies
	// to the device run in order, and so do copies from it. It can be recorded, if Join is
	// called in the same recording.
	CopyAsync(dst, src Pointer, bytes int64) (Event, error)
	// CopyNow is CopyAsync without waiting: no enqueued work may use the memory that it
	// reads or writes. It cannot be recorded.
	CopyNow(dst, src Pointer, bytes int64) (Event, error)
	// Join makes work enqueued later wait for an event.
	Join(t Event) error
	// Zero sets memory of the device to zero.
	Zero(p Pointer, bytes int64) error
	// Load compiles and loads a program. Programs that this or another process of the
	// machine has loaded before come from a cache.
	//
	// Errors: the log of the compiler, with the name of the program.
	Load(p Program) (Module, error)
	// Record runs f, which only enqueues work and waits for nothing, and returns a
	// recording of that work. The work itself is not executed.
	Record(f func() error) (Recording, error)
	// Wait blocks until all enqueued work is done.
	//
	// Errors: those of any of that work.
	Wait() error
	// Close frees all memory and closes the device. It may be called more than once.
	Close() error
}

// Event marks the end of a copy, or of work of a library, that runs concurrently with
// the stream. It is valid until the device is closed, and only within the recording in
// which it was made.
type Event any

// Properties describes a device.
type Properties struct {
	Name            string // such as "NVIDIA H100 80GB HBM3"
	UUID            string // such as "GPU-8e7f…", as nvidia-smi shows it; "" if emulated
	Architecture    int    // compute capability times ten: 90 is 9.0
	Multiprocessors int    // streaming multiprocessors
	SharedBytes     int    // largest shared memory of a block, dynamic and static
	MemoryBytes     int64
	MemoryBandwidth float64 // bytes per second, from clock and width
	Emulated        bool    // runs on the host: no libraries, no tensor cores
}

// Program is CUDA C++ source that includes only headers of package kernels.
type Program struct {
	Name    string // of its file, for messages
	Source  string
	Defines []string // macros "NAME=value", in order
	// Specific programs use instructions that only the architecture of the device has,
	// and later ones have not.
	Specific bool
}

// Module is a compiled and loaded program.
type Module interface {
	// Call prepares a call of a kernel. Arguments must be Pointer, int32, int64, uint32,
	// uint64 or float32, exactly as the parameters of the kernel.
	//
	// Errors: the program has no such kernel, or the size exceeds the limits of a block.
	Call(kernel string, size Size, args ...any) (Call, error)
}

// Size is the number of threads of a kernel.
type Size struct {
	Grid   [3]int // blocks; 0 means 1
	Block  [3]int // threads of a block; 0 means 1
	Shared int    // dynamic shared memory of a block in bytes
}

// Call is a kernel with its arguments. Run enqueues it and allocates nothing.
type Call interface{ Run() error }

// Recording is work that is enqueued as a whole (a CUDA graph).
type Recording interface {
	Run() error
	Close() error
}

// NativeHandles is implemented by real devices, for libraries such as cuDNN and NCCL.
type NativeHandles interface {
	// Stream returns the CUstream of the device, Context the CUcontext.
	Stream() Pointer
	Context() Pointer
	// MakeCurrent makes the context current on the calling OS thread, which must be locked
	// to the goroutine.
	MakeCurrent() error
}

// AsyncRunner is implemented by real devices, which have a second stream for libraries.
type AsyncRunner interface {
	// RunAsync calls f to enqueue work of a library in the second stream. That work waits
	// for all work enqueued so far in both streams, and runs concurrently with later work
	// of the first, until Join. It can be recorded, if Join is called in the same
	// recording.
	RunAsync(f func(stream Pointer) error) (Event, error)
}

// Profiler is implemented by real devices.
type Profiler interface {
	// Time returns the seconds that the device takes for the work that f enqueues, and
	// waits for it.
	Time(f func() error) (seconds float64, err error)
	// FreeBytes returns the free memory of the device, whichever process uses the rest.
	FreeBytes() (int64, error)
}
