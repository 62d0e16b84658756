package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// Options select the training and the machine.
type Options struct {
	Config *config.TrainConfig
	// Machine describes the machine. Nil: that of Config; if it has none, nodes like this one with one rank each,
	// whose rates are measured.
	Machine  *config.MachineConfig
	Ranks    int           // 1 or more; 0: only the training on this machine, without Machine
	Crop     setup.Crop    // size of the field; zero: grid of the forecast files
	Scaling  bool          // also plan from one rank to scalingRanks
	Simulate bool          // also simulate the best plans on a virtual cluster
	Timings  setup.Timings // measured times of kernels on this machine
}

// scalingRanks is the largest number of ranks in scaling curves.
const scalingRanks = 4096

// Result is the prediction. Only the rates of this machine are measured, if they are used.
type Result struct {
	Predicted bool    `json:"predicted"` // always true: nothing is measured
	Network   string  `json:"network"`
	Ranks     int     `json:"ranks"`
	Batch     int     `json:"batch"`
	Machine   Machine `json:"machine"`
	// Local is the training on this machine; nil if another one is described.
	Local *LocalTraining `json:"this_machine,omitempty"`
	// Plan is that of train.mesh; without one the best plan, which train.mesh: auto would choose on this machine.
	Plan PlannedStep `json:"plan"`
	// Best is the best plan if train.mesh states another mesh.
	Best *PlannedStep `json:"best,omitempty"`
	// Meshes are plans that divide all layers along the same axes, best first.
	Meshes []PlannedStep `json:"meshes"`
	// Pipeline is that of train.pipeline; without one the fastest of 2 to 16 stages, each for one or several ranks.
	Pipeline *PlannedPipeline `json:"pipeline,omitempty"`
	// Strategies are the systems by which the ranks can train: those that fit into memory and are proposed first, by time.
	Strategies []Strategy `json:"strategies"`
	// Imbalance is that of the machine; nil if it is not known.
	Imbalance *Imbalance `json:"imbalance,omitempty"`
	// SimulatedNetwork is the network of the virtual cluster; "" without a simulation.
	SimulatedNetwork string        `json:"simulated_network,omitempty"`
	Scaling          []ScalingStep `json:"scaling,omitempty"`
	// Sizes are those of train.sizes; nil without.
	Sizes *StepSizes `json:"sizes,omitempty"`
	// Warnings name what the closed forms leave out.
	Warnings []string `json:"warnings,omitempty"`
}

// Machine is the machine of the prediction.
type Machine struct {
	Name     string  `json:"name"`
	GFLOPs   float64 `json:"gflops"`         // per rank
	GBs      float64 `json:"gb_s"`           // memory bandwidth per rank
	Memory   int64   `json:"memory_bytes"`   // per rank; 0: no limit
	PerNode  int     `json:"ranks_per_node"` // ranks
	Network  string  `json:"network"`
	Computed string  `json:"computed_by"` // where computing times come from
}

// Imbalance is how the times differ that ranks compute in a step, relative to their mean.
type Imbalance struct {
	Ranks      int     `json:"ranks"`      // of the measurement
	Slowest    float64 `json:"slowest"`    // slowest rank of a step
	Persistent float64 `json:"persistent"` // slowest rank in the mean over steps
	// Planned is the expected time of the slowest of the planned ranks in a step.
	Planned float64 `json:"planned"`
}

// PlannedStep is a plan with its predicted step. Communication times are those that computation waits for;
// "hidden" ones overlap with computation. Bytes are those of the rank that sends most.
type PlannedStep struct {
	Mesh       string  `json:"mesh"`          // as train.mesh
	Fits       bool    `json:"fits"`          // into the memory of a rank
	StepS      float64 `json:"step_s"`        // seconds per step
	SamplesS   float64 `json:"samples_per_s"` // samples per second
	Efficiency float64 `json:"efficiency"`    // time on one rank / (ranks · time)
	ForwardS   float64 `json:"forward_s"`
	BackwardS  float64 `json:"backward_s"`
	OptimiserS float64 `json:"optimiser_s"`

	ComputeS         float64 `json:"compute_s"`
	HalosS           float64 `json:"halos_s"`            // exposed halo exchange
	HalosHiddenS     float64 `json:"halos_hidden_s"`     // overlapped with computation
	ShufflesS        float64 `json:"shuffles_s"`         // redistribution between layers
	SumsS            float64 `json:"sums_s"`             // all-reduce of normalisation statistics
	GradientsS       float64 `json:"gradients_s"`        // exposed all-reduce of gradients
	GradientsHiddenS float64 `json:"gradients_hidden_s"` // overlapped with the backward pass

	PlannedBytes

	Simulated *SimulatedStep `json:"simulated,omitempty"`

	Layers []PlannedLayer `json:"layers,omitempty"`
}

