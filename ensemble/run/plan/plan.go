package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// Options says which training to plan on which machine.
type Options struct {
	Config *config.TrainConfig
	// Machine is the description of the machine; nil stands for that of Config, and if it has
	// none for nodes like this one, with one rank each, whose rates are measured.
	Machine *config.MachineConfig
	Ranks   int
	Crop    setup.Crop    // size of the field; zero takes the grid of the forecast files
	Scaling bool          // also plans from one rank to scalingRanks
	Play    bool          // also plays the step on a virtual cluster
	Timings setup.Timings // of kernels here
}

// scalingRanks is up to how many ranks scaling is predicted.
const scalingRanks = 4096

// Result is what a plan predicts. Nothing in it is measured but the rates of this
// machine, where it has those.
type Result struct {
	Predicted bool    `json:"predicted"` // always true
	Network   string  `json:"network"`
	Ranks     int     `json:"ranks"`
	Batch     int     `json:"batch"`
	Machine   Machine `json:"machine"`
	// Plan is the best: that of train.mesh: auto on this machine.
	Plan PlannedStep `json:"plan"`
	// Meshes are the plans that cut all layers along the same axes, best first.
	Meshes  []PlannedStep `json:"meshes"`
	Played  *PlayedStep   `json:"played,omitempty"`
	Scaling []ScalingStep `json:"scaling,omitempty"`
}

// Machine is what steps were priced on.
type Machine struct {
	Name     string  `json:"name"`
	GFLOPs   float64 `json:"gflops"`
	GBs      float64 `json:"gb_s"`
	Memory   int64   `json:"memory_bytes"` // of a rank; 0: no limit
	PerNode  int     `json:"ranks_per_node"`
	Network  string  `json:"network"`
	Computed string  `json:"computed_by"` // where times of computing come from
}

// PlannedStep is a plan with the step that it predicts. Times of messages are those that
// computing waits for; bytes are those of the rank that has most.
type PlannedStep struct {
	Mesh       string  `json:"mesh"` // as train.mesh
	Fits       bool    `json:"fits"` // into the memory of a rank
	StepS      float64 `json:"step_s"`
	SamplesS   float64 `json:"samples_per_s"`
	Efficiency float64 `json:"efficiency"` // step of one rank / (ranks · step)
	ForwardS   float64 `json:"forward_s"`
	BackwardS  float64 `json:"backward_s"`
	OptimiserS float64 `json:"optimiser_s"`

	ComputeS         float64 `json:"compute_s"`
	HalosS           float64 `json:"halos_s"`
	HalosHiddenS     float64 `json:"halos_hidden_s"`
	ShufflesS        float64 `json:"shuffles_s"`
	SumsS            float64 `json:"sums_s"`
	GradientsS       float64 `json:"gradients_s"`
	GradientsHiddenS float64 `json:"gradients_hidden_s"`

	HaloBytes     int64 `json:"halo_bytes"`
	ShuffleBytes  int64 `json:"shuffle_bytes"`
	SumBytes      int64 `json:"sum_bytes"`
	GradientBytes int64 `json:"gradient_bytes"`
	MemoryBytes   int64 `json:"memory_bytes"` // of a rank

	Layers []PlannedLayer `json:"layers,omitempty"`
}

// PlannedLayer is the distribution of a layer.
type PlannedLayer struct {
	Name         string      `json:"name"`
	Shape        graph.Shape `json:"shape"`
	Distribution string      `json:"distribution"`
}

// PlayedStep is a step on the virtual cluster.
type PlayedStep struct {
	Network    string  `json:"network"`
	StepS      float64 `json:"step_s"`
	Efficiency float64 `json:"efficiency"` // against one rank, played too
	SentBytes  int64   `json:"sent_bytes"` // of all ranks
}

