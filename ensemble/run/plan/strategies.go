package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// Strategy is a way to train on the ranks, with its predicted step.
type Strategy struct {
	System  string `json:"system"`
	Setting string `json:"setting"` // of train.yaml
	Mesh    string `json:"mesh"`    // of a pipeline that of a stage
	// StepS is the expected time of a step with the imbalance of the machine, EvenStepS that of equally fast ranks. Systems that wait
	// for all ranks in some steps only have the mean over these steps.
	StepS     float64 `json:"step_s"`
	EvenStepS float64 `json:"even_step_s"`
	// LeftOut is the share of the samples that late units do not compute.
	LeftOut float64 `json:"left_out"`
	// Idle is the share of a step in which a rank waits, in the mean over ranks.
	Idle        float64 `json:"idle"`
	SentBytes   int64   `json:"sent_bytes"` // in a step, by the busiest rank
	MemoryBytes int64   `json:"memory_bytes"`
	Fits        bool    `json:"fits"`
	// Results compares with synchronous training: exact (up to rounding), sparse, late, averaged, or another optimiser.
	Results    string `json:"results"`
	Configured bool   `json:"configured"` // the configuration selects it
	Proposed   bool   `json:"proposed"`
	Why        string `json:"why"` // it is proposed, or is not
}

// What results are.
const (
	exactResults     = "exact"
	sparseResults    = "sparse"
	lateResults      = "late"
	averagedResults  = "averaged"
	optimiserResults = "other optimiser"
)

// strategist compares the systems for a training.
type strategist struct {
	*planning
	ctx        context.Context
	g          *graph.Graph
	optimiser  search.Optimiser // dense sums, not sharded
	imbalance  search.Imbalance
	parameters int64
	reference  search.Plan   // synchronous
	meshes     []search.Plan // those with data ranks, best first
	all        []Strategy
}

// dataMeshes is the number of meshes with data ranks for which systems that need them are priced, best first.
const dataMeshes = 4

// strategies compares the systems for the ranks of the options. reference is the plan of synchronous training, meshes those with one
// distribution for all layers, best first.
func (c *planning) strategies(ctx context.Context, g *graph.Graph, reference search.Plan, meshes []search.Plan, r *Result) ([]Strategy, error) {
	s := &strategist{planning: c, ctx: ctx, g: g, optimiser: c.optimiser, imbalance: setup.ImbalanceOf(c.o.Machine), reference: reference}
	s.optimiser.Compression, s.optimiser.Sharded, s.optimiser.Curvature = nil, false, 0
	var err error
	if s.optimiser != c.optimiser {
		if s.reference, err = search.CostOf(ctx, g, c.machine, s.optimiser, s.reference.Mesh); err != nil {
			return nil, err
		}
	}
	for _, n := range g.Nodes {
		if n.Kind == graph.KindParam {
			s.parameters += int64(n.Shape.Size())
		}
	}
	for _, p := range meshes {
		if p.Mesh.HasDataRanks() && len(s.meshes) < dataMeshes {
			s.meshes = append(s.meshes, p)
		}
	}
	for _, add := range []func() error{s.addSynchronous, s.addSharded, s.addSparse, s.addLargeBatch, s.addKFAC, s.addLate} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	for _, add := range []func(*PlannedPipeline) error{s.addPipeline, s.addPipeFisher} {
		if err := add(r.Pipeline); err != nil {
			return nil, err
		}
	}
	s.all[0].Configured = !slices.ContainsFunc(s.all, func(x Strategy) bool { return x.Configured })
	slices.SortStableFunc(s.all, func(a, b Strategy) int {
		return cmp.Or(compareBools(a.Fits, b.Fits), compareBools(a.Proposed, b.Proposed), cmp.Compare(a.StepS, b.StepS))
	})
	return s.all, nil
}

// compareBools puts true first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// computing is the time that a rank computes in a step.
func computing(p search.Plan) float64 { return (p.Compute + p.Optimiser - p.Gathers).Seconds() }

// synchronous is a strategy whose ranks wait for each other in every step of a plan:
//
//	T = C·(slowest of N ranks) + what is waited for in messages
func (s *strategist) synchronous(system string, p search.Plan) Strategy {
	e := search.LateExchange{Units: max(1, p.Mesh.Size()), Ranks: 1, Compute: computing(p), Wait: p.Step.Seconds() - computing(p)}
	return s.with(Strategy{System: system, Mesh: p.Mesh.String(), EvenStepS: p.Step.Seconds(), StepS: s.imbalance.LateStep(e), MemoryBytes: p.Memory,
		SentBytes: sentBytes(p), Results: exactResults}, e.Compute)
}

// sentBytes is what the busiest rank of a plan sends in a step.
func sentBytes(p search.Plan) int64 {
	return p.HaloBytes + p.ShuffleBytes + p.SumBytes + p.GradientBytes
}

// with completes a strategy whose ranks compute for a time in a step.
func (s *strategist) with(x Strategy, compute float64) Strategy {
	x.Idle = max(0, 1-compute/x.StepS)
	x.Fits = s.fits(x.MemoryBytes)
	return x
}

// add adds a strategy that is proposed if its condition holds, it fits into memory, and it is faster than synchronous training.
func (s *strategist) add(x Strategy, condition bool, why string) {
	x.Proposed, x.Why = condition, why
	switch reference := s.all[0]; {
	case !x.Fits:
		x.Proposed, x.Why = false, "it does not fit into the memory of a rank"
	case condition && reference.Fits && x.StepS >= reference.StepS:
		x.Proposed, x.Why = false, fmt.Sprintf("%s, but it is not faster than synchronous steps", why)
	}
	s.all = append(s.all, x)
}