// PlannedBytes are the bytes that a rank sends in a step, and its memory.
type PlannedBytes struct {
	HaloBytes     int64 `json:"halo_bytes"`
	ShuffleBytes  int64 `json:"shuffle_bytes"`
	SumBytes      int64 `json:"sum_bytes"`
	GradientBytes int64 `json:"gradient_bytes"`
	MemoryBytes   int64 `json:"memory_bytes"`
}

// PlannedLayer is the distribution of a layer.
type PlannedLayer struct {
	Name         string      `json:"name"`
	Shape        graph.Shape `json:"shape"`
	Distribution string      `json:"distribution"`
}

// SimulatedStep is a step simulated on the virtual cluster.
type SimulatedStep struct {
	StepS      float64 `json:"step_s"`
	Efficiency float64 `json:"efficiency"` // relative to one rank, also simulated
	SentBytes  int64   `json:"sent_bytes"` // by all ranks
}

// ScalingStep is one number of ranks on the scaling curves.
type ScalingStep struct {
	Ranks int `json:"ranks"`
	// Strong keeps the batch. Weak grows it with the ranks, from the least number whose memory holds the batch.
	// Nil if no mesh with this number of ranks exists or fits.
	Strong *PlannedStep `json:"strong"`
	Weak   *PlannedStep `json:"weak"`
	Batch  int          `json:"weak_batch"` // batch of Weak
}

