package wire

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// SharedMemory is memory shared by two processes (memfd). Only the side that calls
// Resize writes to it. Neither side can make a mapped memory smaller (F_SEAL_SHRINK):
// the other one would end by SIGBUS.
type SharedMemory struct {
	file *os.File
	view []byte
}

// NewSharedMemory makes an empty memory without a name in the file system, which can
// grow only.
func NewSharedMemory(name string) (*SharedMemory, error) {
	m, err := newMemory(name, unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(m.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		m.Close()
		return nil, fmt.Errorf("shared memory %s: seal: %w", name, err)
	}
	return m, nil
}

// NewSharedFile makes an empty memory that is read and written as a file, not mapped,
// and that its reader empties.
func NewSharedFile(name string) (*SharedMemory, error) { return newMemory(name, 0) }

func newMemory(name string, flags int) (*SharedMemory, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("shared memory %s: %w", name, err)
	}
	return &SharedMemory{file: os.NewFile(uintptr(fd), name)}, nil
}

// OpenSharedMemory opens a memory inherited as a file descriptor.
func OpenSharedMemory(fd int, name string) *SharedMemory {
	return &SharedMemory{file: os.NewFile(uintptr(fd), name)}
}

// File returns the file descriptor, to be inherited by a child.
func (m *SharedMemory) File() *os.File { return m.file }

// Resize returns n bytes of writable memory. Earlier content is kept. A memory
// never shrinks while it is mapped, so that no view can exceed it.
//
// Errors: ErrImpossible if the other side has made the memory larger than that; exit 74 if the system refuses the size. A limit of the size of files (RLIMIT_FSIZE) counts for memory too.
func (m *SharedMemory) Resize(n int) ([]byte, error) {
	if n > len(m.view) {
		size := max(n, 2*len(m.view), 1<<16)
		err := m.file.Truncate(int64(size))
		if errors.Is(err, unix.EPERM) { // the seal: this size would be a smaller one
			return nil, fmt.Errorf("%w: the peer has enlarged its input memory beyond %d bytes", ErrImpossible, size)
		}
		if err != nil {
			return nil, exit.CreateError(fmt.Sprintf("memory of %d bytes that processes share", size), err)
		}
		if err := m.remap(size); err != nil {
			return nil, err
		}
	}
	return m.view[:n], nil
}

// View maps n bytes that the other side has written.
//
// Errors: n is no size of this memory.
func (m *SharedMemory) View(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("the peer announced %d bytes of shared memory", n)
	}
	if n > len(m.view) {
		st, err := m.file.Stat()
		if err != nil {
			return nil, err
		}
		if int64(n) > st.Size() {
			return nil, fmt.Errorf("shared memory has %d bytes, the peer announced %d", st.Size(), n)
		}
		if err := m.remap(int(st.Size())); err != nil {
			return nil, err
		}
	}
	return m.view[:n], nil
}

// remap replaces the mapping by one of another size.
func (m *SharedMemory) remap(size int) error {
	if m.view != nil {
		if err := unix.Munmap(m.view); err != nil {
			return err
		}
		m.view = nil
	}
	view, err := unix.Mmap(int(m.file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %d bytes of shared memory: %w", size, err)
	}
	m.view = view
	return nil
}

// Close unmaps and closes the memory. A second call does nothing.
func (m *SharedMemory) Close() error {
	if m.view != nil {
		if err := unix.Munmap(m.view); err != nil {
			return err
		}
		m.view = nil
	}
	if m.file == nil {
		return nil
	}
	f := m.file
	m.file = nil
	return f.Close()
}

// Payload collects the bulk data of one reply in a shared memory.
type Payload struct {
	mem  *SharedMemory
	used int
}

// NewPayload returns an empty payload in m.
func NewPayload(m *SharedMemory) *Payload { return &Payload{mem: m} }

// Grow appends n bytes, aligned to eight bytes, and returns their offset and the
// bytes. They are valid until the next Grow. They are not cleared.
func (p *Payload) Grow(n int) (offset int, b []byte, err error) {
	offset = (p.used + 7) &^ 7
	all, err := p.mem.Resize(offset + n)
	if err != nil {
		return 0, nil, err
	}
	p.used = offset + n
	return offset, all[offset:], nil
}

// Len returns the number of bytes.
func (p *Payload) Len() int { return p.used }

// Values is the position of the values of one item in the output payload, or the
// reason why there are none.
type Values struct {
	Offset int    `json:"at"`
	Count  int    `json:"n"`
	Error  string `json:"e,omitempty"`
	// Install states how to install the missing library that Error names; "" for
	// other errors.
	Install string `json:"i,omitempty"`
}

// LibraryError reports values that need a library that is not installed.
type LibraryError struct {
	// Why names the library, Install how to install it.
	Why, Install string
}

// Error returns the reason.
func (e *LibraryError) Error() string { return e.Why }

// ErrImpossible marks a reply that no sound child sends. The child that sent it is ended.
var ErrImpossible = errors.New("impossible reply")

// Bytes returns the bytes of the values, width bytes each.
//
// Errors: that of the child, as *LibraryError if a library is missing; ErrImpossible for a position outside of the payload.
func (v Values) Bytes(payload []byte, width int) ([]byte, error) {
	if v.Install != "" {
		return nil, &LibraryError{v.Error, v.Install}
	}
	if v.Error != "" {
		return nil, errors.New(v.Error)
	}
	if v.Offset < 0 || v.Count < 0 || v.Offset > len(payload) || v.Count > (len(payload)-v.Offset)/width {
		return nil, fmt.Errorf("%w: %d values at byte %d of %d", ErrImpossible, v.Count, v.Offset, len(payload))
	}
	return payload[v.Offset : v.Offset+width*v.Count], nil
}

// Floats returns the float32 values in raw, without a copy. Both processes run on
// one machine, so the byte order is native.
func Floats(raw []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/4)
}
