package partial

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// network has messages that take 1 µs and any size.
var network = cluster.LogGP{Latency: cluster.Microsecond, Rate: 1_000_000_000_000}

// simulate runs ranks on a virtual clock.
func simulate(t *testing.T, ranks int, n cluster.Network, f func(r *cluster.Rank) error) *cluster.Result {
	t.Helper()
	result, err := cluster.Run(ranks, n, cluster.Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// computeUntil advances the clock of a rank to a time.
func computeUntil(r *cluster.Rank, at cluster.Time) { r.Compute(max(0, at-r.Now())) }

// eagerRun is what a test does in the steps of a run; functions that are nil do nothing.
type eagerRun struct {
	values   int // of a gradient; 0 is 1
	before   func(step int)
	gradient func(step int, w []float32) []float32
	update   func(u Update, w []float32) error // after w has been updated
	after    func(step int)
}

// rate of the tests: exact in binary.
const rate = 1.0 / 8

// eagerOf trains weights that start with zeros by eager-SGD.
func eagerOf(c *comm.Comm, o EagerOptions, steps int, run eagerRun) (*Eager, error) {
	n := max(1, run.values)
	e, err := NewEager(c, n, o)
	if err != nil {
		return nil, err
	}
	if err := e.Start(steps); err != nil {
		return nil, err
	}
	w := make([]float32, n)
	for step := 0; step < steps; step = e.Next() {
		gradient := make([]float32, n)
		if run.gradient != nil {
			gradient = run.gradient(step, w)
		}
		if run.before != nil {
			run.before(step)
		}
		updates, err := e.Step(gradient)
		if err != nil {
			e.Cancel()
			return nil, err
		}
		for _, u := range updates {
			for i, v := range u.Sum {
				w[i] -= rate / float32(c.Size()) * v
			}
			if run.update == nil {
				continue
			}
			if err := run.update(u, w); err != nil {
				e.Cancel()
				return nil, err
			}
		}
		if run.after != nil {
			run.after(step)
		}
	}
	return e, nil
}

func runEager(c *comm.Comm, o EagerOptions, steps int, run eagerRun) error {
	_, err := eagerOf(c, o, steps, run)
	return err
}

// pull is a gradient that depends on rank, step and weights, with rounding.
func pull(rank, step int, w []float32) []float32 {
	g := make([]float32, len(w))
	for i, v := range w {
		g[i] = v*0.37 - float32(1+rank)/float32(3+step%5+i)
	}
	return g
}

func randomOf(rank, seed int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(rank), uint64(seed)))
}

// sleepAtRandom sleeps in one of eight steps.
func sleepAtRandom(random *rand.Rand) {
	if d := random.IntN(1600); d < 200 {
		time.Sleep(time.Duration(d) * time.Microsecond)
	}
}

func bitsOf(x []float32) []uint32 {
	bits := make([]uint32, len(x))
	for i, v := range x {
		bits[i] = math.Float32bits(v)
	}
	return bits
}

func hashOf(x []float32) uint64 {
	h := fnv.New64a()
	if err := binary.Write(h, binary.LittleEndian, x); err != nil {
		panic(err)
	}
	return h.Sum64()
}
