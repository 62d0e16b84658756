package bench

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Each of N ranks with a sharded optimiser needs, for the network of base 32 on small fields, the parameters, 12/N bytes
// a parameter and a share that does not depend on N: the unreduced gradients, of which the largest filter alone has
// 20 MiB, and values and workspace of one sample.
func TestShardedMemory(t *testing.T) { shardedMemory(t, 2) }

func shardedMemory(t *testing.T, counts ...int) {
	const share = 32 << 20 // bytes, for one sample on each rank
	for _, n := range counts {
		k := Case{Model: "unet3d", Base: 32, Crop: setup.Crop{Height: 32, Width: 64}, Batch: n, Depth: 2, Precision: "float32", Threads: 1}
		g, err := k.graph(true)
		if err != nil {
			t.Fatal(err)
		}
		m := spatial.Mesh{{Name: "data", Size: n}}
		err = comm.Run(n, comm.Parallel, func(c *comm.Comm) error {
			p, err := spatial.CompileShardedOptimiser(g, c, m, k.Options(false))
			if exit.CodeOf(err) == exit.NoDevice {
				t.Skip("skipped: no device: ", err)
			}
			if err != nil {
				return err
			}
			opt, err := optim.New(p.Store(), optim.Options{Ranks: p.Shards()})
			if err != nil {
				return err
			}
			parameters := p.Store().ParamCount()
			bytes := p.MemoryBytes() + p.Store().Bytes() + opt.Bytes()
			want := int64(4*parameters + 12*parameters/n + share)
			if c.Rank() == 0 {
				t.Logf("%d ranks: %.1f MiB, 4 + 12/N bytes a parameter are %.1f MiB", n, float64(bytes)/(1<<20), float64(4*parameters+12*parameters/n)/(1<<20))
			}
			if bytes > want {
				err = fmt.Errorf("rank %d of %d: %d bytes, want %d at most", c.Rank(), n, bytes, want)
			}
			return errors.Join(err, opt.Close(), p.Close())
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestMemoryOfARank compares the planned memory of one rank of four with that of a single rank, for the
// network of base 32 on 2×352×704 points: values, workspaces, parameters, gradients and moments.
func TestMemoryOfARank(t *testing.T) {
	k := Case{Model: "unet3d", Base: 32, Crop: setup.Crop{Height: 352, Width: 704}, Batch: 1, Depth: 2, Precision: "float32", Threads: 1}
	g, err := k.graph(true)
	if err != nil {
		t.Fatal(err)
	}
	planned := func(p *engine.Plan, o optim.Options) (int64, error) {
		opt, err := optim.New(p.Store(), o)
		if err != nil {
			return 0, err
		}
		return p.MemoryBytes() + p.Store().Bytes() + opt.Bytes(), errors.Join(opt.Close(), p.Close())
	}
	alone, err := engine.Compile(g, k.Options(false))
	if err != nil {
		t.Skip("skipped: no device: ", err)
	}
	if most := alone.ArenaBytes() + alone.ScratchBytes()/4; alone.MemoryBytes() > most {
		t.Errorf("one rank: %d bytes of values and scratch, want %d at most", alone.MemoryBytes(), most)
	}
	one, err := planned(alone, optim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := spatial.Mesh{{Name: "lat", Size: 4}}
	for _, shared := range []bool{false, true} {
		ranks := make([]int64, m.Size())
		err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
			var o optim.Options
			compile := spatial.Compile
			if shared {
				compile = spatial.CompileShardedOptimiser
			}
			p, err := compile(g, c, m, k.Options(false))
			if err != nil {
				return err
			}
			if workspace := p.MemoryBytes() - p.ArenaBytes(); workspace > 8<<20 {
				return fmt.Errorf("%d bytes of workspace in addition to an arena of %d", workspace, p.ArenaBytes())
			}
			if shared {
				o.Ranks = p.Shards()
			}
			ranks[c.Rank()], err = planned(p.Plan, o)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want := 0.38
		if shared {
			want = 0.30
		}
		if ratio := float64(slices.Max(ranks)) / float64(one); ratio > want {
			t.Errorf("optimiser shared %v: %v bytes on the ranks, %d on one alone: %.3f, want %.2f", shared, ranks, one, ratio, want)
		}
	}
}