// Run predicts how a training step scales over ranks. Nothing is trained, no field is read, and no rank is
// started.
//
// Reads: the index of the forecast files, unless Crop is given.
// Errors: exit 64 for a number of ranks without a mesh, and an invalid machine; 1 if no plan fits into the
// memory of a rank; 65 and 66 for the forecast files.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Machine == nil {
		o.Machine = o.Config.Machine
	}
	if o.Ranks < 0 || o.Ranks == 0 && (o.Machine != nil || o.Simulate || o.Scaling) {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid number of ranks: %d", o.Ranks), At: "--ranks", Fix: "give --ranks N, 1 or more"}
	}
	eo := explain.Options{Config: o.Config, Crop: o.Crop, Mode: "train", Timings: o.Timings}
	if err := eo.Check(); err != nil {
		return nil, err
	}
	grid, err := eo.Grid(ctx)
	if err != nil {
		return nil, err
	}
	c := &planning{o: o, subject: eo.Subject(), grid: grid}
	if err := c.findMachine(ctx); err != nil {
		return nil, err
	}
	r := &Result{Predicted: true, Network: c.subject.Describe(grid), Ranks: o.Ranks, Batch: c.subject.Batch, Machine: c.described}
	g, err := c.network(c.subject.Batch)
	if err != nil {
		return nil, err
	}
	if r.Sizes, err = c.sizes(g); err != nil {
		return nil, err
	}
	if c.optimiser, err = setup.OptimiserOf(&o.Config.Train.Train, g); err != nil {
		return nil, err
	}
	alone, err := search.CostOf(ctx, g, c.machine.Unlimited(), c.optimiser, nil)
	if err != nil {
		return nil, err
	}
	if o.Machine == nil {
		if r.Local, err = c.measureLocal(ctx, g); err != nil || o.Ranks == 0 {
			return r, err
		}
	}
	c.oneRankStep = alone.Step
	if err := c.checkStages(); err != nil {
		return nil, err
	}
	if r.Pipeline, err = c.pipeline(ctx); err != nil {
		return nil, err
	}
	if err := c.planRanks(ctx, g, r); err != nil {
		return nil, err
	}
	if o.Scaling {
		if r.Scaling, err = c.scaling(ctx, g); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// planRanks plans the step on the ranks of the options, and simulates the best plans on request, and also if a
// topology is described, which the closed forms do not contain.
func (c *planning) planRanks(ctx context.Context, g *graph.Graph, r *Result) error {
	chosen, err := c.chosenMesh(ctx, g)
	if err != nil {
		return err
	}
	found, err := search.Search(ctx, g, c.o.Ranks, c.machine, c.optimiser, search.Options{PerStage: true})
	if err != nil && (chosen == nil || len(found.Meshes) == 0) {
		return c.searchError(ctx, err, found, g)
	}
	plans := []search.Plan{found.Best}
	if err != nil {
		plans = nil
	}
	for _, p := range found.Meshes {
		if !slices.ContainsFunc(plans, func(q search.Plan) bool { return q.Mesh.String() == p.Mesh.String() }) {
			plans = append(plans, p)
		}
	}
	simulated := map[string]*SimulatedStep{}
	if c.o.Simulate || c.topology() != "" && c.o.Ranks <= mostSimulated {
		if simulated, err = c.simulate(ctx, g, chosen, plans, r); err != nil {
			return err
		}
		bySimulated := func(a, b search.Plan) int { return bySimulatedTime(simulated, a, b) }
		slices.SortStableFunc(plans, bySimulated)
		slices.SortStableFunc(found.Meshes, bySimulated)
		if err := c.simulatePipeline(ctx, r); err != nil {
			return err
		}
	} else if c.topology() != "" {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the times do not contain the topology %s; --simulate also simulates the best plans on it", c.topology()))
	}
	step := func(p search.Plan) PlannedStep {
		s := c.step(p, r.Batch, c.o.Ranks)
		s.Simulated = simulated[s.Mesh]
		return s
	}
	for _, p := range found.Meshes {
		r.Meshes = append(r.Meshes, step(p))
	}
	best := step(plans[0])
	best.Layers = plannedLayers(plans[0])
	if r.Plan = best; chosen != nil {
		r.Plan, r.Best = step(*chosen), &best
		r.Plan.Layers = plannedLayers(*chosen)
	}
	if b := setup.ImbalanceOf(c.o.Machine); b.IsKnown() {
		r.Imbalance = &Imbalance{Ranks: b.Ranks, Slowest: b.Slowest, Persistent: b.Persistent, Planned: b.SlowestOf(c.o.Ranks)}
	}
	r.Strategies, err = c.strategies(ctx, g, *cmp.Or(chosen, &plans[0]), found.Meshes, r)
	return err
}

// topology is the topology of the described network; "" if there is none.
func (c *planning) topology() string {
	if c.o.Machine == nil {
		return ""
	}
	return c.o.Machine.Network.Topology
}

// chosenMesh returns the plan of train.mesh; nil if the best one is to be found.
//
// Errors: exit 64 for a mesh of another number of ranks, or one that does not suit the network.
func (c *planning) chosenMesh(ctx context.Context, g *graph.Graph) (*search.Plan, error) {
	if c.o.Config.Train.Train.Pipeline.IsEnabled() { // train.mesh is that of its stages
		return nil, nil
	}
	text := c.o.Config.Train.Train.Mesh
	n, err := setup.MeshRanks(text)
	if err != nil || n == 0 {
		return nil, err
	}
	if n != c.o.Ranks {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("train.mesh has %s, --ranks states %d", humanise.Count(n, "rank"), c.o.Ranks), At: "train.mesh: " + text,
			Why: "a plan is for one number of ranks", Fix: fmt.Sprintf("give --ranks %d, or --set train.mesh=auto", n)}
	}
	mesh, err := spatial.ParseMesh(text)
	if err != nil {
		return nil, err
	}
	if err := setup.TrainMesh.CheckMesh(g, mesh, c.o.Config.Train.Train.BatchSize, c.o.Ranks); err != nil {
		return nil, err
	}
	p, err := search.CostOf(ctx, g, c.machine, c.optimiser, mesh)
	return &p, err
}

// planning is a training and the machine that it is planned for.
type planning struct {
	o           Options
	subject     explain.Subject
	grid        *ensemble.Grid
	optimiser   search.Optimiser
	machine     search.Machine
	described   Machine      // for the answer
	oneRankStep cluster.Time // time of a step on one rank
}

// network builds the step for a batch.
func (c *planning) network(batch int) (*graph.Graph, error) {
	s := c.subject
	return s.Spec.Graph(&s.Task, c.grid, batch, s.Seed, true)
}

