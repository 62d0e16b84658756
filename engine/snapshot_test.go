//go:build cgo && linux

package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// TestSnapshot verifies that snapshots of parameters reproduce their outputs, in
// any order and without uploads, until the program accesses the parameters of
// the store.
func TestSnapshot(t *testing.T) {
	at := watch(t, "watched")
	p := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "watched"}, Mode: engine.Infer})
	for i := range p.Input("x") {
		p.Input("x")[i] = float32(i%7) - 3
	}
	run := func() []float32 {
		t.Helper()
		if err := p.Run(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(p.Output("z"))
	}
	var all []*engine.Snapshot
	var want [][]float32
	for n := range 3 {
		for i := range p.Store().Params() {
			p.Store().Params()[i] = float32(n + i)
		}
		k, err := p.Snapshot()
		if err != nil || k == nil {
			t.Fatalf("%v, %v", k, err)
		}
		all, want = append(all, k), append(want, run())
	}
	if slices.Equal(want[0], want[1]) {
		t.Fatal("parameters change nothing")
	}
	again := at().copied
	run()
	again = at().copied - again // per run
	for _, n := range []int{0, 2, 2, 1, 0} {
		before := at().copied
		if err := p.Restore(all[n]); err != nil {
			t.Fatal(err)
		}
		if got := run(); !slices.Equal(got, want[n]) {
			t.Errorf("parameters %d give %v, want %v", n, got, want[n])
		}
		if own := int64(4 * (len(p.Store().Names())*16 + 32)); at().copied-before > again+own { // copies on the device
			t.Errorf("%d bytes are copied, %d are by a run", at().copied-before, again)
		}
	}
	p.Store().Params()[3] += 0.5 // the parameters of the store, which were set last
	own := run()
	if slices.Equal(own, want[0]) || slices.Equal(own, want[2]) {
		t.Error("what the store has is not used")
	}
	if err := p.Restore(all[0]); err != nil {
		t.Fatal(err)
	}
	if got := run(); !slices.Equal(got, want[0]) {
		t.Errorf("behind the store's own: %v, want %v", got, want[0])
	}
	if k, err := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "cpu"}, Mode: engine.Infer}).Snapshot(); k != nil || err != nil {
		t.Errorf("on a processor %v, %v", k, err)
	}
	at().fail = device.ErrOutOfMemory
	if _, err := p.Snapshot(); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("a copy fails: %v", err)
	}
	at().fail = nil
}
