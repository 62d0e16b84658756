package partial

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// trainBoth trains by eager-SGD and, on a power of two of ranks, by WAGMA-SGD, with random
// delays of the ranks. Then it repeats each training with its log, other delays and equal
// bits.
func trainBoth(c *comm.Comm) error {
	const n, steps = 1000, 30
	for _, o := range []EagerOptions{{Initiator: Solo}, {Initiator: Majority}, {Initiator: Solo, Skip: true}} {
		train := func(seed int, replay *Log) (bits []uint32, l *Log, err error) {
			random := randomOf(c.Rank(), seed)
			var w []float32
			e, err := eagerOf(c, EagerOptions{Initiator: o.Initiator, Skip: o.Skip, Period: 10, Replay: replay}, steps, eagerRun{
				values: n, before: func(int) { sleepAtRandom(random) },
				gradient: func(step int, w []float32) []float32 { return pull(c.Rank(), step, w) },
				update: func(_ Update, now []float32) error {
					bits, w = append(bits, bitsOf(now[:3])...), now
					return nil
				},
			})
			if err != nil {
				return nil, nil, err
			}
			return bits, e.Log(), equalIn(map[*comm.Comm][]float32{c: w})
		}
		if err := repeats(train); err != nil {
			return fmt.Errorf("%+v: %w", o, err)
		}
	}
	if !isPower(c.Size()) {
		return nil
	}
	for _, skip := range []bool{false, true} {
		if err := repeatWAGMA(c, n, steps, skip); err != nil {
			return fmt.Errorf("averages, steps are left out: %v: %w", skip, err)
		}
	}
	return nil
}

// repeatWAGMA is trainBoth for WAGMA-SGD.
func repeatWAGMA(c *comm.Comm, n, steps int, skip bool) error {
	return repeats(func(seed int, replay *Log) (bits []uint32, l *Log, err error) {
		random, w := randomOf(c.Rank(), seed), make([]float32, n)
		a, err := wagmaOf(c, w, WAGMAOptions{GroupSize: min(2, c.Size()), Period: 10, Skip: skip, Replay: replay}, steps, func(step int, w []float32) {
			sleepAtRandom(random)
			for i, v := range pull(c.Rank(), step, w) {
				w[i] -= rate * v
			}
		}, func(_ int, _ Average, w []float32) error {
			bits = append(bits, bitsOf(w[:3])...)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		return bits, a.Log(), equalIn(map[*comm.Comm][]float32{c: w})
	})
}

// repeats returns an error unless a training with the log of another one has its bits.
func repeats(train func(seed int, replay *Log) ([]uint32, *Log, error)) error {
	bits, l, err := train(1, nil)
	if err != nil {
		return err
	}
	again, other, err := train(2, l)
	if err == nil && (!slices.Equal(bits, again) || fmt.Sprint(*l) != fmt.Sprint(*other)) {
		err = fmt.Errorf("a replay has other bits or another log: %v, want %v", *other, *l)
	}
	return err
}

// Trainings on ranks that processes host, in parallel and in any order.
func TestHosted(t *testing.T) {
	for _, k := range [][2]int{{1, 1}, {1, 4}, {2, 3}, {2, 4}, {3, 5}} {
		for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1)} {
			err := comm.Run(k[0], mode, func(c *comm.Comm) error { return comm.HostRanks(c, k[1], trainBoth) })
			if err != nil {
				t.Errorf("%d ranks on %d processes, %v: %v", k[1], k[0], mode, err)
			}
		}
	}
}