// findMachine finds the machine: described, or this one.
func (c *planning) findMachine(ctx context.Context) error {
	m := c.o.Machine
	if m == nil {
		return c.measureMachine(ctx)
	}
	c.machine = setup.DescribeMachine(m)
	c.describeMachine(m.Files()[0].Path, "FLOPs and bytes at the rates of the machine")
	if m.Network.Topology == "" {
		return nil
	}
	topology, err := cluster.Parse(m.Network.Topology, cluster.Cable{Rate: c.machine.InterNode.Rate})
	var e *exit.Error
	if errors.As(err, &e) {
		return m.Fault("network.topology", e.What, e.Why, e.Fix)
	}
	if nodes := (c.o.Ranks + m.Node.Ranks - 1) / m.Node.Ranks; err == nil && nodes > topology.Hosts {
		return m.Fault("network.topology", fmt.Sprintf("%d ranks need %d nodes, %s has %d", c.o.Ranks, nodes, topology.Name, topology.Hosts),
			fmt.Sprintf("a node has %d ranks", m.Node.Ranks), "describe a larger machine, or plan fewer ranks")
	}
	c.described.Network = topology.Name + ", " + c.described.Network
	return err
}

// describeMachine describes the machine for the answer.
func (c *planning) describeMachine(name, computed string) {
	m := c.machine
	c.described = Machine{Name: name, GFLOPs: m.FLOPs / 1e9, GBs: m.Bytes / 1e9, Memory: m.Memory, PerNode: max(1, m.PerNode), Computed: computed,
		Network: fmt.Sprintf("%v and %.4g GB/s a node", m.InterNode.Alpha, float64(m.InterNode.Rate)/1e9)}
	if m.PerNode > 1 {
		c.described.Network += fmt.Sprintf(", %v and %.4g GB/s inside", m.IntraNode.Alpha, float64(m.IntraNode.Rate)/1e9)
	}
}

// searchError returns the error of a failed search. Where a sharded optimiser is what memory lacks, it says so.
func (c *planning) searchError(ctx context.Context, err error, found search.Result, g *graph.Graph) error {
	switch {
	case errors.Is(err, search.ErrMemory):
		e := setup.MemoryError(exit.No, c.o.Ranks, c.machine, found.Best, c.described.Name)
		if o := c.optimiser; !o.Sharded && o.Compression == nil && o.Curvature == 0 {
			o.Sharded = true
			if sharded, err := search.Search(ctx, g, c.o.Ranks, c.machine, o, search.Options{}); err == nil {
				e.Fix = fmt.Sprintf("set train.shard_optimizer: true, with which mesh %q needs %s, or ", sharded.Best.Mesh.String(), config.Bytes(setup.CeilMiB(sharded.Best.Memory))) + e.Fix
			}
		}
		return e
	case errors.Is(err, search.ErrMesh):
		return setup.NoMeshError(c.o.Ranks, "--ranks", g)
	}
	return err
}

// step converts a plan to the units of the answer.
func (c *planning) step(p search.Plan, batch, ranks int) PlannedStep {
	return PlannedStep{Mesh: p.Mesh.String(), Fits: p.Fits, StepS: p.Step.Seconds(), SamplesS: float64(batch) / p.Step.Seconds(),
		Efficiency: c.oneRankStep.Seconds() / float64(ranks) / p.Step.Seconds(),
		ForwardS:   p.Forward.Seconds(), BackwardS: p.Backward.Seconds(), OptimiserS: p.Optimiser.Seconds(),
		ComputeS: p.Compute.Seconds(), HalosS: p.Halos.Seconds(), HalosHiddenS: p.HalosOverlapped.Seconds(), ShufflesS: p.Shuffles.Seconds(), SumsS: p.Sums.Seconds(),
		GradientsS: p.Gradients.Seconds(), GradientsHiddenS: p.GradientsOverlapped.Seconds(),
		PlannedBytes: PlannedBytes{HaloBytes: p.HaloBytes, ShuffleBytes: p.ShuffleBytes, SumBytes: p.SumBytes, GradientBytes: p.GradientBytes, MemoryBytes: p.Memory}}
}

// plannedLayers lists the distributions of the layers.
func plannedLayers(p search.Plan) []PlannedLayer {
	var all []PlannedLayer
	for _, l := range p.Layers {
		all = append(all, PlannedLayer{l.Name, l.Out, distribution(l.Distribution)})
	}
	return all
}

