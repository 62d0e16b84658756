package spatial

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// named returns the network of that name.
func named(t *testing.T, name string) network {
	t.Helper()
	for _, n := range networks {
		if n.name == name {
			return n
		}
	}
	t.Fatalf("no network %q", name)
	return network{}
}

// Two steps of a U-Net on four ranks have the same bits in every order of messages:
// delayed, overtaking each other, and in every order that a seed draws.
func TestShardInAnyOrder(t *testing.T) {
	n := named(t, "U-Net, periodic")
	o := engine.Options{Device: engine.Device{Backend: "ref"}}
	for _, m := range []Mesh{{{Name: "lat", Size: 2}, {Name: "lon", Size: 2}}, {{Name: "data", Size: 2}, {Name: "level", Size: 2}}} {
		want, err := n.run(t, m, comm.Parallel, o)
		if err != nil {
			t.Fatal(err)
		}
		modes := []comm.Mode{comm.Parallel}
		for seed := range uint64(3) {
			modes = append(modes, comm.Replay(seed), comm.Parallel.WithFaults(comm.Faults{Seed: seed, Delay: 300 * time.Microsecond}))
		}
		for i, mode := range modes {
			got, err := n.run(t, m, mode, o)
			if err != nil {
				t.Fatal(i, mode, err)
			}
			if got.loss != want.loss || !slices.Equal(got.grads, want.grads) || !slices.Equal(got.states, want.states) {
				t.Errorf("%v, number %d (%v): loss %v, want %v, or another gradient", m, i, mode, got.loss, want.loss)
			}
			for name := range want.outputs {
				if !slices.Equal(got.outputs[name], want.outputs[name]) {
					t.Errorf("%v, number %d (%v): output %s differs", m, i, mode, name)
				}
			}
		}
	}
}

// A message that is lost within a step ends the run with the number of its sender.
func TestShardLosesAMessage(t *testing.T) {
	n := named(t, "U-Net")
	m := Mesh{{Name: "lon", Size: 2}}
	sent := 0
	count := comm.Faults{Drop: func(from, to, n int) bool {
		if from == 1 {
			sent = n + 1
		}
		return false
	}}
	if _, err := n.run(t, m, comm.Replay(1).WithFaults(count), engine.Options{Device: engine.Device{Backend: "ref"}}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{sent - 1, sent - 2} { // behind an earlier one the next may take its place
		_, err := n.run(t, m, comm.Parallel.WithFaults(comm.Faults{Drop: func(from, to, n int) bool { return from == 1 && n == at }}), engine.Options{Device: engine.Device{Backend: "ref"}})
		if err == nil || !strings.Contains(err.Error(), "rank 0 waits for a message from rank 1") {
			t.Errorf("message %d of %d: %v", at, sent, err)
		}
	}
	if sent < 20 {
		t.Error(fmt.Sprint(sent, " messages in two steps"))
	}
}
