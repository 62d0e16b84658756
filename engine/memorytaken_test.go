//go:build cgo && linux

package engine_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// sharedGPU is a GPU of which another process takes memory each time that a plan has asked for what is free.
type sharedGPU struct {
	*emulate.LazyDevice
	takes []int64 // bytes that the other process takes after each question, over all openings
	asked *int    // questions so far
	most  *int64  // largest number of bytes in use so far
}

func (s sharedGPU) FreeBytes() (int64, error) {
	free, err := s.LazyDevice.FreeBytes()
	if err == nil && *s.asked < len(s.takes) {
		_, err = s.LazyDevice.Alloc(s.takes[*s.asked])
	}
	*s.asked++
	return free, err
}

func (s sharedGPU) Alloc(n int64) (device.Pointer, error) {
	p, err := s.LazyDevice.Alloc(n)
	free, _ := s.LazyDevice.FreeBytes() // of this device it has no error
	*s.most = max(*s.most, s.Properties().MemoryBytes-free)
	return p, err
}

// TestFault34: if another process takes memory of a GPU between plan and allocation, the plan is made once more for what is free then,
// with a warning and the same bits. If that is too little too, the error has what the plan needs, or what could not be allocated. A
// plan of ranks, or with a given limit, is not repeated.
func TestFault34(t *testing.T) {
	const memory = 1 << 28
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	e := before[0]
	e.Name = "shared"
	var takes []int64
	asked, most := 0, int64(0)
	e.Open = func(engine.Options) (backend.Backend, error) {
		return cuda.New(func() (device.Device, error) {
			d, err := emulate.OpenLazy(memory)
			if err != nil {
				return nil, err
			}
			for _, taken := range takes[:min(asked, len(takes))] {
				if _, err := d.Alloc(taken); err != nil {
					return nil, err
				}
			}
			return sharedGPU{d, takes, &asked, &most}, nil
		})
	}
	engine.Backends = append(slices.Clone(before), e)
	g := row(t)
	o := engine.Options{Device: engine.Device{Backend: e.Name}}
	all := compile(t, g, o)
	const page = 4096   // granularity of its memory
	left := most - page // too little for this plan
	train(t, all, 2)
	for _, c := range []struct {
		name    string
		takes   []int64
		change  func(*engine.Options)
		plans   int
		failure string // part of the error; "" for none
	}{
		{"a page too much", []int64{memory - left}, nil, 2, ""},
		{"almost all", []int64{memory - 1<<15}, nil, 2, "the plan needs at least"},
		{"twice", []int64{memory - left, left - 1<<14}, nil, 2, "out of device memory"},
		{"of ranks", []int64{memory - left}, func(o *engine.Options) { o.Extension = engine.NoExtension{} }, 1, "out of device memory"},
		{"with a limit", []int64{memory - left}, func(o *engine.Options) { o.Memory.Limit = memory }, 0, "out of device memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			takes, asked = c.takes, 0
			var log strings.Builder
			o := o
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			if c.change != nil {
				c.change(&o)
			}
			if o.Memory.Limit > 0 { // nothing asks for what is free: it was taken before
				asked = 1
				defer func() { asked = 0 }()
			}
			p, err := engine.Compile(g, o)
			if err == nil {
				defer p.Close()
				train(t, p, 2)
				if bits(p.Store()) != bits(all.Store()) || p.MemoryBytes() >= all.MemoryBytes() {
					t.Errorf("takes %d bytes, the first plan %d, or other bits", p.MemoryBytes(), all.MemoryBytes())
				}
			}
			if (err == nil) != (c.failure == "") || err != nil && (exit.CodeOf(err) != exit.NoDevice || !strings.Contains(fmt.Sprint(err), c.failure)) {
				t.Errorf("%v, want exit code 69 with %q", err, c.failure)
			}
			if o.Memory.Limit > 0 {
				asked--
			}
			if again := strings.Count(log.String(), "level=WARN"); asked != c.plans || again != max(c.plans-1, 0) {
				t.Errorf("%d plans, %d warnings, want %d plans: %s", asked, again, c.plans, &log)
			}
		})
	}
}