// distribution describes a distribution by its divided axes: "lat/4 lon/16", with the mesh axis if that
// differs.
func distribution(d graph.Distribution) string {
	var words []string
	for axis, cut := range d.Axes {
		if cut.MeshAxis == "" {
			continue
		}
		word := fmt.Sprintf("%s/%d", search.AxisNames[axis], len(cut.Starts))
		if (spatial.MeshAxis{Name: cut.MeshAxis}).FieldAxis() != axis {
			word += " (by " + cut.MeshAxis + ")"
		}
		words = append(words, word)
	}
	return cmp.Or(strings.Join(words, " "), "complete on every rank")
}

// cluster returns the network of the simulation.
func (c *planning) cluster() (cluster.Network, string, error) {
	m := c.machine
	var between cluster.Network = cluster.LogGP{Latency: m.InterNode.Alpha, Rate: m.InterNode.Rate}
	name := "messages contend at the nodes only"
	if c.o.Machine != nil && c.o.Machine.Network.Topology != "" {
		topology, err := cluster.Parse(c.o.Machine.Network.Topology, cluster.Cable{Rate: m.InterNode.Rate})
		if err != nil {
			return nil, "", err
		}
		between, name = cluster.Fluid{Wiring: cluster.Wiring{Topology: topology, Alpha: m.InterNode.Alpha}}, topology.Name
	}
	return cluster.Nodes{PerNode: max(1, m.PerNode), IntraNode: cluster.LogGP{Latency: m.IntraNode.Alpha, Rate: m.IntraNode.Rate}, InterNode: between}, name, nil
}

// simulatedPlans is the number of plans that are simulated, best first. mostSimulated is the largest number of ranks
// that is simulated without a request.
const (
	simulatedPlans = 4
	mostSimulated  = 256
)

// maxDeviation is the share of the simulated time from which on a difference to the closed forms is a warning.
const maxDeviation = 0.1

// simulate simulates the steps of the best plans and that of train.mesh on the virtual cluster. The result is by mesh.
func (c *planning) simulate(ctx context.Context, g *graph.Graph, chosen *search.Plan, plans []search.Plan, r *Result) (map[string]*SimulatedStep, error) {
	network, name, err := c.cluster()
	if err != nil {
		return nil, err
	}
	r.SimulatedNetwork = name
	plans = plans[:min(simulatedPlans, len(plans))]
	if chosen != nil {
		plans = append([]search.Plan{*chosen}, plans...)
	}
	show := progress.Start(ctx, "simulate plans", int64(len(plans)))
	defer show.Done()
	out := map[string]*SimulatedStep{}
	for _, p := range plans {
		text := p.Mesh.String()
		if out[text] != nil {
			continue
		}
		s, err := search.Simulate(ctx, g, c.optimiser, p.Mesh, c.machine, network)
		if err != nil {
			return nil, err
		}
		out[text] = c.compareSimulated(r, "mesh "+cmp.Or(text, "1"), s, p.Step)
		show.Add(1)
	}
	return out, nil
}

// compareSimulated converts a simulated step, with a warning where it is far from the predicted one.
func (c *planning) compareSimulated(r *Result, what string, s search.SimulatedStep, predicted cluster.Time) *SimulatedStep {
	if d := s.Step.Seconds()/predicted.Seconds() - 1; math.Abs(d) > maxDeviation {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: the simulated step takes %.0f %% of the predicted one, which leaves out shared links of %s and waiting for other ranks", what, 100*(1+d), r.SimulatedNetwork))
	}
	return &SimulatedStep{StepS: s.Step.Seconds(), SentBytes: s.Sent, Efficiency: c.oneRankStep.Seconds() / float64(r.Ranks) / s.Step.Seconds()}
}

// bySimulatedTime compares plans by their simulated times; simulated ones come first.
func bySimulatedTime(of map[string]*SimulatedStep, a, b search.Plan) int {
	x, y := of[a.Mesh.String()], of[b.Mesh.String()]
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return 1
	case y == nil:
		return -1
	case a.Fits && !b.Fits:
		return -1
	case b.Fits && !a.Fits:
		return 1
	}
	return cmp.Compare(x.StepS, y.StepS)
}

