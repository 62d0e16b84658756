package wire

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SharedMemory is one memory shared between two processes. The side that calls Resize
// is its only writer.
type SharedMemory struct {
	file *os.File
	view []byte
}

// NewSharedMemory makes an empty memory without a name in the file system.
func NewSharedMemory(name string) (*SharedMemory, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shared memory %s: %w", name, err)
	}
	return &SharedMemory{file: os.NewFile(uintptr(fd), name)}, nil
}

// OpenSharedMemory takes over a memory inherited as a file descriptor.
func OpenSharedMemory(fd int, name string) *SharedMemory {
	return &SharedMemory{file: os.NewFile(uintptr(fd), name)}
}

// File is the descriptor to hand to a child.
func (m *SharedMemory) File() *os.File { return m.file }

// Resize makes room for n bytes and returns them; what was there before stays.
// A memory never shrinks while it is mapped, so that no view can point past it.
func (m *SharedMemory) Resize(n int) ([]byte, error) {
	if n > len(m.view) {
		size := max(n, 2*len(m.view), 1<<16)
		if err := m.file.Truncate(int64(size)); err != nil {
			return nil, fmt.Errorf("grow shared memory to %d bytes: %w", size, err)
		}
		if err := m.remap(size); err != nil {
			return nil, err
		}
	}
	return m.view[:n], nil
}

// View maps what the other side has written, n bytes of it.
func (m *SharedMemory) View(n int) ([]byte, error) {
	if n > len(m.view) {
		st, err := m.file.Stat()
		if err != nil {
			return nil, err
		}
		if int64(n) > st.Size() {
			return nil, fmt.Errorf("shared memory holds %d bytes, %d announced", st.Size(), n)
		}
		if err := m.remap(int(st.Size())); err != nil {
			return nil, err
		}
	}
	return m.view[:n], nil
}

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

// Close unmaps and closes. It may be called twice.
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

// Payload collects the bulk bytes of one reply in a shared memory.
type Payload struct {
	mem  *SharedMemory
	used int
}

// NewPayload starts an empty payload in m.
func NewPayload(m *SharedMemory) *Payload { return &Payload{mem: m} }

// Grow appends n bytes, eight-byte aligned, and returns where they start and the
// bytes themselves. They are valid until the next Grow: what they held earlier is
// not cleared.
func (p *Payload) Grow(n int) (offset int, b []byte, err error) {
	offset = (p.used + 7) &^ 7
	all, err := p.mem.Resize(offset + n)
	if err != nil {
		return 0, nil, err
	}
	p.used = offset + n
	return offset, all[offset:], nil
}

// Len is the number of bytes so far.
func (p *Payload) Len() int { return p.used }

// Values says where in the output payload the values of one thing asked for are, or why they
// are not.
type Values struct {
	Offset int    `json:"at"`
	Count  int    `json:"n"`
	Error  string `json:"e,omitempty"`
}

// Bytes gives the bytes of the values, width bytes each, in the payload.
//
// Errors: the child's, and if they do not lie inside it.
func (v Values) Bytes(payload []byte, width int) ([]byte, error) {
	if v.Error != "" {
		return nil, errors.New(v.Error)
	}
	if v.Offset < 0 || v.Count < 0 || v.Offset > len(payload) || v.Count > (len(payload)-v.Offset)/width {
		return nil, fmt.Errorf("%d values at byte %d of a reply of %d", v.Count, v.Offset, len(payload))
	}
	return payload[v.Offset : v.Offset+width*v.Count], nil
}

// Floats are the values of 4 bytes each of which raw consists, in the memory of raw. Both
// processes are on one machine, so the order of bytes is the machine's.
func Floats(raw []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/4)
}