// ScalingStep is a number of ranks on the curves of scaling.
type ScalingStep struct {
	Ranks int `json:"ranks"`
	// Strong keeps the batch, Weak lets it grow with the ranks from the least number
	// whose memory holds the batch. Nil where no mesh has so many ranks, or none fits.
	Strong *PlannedStep `json:"strong"`
	Weak   *PlannedStep `json:"weak"`
	Batch  int          `json:"weak_batch"`
}

// Run predicts how a training step spreads over ranks. Nothing is trained, no field is
// read, and no rank is started.
//
// Errors: 64 for a number of ranks without a mesh and a machine that cannot be; 1 if no plan
// fits into the memory of a rank; 65 and 66 for the forecast files if their grid is needed.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Machine == nil {
		o.Machine = o.Config.Machine
	}
	if o.Ranks < 1 {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a plan for %d ranks", o.Ranks), At: "--ranks", Fix: "give 1 or more"}
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
	c.optimiser = setup.OptimiserOf(&o.Config.Train.Train)
	if err := c.price(ctx); err != nil {
		return nil, err
	}
	r := &Result{Predicted: true, Network: c.subject.Describe(grid), Ranks: o.Ranks, Batch: c.subject.Batch, Machine: c.told}
	g, n, err := c.network(c.subject.Batch)
	if err != nil {
		return nil, err
	}
	c.alone = search.Price(n, c.machine, nil).Step
	found, err := search.Search(n, o.Ranks, c.machine, search.Options{Changes: true, Runs: setup.Executes(g)})
	if err != nil {
		return nil, c.refused(err, found, n)
	}
	r.Plan = c.step(found.Best, r.Batch, o.Ranks)
	r.Plan.Layers = plannedLayers(n, found.Best)
	for _, p := range found.Meshes {
		r.Meshes = append(r.Meshes, c.step(p, r.Batch, o.Ranks))
	}
	if o.Play {
		if r.Played, err = c.play(g, found.Best.Mesh); err != nil {
			return nil, err
		}
	}
	if o.Scaling {
		if r.Scaling, err = c.scaling(ctx, n); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// planning is a training and a machine to plan it on.
type planning struct {
	o         Options
	subject   explain.Subject
	grid      *ensemble.Grid
	optimiser search.Optimiser
	machine   search.Machine
	told      Machine
	alone     cluster.Time // step on one rank
}

// network builds the step for a batch, and finds its layers.
func (c *planning) network(batch int) (*graph.Graph, search.Network, error) {
	s := c.subject
	g, err := s.Spec.Graph(&s.Task, c.grid, batch, s.Seed, true)
	if err != nil {
		return nil, search.Network{}, err
	}
	n, err := search.Layers(g, c.optimiser)
	return g, n, err
}

// price finds the machine: described, or this one.
func (c *planning) price(ctx context.Context) error {
	m := c.o.Machine
	if m == nil {
		return c.here(ctx)
	}
	c.machine = setup.Described(m)
	c.tell(m.Files()[0].Path, "FLOPs and bytes at the rates of the machine")
	if m.Network.Topology == "" {
		return nil
	}
	topology, err := cluster.Parse(m.Network.Topology, cluster.Cable{Rate: c.machine.Between.Rate})
	var e *exit.Error
	if errors.As(err, &e) {
		return m.Fault("network.topology", e.What, e.Why, e.Fix)
	}
	if nodes := (c.o.Ranks + m.Node.Ranks - 1) / m.Node.Ranks; err == nil && nodes > topology.Hosts {
		return m.Fault("network.topology", fmt.Sprintf("%d ranks need %d nodes, %s has %d", c.o.Ranks, nodes, topology.Name, topology.Hosts),
			fmt.Sprintf("a node has %d ranks", m.Node.Ranks), "describe a larger network, or plan fewer ranks")
	}
	c.told.Network = topology.Name + ", " + c.told.Network
	return err
}

// here measures this machine, and takes what its kernels have reached.
func (c *planning) here(ctx context.Context) error {
	threads := c.subject.Options.Threads
	peak, err := bench.MeasurePeak(ctx, threads)
	if err != nil {
		return err
	}
	rates := cpu.ConvRates(c.o.Timings.Open(threads))
	c.machine = setup.TypicalMachine
	c.machine.FLOPs, c.machine.Bytes = peak.Engine().FLOPs, peak.Engine().Bytes
	c.machine.Memory = doctor.MemoryHere().TotalBytes
	c.machine.Measured = func(v search.Conv) (float64, bool) {
		r, ok := rates[cpu.ConvPass(v)]
		return r, ok
	}
	c.tell("nodes like this one, one rank each (measured); network assumed",
		fmt.Sprintf("times of %d convolutions measured here, else FLOPs and bytes at the peaks", len(rates)))
	return nil
}

// tell describes the machine for the answer.
func (c *planning) tell(name, computed string) {
	m := c.machine
	c.told = Machine{Name: name, GFLOPs: m.FLOPs / 1e9, GBs: m.Bytes / 1e9, Memory: m.Memory, PerNode: max(1, m.PerNode), Computed: computed,
		Network: fmt.Sprintf("%v and %.4g GB/s a node", m.Between.Alpha, float64(m.Between.Rate)/1e9)}
	if m.PerNode > 1 {
		c.told.Network += fmt.Sprintf(", %v and %.4g GB/s inside", m.Inside.Alpha, float64(m.Inside.Rate)/1e9)
	}
}

// refused names what stops a search.
func (c *planning) refused(err error, found search.Result, n search.Network) error {
	switch {
	case errors.Is(err, search.ErrMemory):
		return setup.NoRoom(exit.No, c.o.Ranks, c.machine, found.Best, c.told.Name)
	case errors.Is(err, search.ErrMesh):
		return setup.NoMesh(c.o.Ranks, "--ranks", n)
	}
	return err
}

// step is a plan in the units of answers.
func (c *planning) step(p search.Plan, batch, ranks int) PlannedStep {
	return PlannedStep{Mesh: p.Mesh.String(), Fits: p.Fits, StepS: p.Step.Seconds(), SamplesS: float64(batch) / p.Step.Seconds(),
		Efficiency: c.alone.Seconds() / float64(ranks) / p.Step.Seconds(),
		ForwardS:   p.Forward.Seconds(), BackwardS: p.Backward.Seconds(), OptimiserS: p.Optimiser.Seconds(),
		ComputeS: p.Compute.Seconds(), HalosS: p.Halos.Seconds(), HalosHiddenS: p.HalosHidden.Seconds(), ShufflesS: p.Shuffles.Seconds(), SumsS: p.Sums.Seconds(),
		GradientsS: p.Gradients.Seconds(), GradientsHiddenS: p.GradientsHidden.Seconds(),
		HaloBytes: p.HaloBytes, ShuffleBytes: p.ShuffleBytes, SumBytes: p.SumBytes, GradientBytes: p.GradientBytes, MemoryBytes: p.Memory}
}

func plannedLayers(n search.Network, p search.Plan) []PlannedLayer {
	var all []PlannedLayer
	for v, l := range n.Layers {
		all = append(all, PlannedLayer{l.Name, l.Out, distribution(p.Layers[v])})
	}
	return all
}

// distribution names the axes that are cut: "lat/4 lon/16", and by which axis of the mesh
// where it is another.
func distribution(d graph.Dist) string {
	var words []string
	for axis, cut := range d.Cuts {
		if cut.Mesh == "" {
			continue
		}
		word := fmt.Sprintf("%s/%d", search.AxisNames[axis], len(cut.Starts))
		if (spatial.MeshAxis{Name: cut.Mesh}).Field() != axis {
			word += " (by " + cut.Mesh + ")"
		}
		words = append(words, word)
	}
	return cmp.Or(strings.Join(words, " "), "whole on every rank")
}

// cluster is the network on which steps are played.
func (c *planning) cluster() (cluster.Network, string, error) {
	m := c.machine
	var between cluster.Network = cluster.LogGP{Latency: m.Between.Alpha, Rate: m.Between.Rate}
	name := "messages that meet at the nodes only"
	if c.o.Machine != nil && c.o.Machine.Network.Topology != "" {
		topology, err := cluster.Parse(c.o.Machine.Network.Topology, cluster.Cable{Rate: m.Between.Rate})
		if err != nil {
			return nil, "", err
		}
		between, name = cluster.Fluid{Wiring: cluster.Wiring{Topology: topology, Alpha: m.Between.Alpha}}, topology.Name
	}
	return cluster.Nodes{PerNode: max(1, m.PerNode), Inside: cluster.LogGP{Latency: m.Inside.Alpha, Rate: m.Inside.Rate}, Between: between}, name, nil
}

// play runs the step of a mesh, and that of one rank, on the virtual cluster.
func (c *planning) play(g *graph.Graph, mesh spatial.Mesh) (*PlayedStep, error) {
	network, name, err := c.cluster()
	if err != nil {
		return nil, err
	}
	alone, err := search.Play(g, c.optimiser, nil, c.machine, network)
	if err != nil {
		return nil, err
	}
	p, err := search.Play(g, c.optimiser, mesh, c.machine, network)
	if err != nil {
		return nil, err
	}
	return &PlayedStep{Network: name, StepS: p.Step.Seconds(), SentBytes: p.Sent,
		Efficiency: alone.Step.Seconds() / float64(mesh.Size()) / p.Step.Seconds()}, nil
}

// scaling plans powers of two of ranks.
func (c *planning) scaling(ctx context.Context, n search.Network) ([]ScalingStep, error) {
	var all []ScalingStep
	least := 0 // ranks that hold the batch, with what a sample costs a rank there
	var base search.Plan
	for p := 1; p <= scalingRanks; p *= 2 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := ScalingStep{Ranks: p}
		found, err := search.Search(n, p, c.machine, search.Options{Changes: true})
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
			if found, err = search.Search(n.Times(p/least), p, c.machine, search.Options{Changes: true}); err == nil {
				weak := c.step(found.Best, s.Batch, p)
				weak.Efficiency = base.Step.Seconds() / found.Best.Step.Seconds()
				s.Weak = &weak
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// WriteText prints the plan: the step, what its messages cost, the layers, the
// alternatives, and the curves that were asked for.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %d ranks: PREDICTED, not measured\n", r.Network, r.Ranks)
	fmt.Fprintf(&b, "machine: %s: %.4g GFLOP/s and %.4g GB/s a rank, %s a node; %s\n", r.Machine.Name, r.Machine.GFLOPs, r.Machine.GBs, phrase.Count(r.Machine.PerNode, "rank"), r.Machine.Network)
	fmt.Fprintf(&b, "computing: %s\n\n", r.Machine.Computed)
	r.Plan.write(&b, r.Machine.Memory)
	if uniform := r.Meshes[0]; uniform.Mesh == r.Plan.Mesh {
		fmt.Fprintf(&b, "\nno plan that cuts small fields otherwise than large ones saves %.0f %%\n", 100*search.LeastGain)
	} else {
		fmt.Fprintf(&b, "\nbest mesh that cuts all layers alike: %s, step %.3f ms; the plan takes %.1f %% less\n",
			cmp.Or(uniform.Mesh, "1"), 1e3*uniform.StepS, 100*(1-r.Plan.StepS/uniform.StepS))
	}
	fmt.Fprintf(&b, "\ntrain:\n  mesh: %q\n", r.Plan.Mesh)
	if _, err := io.WriteString(w, b.String()+"\n"); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "layer\tresult\tdistribution")
	for _, l := range r.Plan.Layers {
		fmt.Fprintf(t, "%s\t%v\t%s\n", l.Name, l.Shape, l.Distribution)
	}
	fmt.Fprintln(t)
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.writeMeshes(w); err != nil {
		return err
	}
	if p := r.Played; p != nil {
		if _, err := fmt.Fprintf(w, "\nplayed on a virtual cluster (%s), predicted: step %.3f ms, efficiency %.1f %%, %.1f MiB sent by all ranks\n",
			p.Network, 1e3*p.StepS, 100*p.Efficiency, mib(p.SentBytes)); err != nil {
			return err
		}
	}
	return r.writeScaling(w)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// write prints a step with all its parts.
func (s PlannedStep) write(b *strings.Builder, memory int64) {
	fmt.Fprintf(b, "best plan: mesh %s\n", cmp.Or(s.Mesh, "1"))
	fmt.Fprintf(b, "  step        %10.3f ms: forward %.3f, backward %.3f, optimiser %.3f, gradients behind %.3f\n",
		1e3*s.StepS, 1e3*s.ForwardS, 1e3*s.BackwardS, 1e3*s.OptimiserS, 1e3*s.GradientsS)
	fmt.Fprintf(b, "  rate        %10.3f samples/s, efficiency %.1f %%\n", s.SamplesS, 100*s.Efficiency)
	fmt.Fprintf(b, "  memory      %10.1f MiB a rank", mib(s.MemoryBytes))
	if memory > 0 {
		fmt.Fprintf(b, ", of %.1f", mib(memory))
	}
	b.WriteByte('\n')
	for _, m := range []struct {
		name            string
		exposed, hidden float64
		bytes           int64
	}{{"halos", s.HalosS, s.HalosHiddenS, s.HaloBytes}, {"shuffles", s.ShufflesS, 0, s.ShuffleBytes},
		{"statistics", s.SumsS, 0, s.SumBytes}, {"gradients", s.GradientsS, s.GradientsHiddenS, s.GradientBytes}} {
		fmt.Fprintf(b, "  %-11s %10.3f ms waited for, %.3f ms hidden, %.1f MiB of the busiest rank\n", m.name, 1e3*m.exposed, 1e3*m.hidden, mib(m.bytes))
	}
}

// writeMeshes prints what every mesh would cost.
func (r *Result) writeMeshes(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "all layers cut alike\tstep ms\tefficiency %\tcompute ms\thalos ms\tgradients ms\tMiB a rank\tfits\t")
	for _, s := range r.Meshes {
		fits := "yes"
		if !s.Fits {
			fits = "no"
		}
		fmt.Fprintf(t, "%s\t%.3f\t%.1f\t%.3f\t%.3f\t%.3f\t%.1f\t%s\t\n", cmp.Or(s.Mesh, "1"), 1e3*s.StepS, 100*s.Efficiency, 1e3*s.ComputeS, 1e3*s.HalosS, 1e3*s.GradientsS, mib(s.MemoryBytes), fits)
	}
	return t.Flush()
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

// writeScaling prints the curves.
func (r *Result) writeScaling(w io.Writer) error {
	if r.Scaling == nil {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\nscaling, predicted: strong with batch %d, weak with a batch that grows with the ranks;\n@: small fields are cut otherwise than large ones\n", r.Batch); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ranks\tstrong: mesh\tstep ms\tefficiency %\tweak: mesh\tbatch\tstep ms\tsamples/s\tefficiency %\t")
	for _, s := range r.Scaling {
		strong, weak := []string{"-", "-", "-"}, []string{"-", "-", "-", "-", "-"}
		if p := s.Strong; p != nil {
			strong = []string{shortMesh(p.Mesh), fmt.Sprintf("%.3f", 1e3*p.StepS), fmt.Sprintf("%.1f", 100*p.Efficiency)}
		}
		if p := s.Weak; p != nil {
			weak = []string{shortMesh(p.Mesh), fmt.Sprint(s.Batch), fmt.Sprintf("%.3f", 1e3*p.StepS), fmt.Sprintf("%.3f", p.SamplesS), fmt.Sprintf("%.1f", 100*p.Efficiency)}
		}
		fmt.Fprintf(t, "%d\t%s\t\n", s.Ranks, strings.Join(slices.Concat(strong, weak), "\t"))
	}
	return t.Flush()
}