// scaling plans powers of two of ranks.
func (c *planning) scaling(ctx context.Context, g *graph.Graph) ([]ScalingStep, error) {
	var all []ScalingStep
	least := 0 // least number of ranks that hold the batch, with a rank's time per sample
	var base search.Plan
	show := progress.Start(ctx, "plan ranks", int64(math.Log2(scalingRanks))+1)
	defer show.Done()
	for p := 1; p <= scalingRanks; p *= 2 {
		s := ScalingStep{Ranks: p}
		found, err := search.Search(ctx, g, p, c.machine, c.optimiser, search.Options{})
		switch {
		case err == nil:
			strong := c.step(found.Best, c.subject.Batch, p)
			s.Strong = &strong
			if least == 0 {
				least, base = p, found.Best
			}
		case !errors.Is(err, search.ErrMemory) && !errors.Is(err, search.ErrMesh):
			return nil, err
		}
		if least > 0 {
			s.Batch = c.subject.Batch * p / least
			larger, err := c.network(s.Batch)
			if err != nil {
				return nil, err
			}
			if found, err = search.Search(ctx, larger, p, c.machine, c.optimiser, search.Options{}); err == nil {
				weak := c.step(found.Best, s.Batch, p)
				weak.Efficiency = base.Step.Seconds() / found.Best.Step.Seconds()
				s.Weak = &weak
			} else if ctx.Err() != nil {
				return nil, err
			}
		}
		all = append(all, s)
		show.Add(1)
	}
	return all, nil
}

// Sections returns the plan as text: the training on this machine, step, communication, layers, alternatives, and the requested curves.
func (r *Result) Sections() answer.Sections {
	var all answer.Sections
	if r.Local != nil {
		all = answer.Sections{r.Local.section()}
	}
	if r.Sizes != nil {
		all = append(all, r.Sizes.section())
	}
	if r.Ranks == 0 {
		return append(all, answer.Section{Text: []string{r.Network, "more processes: --ranks N, with --machine FILE for a cluster"}})
	}
	title := "best plan"
	if r.Best != nil {
		title = "plan of train.mesh"
	}
	best := r.Plan.section(title, r.Machine.Memory)
	if r.Best != nil {
		best.Notes = []string{"", fmt.Sprintf("best plan: mesh %s, step %.3f ms, %.1f %% less than that of train.mesh", cmp.Or(r.Best.Mesh, "1"), 1e3*r.Best.time(), 100*(1-r.Best.time()/r.Plan.time()))}
	} else if uniform := r.Meshes[0]; uniform.Mesh == r.Plan.Mesh {
		best.Notes = []string{"", fmt.Sprintf("no plan with different distributions for small and large fields saves %.0f %%", 100*search.MinSaving)}
	} else {
		best.Notes = []string{"", fmt.Sprintf("best mesh with one distribution for all layers: %s, step %.3f ms; the plan takes %.1f %% less",
			cmp.Or(uniform.Mesh, "1"), 1e3*uniform.time(), 100*(1-r.Plan.time()/uniform.time()))}
	}
	layers := answer.Section{Columns: answer.TextColumns("layer", "result", "distribution")}
	for _, l := range r.Plan.Layers {
		layers.Rows = append(layers.Rows, []any{l.Name, l.Shape, l.Distribution})
	}
	all = append(all, answer.Sections{
		{Text: []string{fmt.Sprintf("%s on %d ranks: PREDICTED, not measured", r.Network, r.Ranks),
			fmt.Sprintf("machine: %s: %.4g GFLOP/s and %.4g GB/s a rank, %s a node; %s", r.Machine.Name, r.Machine.GFLOPs, r.Machine.GBs, humanise.Count(r.Machine.PerNode, "rank"), r.Machine.Network),
			"computing: " + r.Machine.Computed}},
		best,
		{Text: []string{"train:", fmt.Sprintf("  mesh: %q", r.Plan.Mesh)}},
		layers, r.meshes(),
	}...)
	if p := r.Plan.Simulated; p != nil {
		all = append(all, answer.Section{Text: []string{fmt.Sprintf("simulated on a virtual cluster (%s): step %.3f ms, efficiency %.1f %%, %.1f MiB sent by all ranks",
			r.SimulatedNetwork, 1e3*p.StepS, 100*p.Efficiency, mib(p.SentBytes))}})
	}
	if r.Pipeline != nil {
		all = append(all, r.pipelineSection())
	}
	all = append(all, r.strategiesSection())
	for _, w := range r.Warnings {
		all = append(all, answer.Section{Text: []string{"warning: " + w}})
	}
	if r.Scaling != nil {
		all = append(all, r.scaling())
	}
	return all
}

