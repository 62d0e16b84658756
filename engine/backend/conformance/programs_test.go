//go:build long && cgo && linux

package conformance

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/nvrtc"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// collector is a device that writes programs and calls down and runs none.
type collector struct {
	*emulate.Device
	programs map[string]*collected
}

// collected is a program with the largest call of each of its kernels.
type collected struct {
	device.Program
	kernels map[string]*use
}

// use is the largest call of a kernel, and the sizes of its arguments.
type use struct {
	threads, shared int
	arguments       []int
}

func (c collector) Load(p device.Program) (device.Module, error) {
	key := strings.Join(append([]string{p.Name, p.Source}, p.Defines...), "\x00")
	if c.programs[key] == nil {
		c.programs[key] = &collected{p, map[string]*use{}}
	}
	return c.programs[key], nil
}

func (c *collected) Call(kernel string, size device.Size, args ...any) (device.Call, error) {
	_, kinds, err := device.PackArguments(args)
	if err != nil {
		return nil, err
	}
	u := c.kernels[kernel]
	if u == nil {
		u = &use{}
		c.kernels[kernel] = u
	}
	threads := 1
	for _, n := range size.Block {
		threads *= max(n, 1)
	}
	u.threads, u.shared, u.arguments = max(u.threads, threads), max(u.shared, size.Shared), nil
	for _, k := range kinds {
		bytes := 8
		if strings.ContainsRune("iuf", k) {
			bytes = 4
		}
		u.arguments = append(u.arguments, bytes)
	}
	return done{}, nil
}

type done struct{}

func (done) Run() error { return nil }

