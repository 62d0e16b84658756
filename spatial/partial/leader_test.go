package partial

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// onMesh runs f on a mesh of groups of ranks that act as one. leaders is nil except on rank 0
// of a group.
func onMesh(t *testing.T, groups, size int, mode comm.Mode, f func(c, group, leaders *comm.Comm) error) {
	t.Helper()
	err := comm.Run(groups*size, mode, func(c *comm.Comm) error {
		group, err := c.Split(c.Rank()/size, c.Rank())
		if err != nil {
			return err
		}
		color := -1
		if group.Rank() == 0 {
			color = 0
		}
		leaders, err := c.Split(color, c.Rank())
		if err != nil {
			return err
		}
		return f(c, group, leaders)
	})
	if err != nil {
		t.Errorf("%d×%d, %v: %v", groups, size, mode, err)
	}
}

// On a mesh of two groups of two ranks both ranks of a group take the same branch in every
// step, and all models are equal at the end.
func TestLeaders(t *testing.T) {
	const steps = 40
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1), comm.Replay(2)} {
		onMesh(t, 2, 2, mode, func(c, group, leaders *comm.Comm) error {
			var leader *Eager
			if leaders != nil {
				var err error
				if leader, err = NewEager(leaders, 3, EagerOptions{Period: 8}); err != nil {
					return err
				}
				if err := leader.Start(steps); err != nil {
					return err
				}
			}
			e, w := NewEagerGroup(group, 3, leader), make([]float32, 3)
			var seen []float32
			for step := range steps {
				time.Sleep(time.Duration(c.Rank()*step%3) * 100 * time.Microsecond)
				updates, err := e.Step(pull(c.Rank()/2, step, w))
				if err != nil {
					return err
				}
				for _, u := range updates {
					seen = append(seen, float32(u.Step), float32(u.Fresh), float32(u.Gradients))
					for i, v := range u.Sum {
						w[i] -= rate * v
					}
				}
				seen = append(seen, w...)
			}
			return equalIn(map[*comm.Comm][]float32{group: seen, c: w})
		})
		onMesh(t, 2, 2, mode, func(c, group, leaders *comm.Comm) error {
			var leader *WAGMA
			if leaders != nil {
				var err error
				if leader, err = NewWAGMA(leaders, make([]float32, 3), WAGMAOptions{GroupSize: 2, Period: 8}); err != nil {
					return err
				}
				if err := leader.Start(steps); err != nil {
					return err
				}
			}
			a, w := NewWAGMAGroup(group, leader), make([]float32, 3)
			var seen []float32
			for step := range steps {
				time.Sleep(time.Duration(c.Rank()*step%3) * 100 * time.Microsecond)
				for i, v := range pull(c.Rank()/2, step, w) {
					w[i] -= rate * v
				}
				average, err := a.Step(w)
				if err != nil {
					return err
				}
				late := float32(0)
				if average.Late {
					late = 1
				}
				seen = append(append(seen, late, float32(average.OnTime)), w...)
			}
			return equalIn(map[*comm.Comm][]float32{group: seen, c: w})
		})
	}
}

// equalIn returns an error unless all ranks of each group have the same values.
func equalIn(all map[*comm.Comm][]float32) error {
	var groups []*comm.Comm
	for g := range all {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *comm.Comm) int { return a.Size() - b.Size() })
	for _, g := range groups {
		first := slices.Clone(all[g])
		if err := comm.Broadcast(g, 0, first); err != nil {
			return err
		}
		if !slices.Equal(first, all[g]) {
			return fmt.Errorf("rank %d of %d has %v, rank 0 has %v", g.Rank(), g.Size(), all[g], first)
		}
	}
	return nil
}

// A leader that fails ends the step of its group.
func TestLeaderFails(t *testing.T) {
	onMesh(t, 1, 2, comm.Parallel, func(c, group, leaders *comm.Comm) error {
		var leader *Eager
		var model *WAGMA
		if leaders != nil {
			var err, other error
			leader, err = NewEager(leaders, 1, EagerOptions{Period: 1}) // Start is missing
			model, other = NewWAGMA(leaders, []float32{0}, WAGMAOptions{GroupSize: 1, Period: 1})
			if err := errors.Join(err, other); err != nil {
				return err
			}
		}
		_, err := NewEagerGroup(group, 1, leader).Step([]float32{1})
		_, other := NewWAGMAGroup(group, model).Step([]float32{1})
		if err == nil || other == nil || errors.Is(err, errLeader) != (c.Rank() == 1) || errors.Is(other, errLeader) != (c.Rank() == 1) {
			return fmt.Errorf("rank %d: %v, %v", c.Rank(), err, other)
		}
		return nil
	})
}