// mib converts bytes to MiB.
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// section is a step with all its parts.
func (s PlannedStep) section(title string, memory int64) answer.Section {
	parts := answer.Section{Text: []string{title + ": mesh " + cmp.Or(s.Mesh, "1")}, Columns: []answer.Column{{}, answer.NumberColumn("", "", "%.3f"), {}}}
	row := func(name string, x any, format string, args ...any) {
		parts.Rows = append(parts.Rows, []any{"  " + name, x, fmt.Sprintf(format, args...)})
	}
	row("step", 1e3*s.StepS, "ms: forward %.3f, backward %.3f, optimiser %.3f, gradients behind %.3f", 1e3*s.ForwardS, 1e3*s.BackwardS, 1e3*s.OptimiserS, 1e3*s.GradientsS)
	row("rate", s.SamplesS, "samples/s, efficiency %.1f %%", 100*s.Efficiency)
	room := ""
	if memory > 0 {
		room = fmt.Sprintf(", of %.1f", mib(memory))
	}
	row("memory", fmt.Sprintf("%.1f", mib(s.MemoryBytes)), "MiB a rank%s", room)
	for _, m := range []struct {
		name            string
		exposed, hidden float64
		bytes           int64
	}{{"halos", s.HalosS, s.HalosHiddenS, s.HaloBytes}, {"shuffles", s.ShufflesS, 0, s.ShuffleBytes},
		{"statistics", s.SumsS, 0, s.SumBytes}, {"gradients", s.GradientsS, s.GradientsHiddenS, s.GradientBytes}} {
		row(m.name, 1e3*m.exposed, "ms exposed, %.3f ms hidden, %.1f MiB sent by the busiest rank", 1e3*m.hidden, mib(m.bytes))
	}
	return parts
}

// time is the simulated time of the step, or the predicted one without a simulation.
func (s PlannedStep) time() float64 {
	if s.Simulated != nil {
		return s.Simulated.StepS
	}
	return s.StepS
}

// meshes are what every mesh would cost.
func (r *Result) meshes() answer.Section {
	ms, percent := func(name string) answer.Column { return answer.NumberColumn(name, "ms", "%.3f") }, answer.NumberColumn("efficiency", "%", "%.1f")
	s := answer.Section{Columns: append(answer.TextColumns("one distribution for all layers"), ms("step"), ms("simulated"), percent, ms("compute"), ms("halos"), ms("gradients"),
		answer.NumberColumn("MiB a rank", "", "%.1f"), answer.Column{Name: "fits"})}
	for _, m := range r.Meshes {
		fits := "yes"
		if !m.Fits {
			fits = "no"
		}
		var simulated any
		if m.Simulated != nil {
			simulated = 1e3 * m.Simulated.StepS
		}
		s.Rows = append(s.Rows, []any{cmp.Or(m.Mesh, "1"), 1e3 * m.StepS, simulated, 100 * m.Efficiency, 1e3 * m.ComputeS, 1e3 * m.HalosS, 1e3 * m.GradientsS, mib(m.MemoryBytes), fits})
	}
	return s
}

// shortMesh is the text of a mesh with a mark in place of its changes.
func shortMesh(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if mesh, _, changes := strings.Cut(w, "@"); changes {
			words[i] = mesh + "@"
		}
	}
	return cmp.Or(strings.Join(words, " "), "1")
}

// scaling returns the scaling curves as a table.
func (r *Result) scaling() answer.Section {
	ms, percent := answer.NumberColumn("step", "ms", "%.3f"), answer.NumberColumn("efficiency", "%", "%.1f")
	s := answer.Section{Text: []string{fmt.Sprintf("scaling, predicted: strong with batch %d, weak with a batch that grows with the ranks;", r.Batch), "@: small fields have another distribution than large ones"},
		Columns: []answer.Column{answer.NumberColumn("ranks", "", ""), {Name: "strong: mesh"}, ms, percent, {Name: "weak: mesh"}, answer.NumberColumn("batch", "", ""), ms,
			answer.NumberColumn("samples/s", "", "%.3f"), percent}}
	for _, at := range r.Scaling {
		strong, weak := []any{nil, nil, nil}, []any{nil, nil, nil, nil, nil}
		if p := at.Strong; p != nil {
			strong = []any{shortMesh(p.Mesh), 1e3 * p.StepS, 100 * p.Efficiency}
		}
		if p := at.Weak; p != nil {
			weak = []any{shortMesh(p.Mesh), at.Batch, 1e3 * p.StepS, p.SamplesS, 100 * p.Efficiency}
		}
		s.Rows = append(s.Rows, slices.Concat([]any{at.Ranks}, strong, weak))
	}
	return s
}
