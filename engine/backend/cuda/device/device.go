// Package device says what the engine wants of a GPU: memory, kernels made from
// source, and an order in which they run. The real one is in package gpu; package
// emulate runs the same sources on the processor, for tests.
package device

import "unsafe"

// Pointer is an address in the memory of a device or of the host. No two memories share
// an address. The program itself must not read or write what lies in that of a device.
type Pointer = unsafe.Pointer

// Device is one opened device with one order of work: what is asked for runs after what
// was asked for before, while the caller goes on. It is used by one goroutine at a time,
// locked to its thread.
type Device interface {
	// Properties never change.
	Properties() Properties
	// Alloc gives memory of the device, aligned to 256 bytes, of no meaning.
	//
	// Errors: ErrMemory around how much was asked for and how much is free.
	Alloc(bytes int64) (Pointer, error)
	// Free gives it back, after all work that was asked for; nil does nothing.
	Free(p Pointer) error
	// AllocHost gives memory of the host that the device reads and writes at full speed.
	AllocHost(bytes int64) (Pointer, error)
	// FreeHost gives it back; nil does nothing.
	FreeHost(p Pointer) error
	// Copy copies between memories of any kind.
	Copy(dst, src Pointer, bytes int64) error
	// CopyAsync copies behind all work that was asked for so far, and beside what is asked for
	// later, until Join. Host memory must be of AllocHost. Copies towards the device run in the
	// order in which they were asked for, and so do those from it. It may be recorded, with the
	// Join of all it began.
	CopyAsync(dst, src Pointer, bytes int64) (Event, error)
	// CopyNow is CopyAsync behind nothing: what it reads and writes is not in use by any work
	// that was asked for. It cannot be recorded.
	CopyNow(dst, src Pointer, bytes int64) (Event, error)
	// Join has the work that is asked for later wait for a copy.
	Join(t Event) error
	// Zero clears memory of the device.
	Zero(p Pointer, bytes int64) error
	// Load makes the kernels of a program; programs that were loaded before, by this or
	// another process of the machine, take no time.
	//
	// Errors: what the compiler says, with the name of the program.
	Load(p Program) (Module, error)
	// Record runs f, which only asks for work and waits for nothing, and gives what
	// repeats that work as a whole. The work of f itself is not done.
	Record(f func() error) (Recording, error)
	// Wait returns when all work is done.
	//
	// Errors: of any of the work.
	Wait() error
	// Close ends all. It may be repeated.
	Close() error
}

// Event names a copy, or work of a library, that runs aside. It is valid until the device is closed, and within
// the recording in which it was given.
type Event any

// Properties are what a device is.
type Properties struct {
	Name            string // "NVIDIA H100 80GB HBM3"
	UUID            string // "GPU-8e7f…", by which the driver's tools know it; "" if emulated
	Architecture    int    // compute capability times ten: 90
	Multiprocessors int    // that run blocks of threads
	SharedBytes     int    // most shared memory of a block, dynamic and static
	MemoryBytes     int64
	MemoryBandwidth float64 // bytes a second, by clock and width
	Emulated        bool    // runs on the processor: no libraries, no tensor cores
}

// Program is source in CUDA C++ that uses no headers but those of package kernels.
type Program struct {
	Name    string // of its file, for messages
	Source  string
	Defines []string // "NAME=value", in order
}

// Module is a compiled program.
type Module interface {
	// Call prepares a call of a kernel. Arguments are Pointer, int32, int64, uint32, uint64
	// or float32, exactly of the types of the kernel's parameters.
	//
	// Errors: no kernel of this name, or more shared memory or threads than a block can have.
	Call(kernel string, size Size, args ...any) (Call, error)
}

// Size is how many threads run a kernel.
type Size struct {
	Grid   [3]int // blocks; 0 means 1
	Block  [3]int // threads of each; 0 means 1
	Shared int    // bytes of dynamic shared memory of each
}

// Call is a kernel with its arguments. Run asks for it and allocates nothing.
type Call interface{ Run() error }

// Recording is work that is asked for as a whole.
type Recording interface {
	Run() error
	Close() error
}

// NativeHandles is what libraries of the vendor need of a real device; nil for one that has none.
type NativeHandles interface {
	// Stream is the CUstream of the order of work, and Context the CUcontext.
	Stream() Pointer
	Context() Pointer
}

// AsyncRunner is a real device with a second stream, for libraries.
type AsyncRunner interface {
	// RunAsync has f ask a library for work in another stream: behind all work that was asked
	// for so far, here and there, and beside what is asked for here later, until Join. It may
	// be recorded, with the Join of all it began.
	RunAsync(f func(stream Pointer) error) (Event, error)
}

// Profiler is what a real device tells of itself beside doing work.
type Profiler interface {
	// Time gives how long the device works on what f asks for, and waits until that is done.
	Time(f func() error) (seconds float64, err error)
	// FreeBytes is how much memory is left, whoever holds the rest.
	FreeBytes() (int64, error)
}
