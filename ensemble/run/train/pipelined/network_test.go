package pipelined

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/pipeline/price"
)

// chain has five layers, of which the first and the last share a filter, and a parameter that the loss does not depend on.
func chain(t testing.TB) *graph.Graph {
	t.Helper()
	b := graph.New(7)
	x := b.Input("x", graph.Shape{1, 3, 1, 4, 8})
	filter := func(name string) graph.Value { return b.Param(name, graph.Shape{3, 3, 1, 3, 3}, graph.HeNormal(27)) }
	h, shared := x, filter("shared")
	for _, w := range []graph.Value{shared, filter("a"), filter("b"), filter("c"), shared} {
		h = op.Tanh(b, op.Conv3D(b, h, w, op.Conv{Pad: op.Same(1, 3, 3)}))
	}
	b.Output("unused", op.Mul(b, x, b.Param("unused", graph.Shape{1, 3, 1, 1, 1}, graph.Ones())))
	b.Loss(op.Mean(b, op.Square(b, h)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// options are those of a rank of a pipeline with a stage for each rank.
func options(c *comm.Comm, g *graph.Graph, schedule string) (Options, error) {
	d, err := pipeline.Divide(pipeline.Layers(g, func(n *graph.Node) cluster.Time { return cluster.Time(n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs)) }), c.Size(), func(int64) cluster.Time { return 0 })
	if err != nil {
		return Options{}, err
	}
	ranks := team.New(c)
	ranks.Pipeline = &team.Pipeline{Cuts: d.Cuts}
	o := Options{Ranks: ranks, Training: config.Training{BatchSize: 4}}
	o.Training.Pipeline = config.Pipeline{Stages: c.Size(), Schedule: schedule, Pairs: 1}
	return o, nil
}

// A rank owns the parameters that it sums gradients of: with moments of these only. Holders get them after a step, all ranks when
// they are gathered.
func TestParametersOfStages(t *testing.T) {
	g := chain(t)
	for _, schedule := range []string{config.OneFOneBSchedule, config.ChimeraSchedule} {
		const ranks = 4
		var owned [ranks]int
		var total int
		err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
			o, err := options(c, g, schedule)
			if err != nil {
				return err
			}
			store := engine.NewStore()
			n, err := Compile(g, store, o)
			if err != nil {
				return err
			}
			defer n.Close()
			owned[c.Rank()] = len(n.Ranks().Grads())
			owner := map[string]int{} // a chunk is a parameter, as all are small
			for i, x := range optim.Chunks(store) {
				owner[x.Param] = n.Ranks().Owners()[i]
			}
			for i := range store.Params() {
				store.Params()[i] = float32(c.Rank())
			}
			if err := n.Ranks().AllGather(store.Params()); err != nil {
				return err
			}
			for _, e := range store.Entries() {
				want := c.Rank()
				if holders := n.worker.Holders(e.Name); slices.Contains(holders, c.Rank()) {
					want = owner[e.Name]
				}
				if v, _, _ := store.Get(e.Name); v[0] != float32(want) || v[len(v)-1] != float32(want) {
					return fmt.Errorf("after a step rank %d has %s of rank %v, want %d", c.Rank(), e.Name, v[0], want)
				}
			}
			if err := n.AllGather(store); err != nil {
				return err
			}
			for name, rank := range owner {
				if v, _, _ := store.Get(name); v[0] != float32(rank) || v[len(v)-1] != float32(rank) {
					return fmt.Errorf("gathered, rank %d has %s of rank %v, want %d", c.Rank(), name, v[0], rank)
				}
			}
			if c.Rank() == 0 {
				for _, e := range store.Entries() {
					total += optim.AlignedSize(e.Size())
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", schedule, err)
		}
		sum := 0
		for _, n := range owned {
			sum += n
		}
		if sum != total || slices.Max(owned[:]) > 2*total/3 {
			t.Errorf("%s: ranks own %v of %d values", schedule, owned, total)
		}
	}
}

// Cuts of another network are refused.
func TestOtherCutsAreRefused(t *testing.T) {
	g := chain(t)
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		o, err := options(c, g, config.OneFOneBSchedule)
		if err != nil {
			return err
		}
		o.Ranks.Pipeline.Cuts[2]++
		_, err = Compile(g, engine.NewStore(), o)
		return err
	})
	if exit.CodeOf(err) != exit.Usage {
		t.Error(err)
	}
}

// Weights of micro-batches are their shares of the points; without points all are 0.
func TestWeights(t *testing.T) {
	n := &Network{pieces: 3, ranks: &team.Team{Pipeline: &team.Pipeline{}}}
	for _, c := range []struct {
		points []float32
		want   []float64
	}{
		{[]float32{1, 1, 1, 1, 1, 1}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{[]float32{1, 2, 0, 1, 0, 0}, []float64{0.75, 0.25, 0}},
		{make([]float32, 6), []float64{0, 0, 0}},
	} {
		if got, err := n.weights(c.points); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("weights of %v are %v, %v, want %v", c.points, got, err, c.want)
		}
	}
}

// With K-FAC each tensor has one owner, filter and bias of a layer the same one, and the ranks of a worker share the inversions. A
// filter that several stages share has no factors.
func TestOwnersOfLayers(t *testing.T) {
	b := graph.New(7)
	h, shared := b.Input("x", graph.Shape{1, 3, 1, 4, 8}), b.Param("shared", graph.Shape{3, 3, 1, 3, 3}, graph.HeNormal(27))
	for i, w := range []graph.Value{shared, b.Param("a", graph.Shape{3, 3, 1, 3, 3}, graph.HeNormal(27)), b.Param("b", graph.Shape{90, 3, 1, 9, 9}, graph.HeNormal(243)),
		b.Param("c", graph.Shape{3, 90, 1, 3, 3}, graph.HeNormal(810)), shared} {
		bias := b.ParamOf(graph.Bias, fmt.Sprint("bias", i), graph.Shape{w.Dim(0)}, graph.Zeros())
		h = op.Tanh(b, op.Bias(b, op.Conv3D(b, h, w, op.Conv{Pad: op.Same(1, w.Dim(3), w.Dim(4))}), bias))
	}
	b.Loss(op.Mean(b, op.Square(b, h)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	layers := len(pipeline.Layers(g, func(*graph.Node) cluster.Time { return 0 }))
	err = comm.Run(4, comm.Parallel, func(c *comm.Comm) error {
		m, err := spatial.ParseMesh("lat:2")
		if err != nil {
			return err
		}
		ranks := team.New(c)
		ranks.Pipeline = &team.Pipeline{Cuts: []int{0, 4, layers}, Mesh: m}
		o := Options{Ranks: ranks, Training: config.Training{BatchSize: 4, Optimizer: config.KFACOptimizer, KFAC: config.KFAC{MaxSide: 300}}}
		o.Training.Pipeline = config.Pipeline{Stages: 2, Schedule: config.GPipeSchedule, Pairs: 1}
		store := engine.NewStore()
		n, err := Compile(g, store, o)
		if err != nil {
			return err
		}
		defer n.Close()
		owner := map[string]int{}
		for i, x := range optim.Chunks(store) {
			if rank, seen := owner[x.Param]; seen && rank != n.Ranks().Owners()[i] {
				return fmt.Errorf("%s has two owners", x.Param)
			}
			owner[x.Param] = n.Ranks().Owners()[i]
		}
		var found []string
		for rank, list := range n.OwnFactors() {
			for _, l := range list {
				if l.Form == pass.NoFactors {
					continue
				}
				found = append(found, l.Param)
				if owner[l.Param] != rank || l.Bias != "" && owner[l.Bias] != rank {
					return fmt.Errorf("the layer %+v is on rank %d, its parameters on %v", l, rank, owner)
				}
			}
		}
		if slices.Sort(found); !slices.Equal(found, []string{"a", "b", "c"}) || owner["a"]/2 == owner["b"]/2 && owner["a"] == owner["b"] {
			return fmt.Errorf("layers %v have owners %v", found, owner)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A step sends what its price states, from the rank that sends most: messages of passes, sums of gradients and losses, and updated
// parameters.
func TestSentBytes(t *testing.T) {
	g := chain(t)
	for _, c := range []struct{ schedule, mesh string }{{config.OneFOneBSchedule, ""}, {config.ChimeraSchedule, ""}, {config.OneFOneBSchedule, "data:2"}, {config.ChimeraSchedule, "data:4"}} {
		const stages = 2
		m, err := spatial.ParseMesh(c.mesh)
		if err != nil {
			t.Fatal(err)
		}
		training := config.Training{BatchSize: 4}
		training.Pipeline = config.Pipeline{Stages: stages, Schedule: c.schedule, Pairs: 1}
		p, err := price.NewNetwork(g, setup.TypicalMachine, setup.Adam).Divide(t.Context(), stages, m)
		if err != nil {
			t.Fatal(err)
		}
		s, err := setup.PipelineSchedule(&training)
		if err != nil {
			t.Fatal(err)
		}
		want, err := p.Step(t.Context(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent := make([]int64, stages*m.Size())
		err = comm.Run(stages*m.Size(), comm.Replay(1), func(c *comm.Comm) error {
			ranks := team.New(c)
			ranks.Pipeline, ranks.DataGroups = &team.Pipeline{Cuts: p.Division.Cuts, Mesh: m}, m.DataRanks()
			n, err := Compile(g, engine.NewStore(), Options{Ranks: ranks, Training: training})
			if err != nil {
				return err
			}
			defer n.Close()
			before := c.Traffic()
			if _, err := n.worker.Step(t.Context(), 0, func(int, string, []float32) error { return nil }); err != nil {
				return err
			}
			err = n.Ranks().AllGather(n.store.Params())
			sent[c.Rank()] = c.Traffic().Sub(before).Bytes
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if most := slices.Max(sent); want.Sent < most || float64(want.Sent) > 1.1*float64(most) {
			t.Errorf("%+v: ranks send %v bytes, predicted %d", c, sent, want.Sent)
		}
	}
}
