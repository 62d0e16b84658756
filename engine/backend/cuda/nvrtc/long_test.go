//go:build long && cgo && linux

package nvrtc

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
)

// TestLongKernels compiles all programs, as they are used, for all architectures.
func TestLongKernels(t *testing.T) {
	c := library(t)
	for _, p := range kernels.Variants() {
		for _, a := range architectures {
			compiles(t, c, p, a)
		}
	}
}

// TestLongRegisters: the values of convolutions in every size of tiles, on every architecture, have room in registers.
func TestLongRegisters(t *testing.T) {
	c := library(t)
	for _, p := range kernels.Variants() {
		if !strings.HasPrefix(p.Name, "conv") {
			continue
		}
		for _, a := range architectures {
			image, err := UserCache().Compile(c, p, a)
			if err != nil {
				t.Fatal(err)
			}
			if frame := frameOf(t, image); frame != 0 {
				t.Errorf("%s for sm_%d keeps %d bytes in memory", kernels.Variant(p), a, frame)
			}
		}
	}
}

// frameOf returns the largest frame of a kernel of machine code, in bytes: attributes of the sections .nv.info
// whose second byte, their kind, is 0x11.
func frameOf(t *testing.T, image []byte) (most uint32) {
	t.Helper()
	image = bytes.Clone(image)
	image[elf.EI_VERSION] = byte(elf.EV_CURRENT) // the vendor has versions of its own
	binary.LittleEndian.PutUint32(image[20:], uint32(elf.EV_CURRENT))
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range f.Sections {
		if !strings.HasPrefix(s.Name, ".nv.info") {
			continue
		}
		d, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		const sized, frame = 4, 0x11
		for len(d) >= 4 {
			format, attribute, n := d[0], d[1], int(binary.LittleEndian.Uint16(d[2:]))
			if d = d[4:]; format != sized {
				continue
			}
			if attribute == frame && n == 8 {
				found, most = true, max(most, binary.LittleEndian.Uint32(d[4:]))
			}
			d = d[n:]
		}
	}
	if !found {
		t.Error("no kernel has the size of its frame")
	}
	return most
}
