//go:build cgo && linux

package engine_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// heuristics are options of plans that depend on no measured time of a kernel.
func heuristics(precision string) engine.Options {
	return engine.Options{Numerics: engine.Numerics{Precision: precision, UseHeuristics: true}}
}

// Activations that go to a file and back leave all bits of a training as they are, and the memory within its limit. The folder is empty
// while and after the training runs.
func TestOffloadToFile(t *testing.T) {
	for _, precision := range []string{"f32", "bf16"} {
		o := heuristics(precision)
		all := compile(t, manyChannels(t), o)
		train(t, all, 3)
		o.Memory.OffloadFolder, o.Memory.OffloadRate, o.Memory.Limit = engine.OnDisk(t), 1e9, all.MemoryBytes()*7/10
		p := compile(t, manyChannels(t), o)
		var text strings.Builder
		if err := p.Explain(&text); err != nil || !strings.Contains(text.String(), "fetch_done") || !strings.Contains(text.String(), "offloaded to a file") {
			t.Fatalf("%s: %v, nothing goes to a file:\n%s", precision, err, text.String())
		}
		losses := train(t, p, 3)
		if bits(p.Store()) != bits(all.Store()) || p.MemoryBytes() > o.Memory.Limit {
			t.Errorf("%s: %d bytes of %d, %d with all kept, losses %v, or other bits", precision, p.MemoryBytes(), o.Memory.Limit, all.MemoryBytes(), losses)
		}
		if left, err := os.ReadDir(o.Memory.OffloadFolder); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v in the folder", precision, err, left)
		}
	}
}

// The rate of a disk is measured for each plan that needs it; whatever it is, the bits are those of a plan with all kept.
func TestOffloadAtTheRateOfTheDisk(t *testing.T) {
	o := heuristics("f32")
	all := compile(t, manyChannels(t), o)
	train(t, all, 1)
	o.Memory.OffloadFolder, o.Memory.Limit = engine.OnDisk(t), all.MemoryBytes()*7/10
	p := compile(t, manyChannels(t), o)
	train(t, p, 1)
	if bits(p.Store()) != bits(all.Store()) {
		t.Error("other bits")
	}
}

// A file that cannot be made, written or read ends with 74, and the step after a failed one is whole.
func TestOffloadToFileFails(t *testing.T) {
	o := heuristics("f32")
	all := compile(t, manyChannels(t), o)
	train(t, all, 2)
	o.Memory.OffloadFolder, o.Memory.OffloadRate, o.Memory.Limit = engine.OnDisk(t), 1e9, all.MemoryBytes()*7/10
	for _, f := range []faultfs.Fault{{Of: []faultfs.Kind{faultfs.Write}, Err: unix.ENOSPC}, {Of: []faultfs.Kind{faultfs.Read}, Err: unix.EIO}} {
		f.N = 2                                                                                       // the first measures the rate
		_, fast := faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: f.Of, Delay: 5 * time.Millisecond}) // kernels end before copies
		_, whole := faultfs.Use(f)
		p := compile(t, manyChannels(t), o) // its file stays with the faults
		whole()
		fast()
		if err := p.Run(context.Background(), 0); exit.CodeOf(err) != exit.IO || !strings.Contains(err.Error(), o.Memory.OffloadFolder) {
			t.Errorf("%v: %v", f.Of, err)
		}
		train(t, p, 2)
		if bits(p.Store()) != bits(all.Store()) {
			t.Errorf("%v: other bits after the fault", f.Of)
		}
	}
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: []faultfs.Kind{faultfs.Truncate}, Err: unix.ENOSPC})
	defer restore()
	if _, err := engine.Compile(manyChannels(t), o); exit.CodeOf(err) != exit.IO || !strings.Contains(err.Error(), o.Memory.OffloadFolder) {
		t.Errorf("a full disk: %v", err)
	}
	if shm := "/dev/shm"; filesystem.IsInMemory(shm) {
		o := o
		o.Memory.OffloadFolder = shm
		if _, err := engine.Compile(manyChannels(t), o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "lie in memory") {
			t.Errorf("a folder in memory: %v", err)
		}
	}
	o.Memory.OffloadFolder += "/absent"
	if _, err := engine.Compile(manyChannels(t), o); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("no folder: %v", err)
	}
}