// TestLongPrograms: every program that some case of some operation is computed with, chains
// of formulas among them, compiles with NVRTC for all architectures, and its code takes the
// arguments, the threads and the shared memory with which it is called.
func TestLongPrograms(t *testing.T) {
	dir, err := filepath.Abs("../../../build/venv")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(libraries.PathVariable, dir)
	compiler, err := nvrtc.Open()
	if err != nil {
		t.Fatalf("%v\nscripts/setup.sh test installs it", err)
	}
	c := collector{programs: map[string]*collected{}}
	dev, err := cuda.New(func() (device.Device, error) {
		var err error
		c.Device, err = emulate.Open(1 << 30)
		return c, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	eachCase(t, func(t *testing.T, o *graph.Op, c graph.Case) {
		s, err := o.Shape(c.In, c.Attrs)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ways(t, dev, o, c) {
			for _, d := range storages(dev, w) {
				prepared(t, dev, o, c, s, w, d)
			}
		}
	})
	all := make([]string, 0, len(c.programs))
	for key := range c.programs {
		all = append(all, key)
	}
	slices.Sort(all)
	t.Logf("%d programs", len(all))
	stacks := map[string]int{}
	for _, key := range all {
		p := c.programs[key]
		for _, a := range []int{70, 80, 90} {
			image, err := compiler.Compile(p.Program, a)
			if err != nil {
				_, tail, _ := strings.Cut(p.Source, "\nKERNEL chain(")
				t.Errorf("%s: %v\n%s", kernels.Variant(p.Program), err, tail)
				continue
			}
			code := codeOf(t, image)
			for name, u := range p.kernels {
				where := fmt.Sprintf("%s: %s for %d", kernels.Variant(p.Program), name, a)
				k := code[name]
				if k == nil {
					t.Errorf("%s: it is not in the code", where)
					continue
				}
				k.holds(t, where, a, u)
				stacks[where] = k.stack
			}
		}
	}
	for _, where := range slices.Sorted(maps.Keys(stacks)) {
		if n := stacks[where]; n > 0 {
			t.Logf("%s: %d bytes of local memory a thread", where, n)
		}
	}
}

// code is what the machine code of a kernel asks of a multiprocessor.
type code struct {
	registers, stack, shared, threads int // of a thread; bytes of a thread; bytes of a block; bound, 0 for none
	parameters                        []int
}

// Limits of a multiprocessor. Source: CUDA C++ Programming Guide, "Compute Capabilities".
var mostShared = map[int]int{70: 96 << 10, 80: 163 << 10, 90: 227 << 10}

const mostRegisters = 64 << 10 // of a block

// holds checks that a call can run: a warp takes registers in units of 256.
func (k *code) holds(t *testing.T, where string, architecture int, u *use) {
	t.Helper()
	warps := (u.threads + 31) / 32
	if n := warps * ((k.registers*32 + 255) / 256 * 256); n > mostRegisters {
		t.Errorf("%s: %d threads with %d registers each take %d, more than there are", where, u.threads, k.registers, n)
	}
	if k.threads > 0 && u.threads > k.threads {
		t.Errorf("%s: %d threads, bound to %d", where, u.threads, k.threads)
	}
	if n := u.shared + k.shared; n > mostShared[architecture] {
		t.Errorf("%s: %d bytes of shared memory, %d of them dynamic", where, n, u.shared)
	}
	if !slices.Equal(k.parameters, u.arguments) {
		t.Errorf("%s: parameters of %d bytes, arguments of %d", where, k.parameters, u.arguments)
	}
}

// codeOf reads what machine code says of its kernels: sections .nv.info of pairs of a kind
// and a value. The kinds are those that NVIDIA's tool cuobjdump -elf names.
func codeOf(t *testing.T, image []byte) map[string]*code {
	t.Helper()
	plain := slices.Clone(image)
	plain[elf.EI_VERSION] = byte(elf.EV_CURRENT) // where the compiler writes a version of its own
	copy(plain[0x14:], []byte{byte(elf.EV_CURRENT), 0, 0, 0})
	f, err := elf.NewFile(bytes.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*code{}
	for _, s := range f.Sections {
		if name, ok := strings.CutPrefix(s.Name, ".text."); ok {
			all[name] = &code{}
		}
	}
	for _, s := range f.Sections {
		if name, ok := strings.CutPrefix(s.Name, ".nv.shared."); ok && all[name] != nil {
			all[name].shared = int(s.Size)
		}
		if !strings.HasPrefix(s.Name, ".nv.info") {
			continue
		}
		own := all[strings.TrimPrefix(s.Name, ".nv.info.")]
		text, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		for len(text) >= 4 {
			format, kind, value := text[0], text[1], text[2:4]
			text = text[4:]
			if format == 4 { // the value is the size of what follows
				n := int(binary.LittleEndian.Uint16(value))
				value, text = text[:n], text[n:]
			}
			word := func(i int) int { return int(binary.LittleEndian.Uint32(value[4*i:])) }
			switch kind {
			case 0x2f, 0x11: // registers and stack of a symbol
				k := all[symbols[word(0)-1].Name]
				if k == nil {
					continue // a function that was not inlined
				}
				if kind == 0x2f {
					k.registers = word(1)
				} else {
					k.stack = word(1)
				}
			case 0x05: // bounds of a launch
				own.threads = word(0) * word(1) * word(2)
			case 0x17: // a parameter: place, number in the low half of the second word, size from bit 18 of the third
				i := word(1) & 0xffff
				for len(own.parameters) <= i {
					own.parameters = append(own.parameters, 0)
				}
				own.parameters[i] = word(2) >> 18
			}
		}
	}
	for name, k := range all {
		if k.registers == 0 {
			t.Errorf("no registers of kernel %s", name)
		}
	}
	return all
}

// prepared prepares the kernel of a case in one way, on memory of the device.
func prepared(t *testing.T, dev *cuda.Backend, o *graph.Op, c graph.Case, out graph.Shape, w backend.LayoutOption, d graph.DType) {
	t.Helper()
	of := func(l graph.Layout, s graph.Shape) (*guarded, backend.Tensor) {
		elem := dev.Elem()
		if l != graph.Plain {
			elem = d
		}
		g := newGuarded(elem, make([]float64, l.Elems(s)))
		return g, g.tensor(s, l)
	}
	q := backend.Request{Op: o, Attrs: c.Attrs, Seed: seed, Step: new(uint64)}
	var bufs []*guarded
	for k, s := range c.In {
		g, x := of(w.In[k], s)
		bufs, q.In = append(bufs, g), append(q.In, x)
	}
	g, x := of(w.Out, out)
	bufs, q.Out = append(bufs, g), x
	there, back := onDevice(t, dev, dev, q, bufs)
	defer back()
	err := dev.Do(func() error {
		k, err := dev.Prepare(there)
		if err == nil && k.SetScratch != nil {
			scratch, made := dev.Alloc(int(k.Scratch/4) + 1)
			if made != nil {
				return made
			}
			err = errors.Join(k.SetScratch(scratch), dev.Free(scratch))
		}
		if err == nil && k.Close != nil {
			k.Close()
		}
		return err
	})
	if err != nil {
		t.Errorf("%v, %v: %v", w.In, d, err)
	}
}