// addSynchronous adds the reference.
func (s *strategist) addSynchronous() error {
	x := s.synchronous(synchronousSystem, s.reference)
	x.Setting = fmt.Sprintf("train.mesh: %q", s.reference.Mesh.String())
	x.Proposed, x.Why = x.Fits, "the reference; the others pay under a condition"
	if !x.Fits {
		x.Why = "it does not fit into the memory of a rank"
	}
	s.all = append(s.all, x)
	return nil
}

// addSharded adds the synchronous plan with a sharded optimiser, which is proposed where memory needs it.
func (s *strategist) addSharded() error {
	if s.reference.Mesh.Size() < 2 {
		return nil
	}
	o := s.optimiser
	o.Sharded = true
	p, err := search.CostOf(s.ctx, s.g, s.machine, o, s.reference.Mesh)
	if err != nil {
		return err
	}
	x := s.synchronous(shardedSystem, p)
	x.Setting, x.Configured = "train.shard_optimizer: true", s.o.Config.Train.Train.ShardOptimizer
	why := fmt.Sprintf("a rank has room for the whole optimiser; it would need %.0f MiB instead of %.0f", mib(x.MemoryBytes), mib(s.all[0].MemoryBytes))
	if !s.all[0].Fits {
		why = "the optimiser does not fit into the memory of a rank otherwise"
	}
	s.add(x, !s.all[0].Fits, why)
	return nil
}

// densities returns those of proposed sparse sums, and that of the configuration.
func (s *strategist) densities() []float64 {
	all := []float64{0.01, 0.02}
	if k := s.o.Config.Train.Train.Compression; k.IsEnabled() && !slices.Contains(all, k.Density) {
		all = append(all, k.Density)
	}
	return all
}

// waited is the share of the synchronous step in which gradients are waited for.
func (s *strategist) waited() float64 { return s.reference.Gradients.Seconds() / s.all[0].StepS }

// addSparse adds sparse sums on the best mesh with data ranks.
func (s *strategist) addSparse() error {
	for _, density := range s.densities() {
		training := s.o.Config.Train.Train
		configured := training.Compression.Density == density
		training.Compression.Density = density
		o := s.optimiser
		o.Compression = setup.CompressionOf(&training)
		var best *search.Plan
		for _, m := range s.meshes {
			p, err := search.CostOf(s.ctx, s.g, s.machine, o, m.Mesh)
			if err != nil {
				return err
			}
			if best == nil || p.Fits && (!best.Fits || p.Step < best.Step) {
				best = &p
			}
		}
		if best == nil {
			return nil
		}
		x := s.synchronous(fmt.Sprintf("%s, %g %%", sparseSystem, 100*density), *best)
		x.Setting, x.Results, x.Configured = fmt.Sprintf("train.compression.density: %g", density), sparseResults, configured
		more, why := s.compareWaiting(waitedShare)
		s.add(x, more, why)
	}
	return nil
}

// compareWaiting compares the share of the synchronous step in which gradients are waited for with a limit.
func (s *strategist) compareWaiting(limit float64) (more bool, why string) {
	w := s.waited()
	if w > limit {
		return true, fmt.Sprintf("gradients are waited for in %.0f %% of the synchronous step, more than %.0f %%", 100*w, 100*limit)
	}
	return false, fmt.Sprintf("gradients are waited for in %s %% of the synchronous step, not more than %.0f %%", percent(w), 100*limit)
}

// percent is a share with two digits.
func percent(share float64) string {
	if share >= 0.095 {
		return fmt.Sprintf("%.0f", 100*share)
	}
	return fmt.Sprintf("%.1f", 100*share)
}

// strategiesSection is the table of strategies, best first.
func (r *Result) strategiesSection() answer.Section {
	imbalance := "ranks of equal speed"
	if r.Imbalance != nil {
		imbalance = fmt.Sprintf("a slowest rank of %.3g of the mean (measured %.3g on %d ranks, %.3g in all steps)", r.Imbalance.Planned, r.Imbalance.Slowest, r.Imbalance.Ranks, r.Imbalance.Persistent)
	}
	t := answer.Section{Text: []string{"strategies, predicted, for " + imbalance + "; * is proposed:"},
		Columns: []answer.Column{{}, {Name: "system"}, {Name: "mesh"}, answer.NumberColumn("step", "ms", "%.3f"), answer.NumberColumn("idle", "%", "%.0f"), answer.NumberColumn("MiB sent", "", "%.1f"),
			answer.NumberColumn("MiB a rank", "", "%.0f"), {Name: "results"}}}
	first := map[string]int{} // by reason
	for i, x := range r.Strategies {
		mark, system, why := "", x.System, x.Why
		if x.Configured {
			system += " (configured)"
		}
		mesh := shortMesh(x.Mesh)
		if x.Mesh == "" && (x.System == pipelineSystem || x.System == pipeFisherSystem) {
			mesh = "-"
		}
		if x.Proposed {
			mark = "*"
		}
		if k := first[x.Why]; k > 0 {
			why = fmt.Sprintf("as %d", k)
		} else {
			first[x.Why] = i + 1
		}
		t.Rows = append(t.Rows, []any{fmt.Sprintf("%s%d", mark, i+1), system, mesh, 1e3 * x.StepS, 100 * x.Idle, mib(x.SentBytes), mib(x.MemoryBytes), x.Results})
		t.Notes = append(t.Notes, fmt.Sprintf("%2d %s (%s)", i+1, x.Setting, why))
	}
	return t
}
