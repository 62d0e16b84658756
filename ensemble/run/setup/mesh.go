package setup

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/topk"
)

// ArrangeOnMesh arranges a team on the configured mesh, or on the fastest one for its fields, and assigns every
// rank its slab. With a pipeline it divides the layers over the team instead.
//
// Errors: exit 64 for a mesh with fewer ranks than processes, and for a pipeline that does not suit ranks or network.
func ArrangeOnMesh(ctx context.Context, t *team.Team, c *config.TrainConfig, grid *ensemble.Grid) error {
	if c.Train.Train.Pipeline.IsEnabled() {
		return arrangePipeline(ctx, t, c, grid)
	}
	if t == nil {
		return checkExchange(c, nil, 1)
	}
	t.ShardedOptimiser = c.Train.Train.ShardOptimizer && t.Comm.Size() > 1
	n := t.Comm.Size()
	var err error
	if text := c.Train.Train.Mesh; text != "" && text != autoMesh {
		t.Mesh, err = spatial.ParseMesh(text)
	} else {
		t.Mesh, err = fastestMesh(ctx, t, c, grid)
	}
	if err != nil {
		return err
	}
	if t.Mesh.Size() != n {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a mesh of %d ranks (%v) in a job of %d processes", t.Mesh.Size(), t.Mesh, n), At: TrainMesh.At,
			Why: "every process needs a rank of the mesh", Fix: fmt.Sprintf("start %s, or add %s", humanise.Count(t.Mesh.Size(), "process"), TrainMesh.typed(nil))}
	}
	if err := checkExchange(c, t.Mesh, n); err != nil {
		return err
	}
	sizes, err := NewSizes(c, grid)
	if err != nil {
		return err
	}
	if err := sizes.CheckMesh(t.Mesh, c.Train.Train.BatchSize); err != nil {
		return err
	}
	t.Compression = CompressionOf(&c.Train.Train)
	return AssignSlabs(t, SpecOf(c), TaskOf(c), grid, c.Train.Train.BatchSize, TrainMesh)
}

// CompressionOf returns the sparse sums of gradients of a training; nil for dense ones. Its density is that after the
// warm-up.
func CompressionOf(c *config.Training) *spatial.Compression {
	k := c.Compression
	if !k.IsEnabled() {
		return nil
	}
	return &spatial.Compression{Options: topk.Options{Density: k.Density, BFloat16: k.Values == config.BFloat16Values,
		Momentum: float32(k.Momentum), Clip: float32(k.Clip), Updates: c.SumsUpdates()}}
}

// checkExchange refuses sparse sums of gradients, and late ones, on meshes on which ranks with different samples cannot
// exchange them.
//
// Errors: exit 64 with the nearest setting that works.
func checkExchange(c *config.TrainConfig, m spatial.Mesh, ranks int) error {
	t := &c.Train.Train
	if t.Compression.IsEnabled() {
		if err := checkDataAxis(c, m, ranks, "train.compression", "train.compression.density"); err != nil {
			return err
		}
	}
	if !t.Exchange.IsEnabled() {
		return nil
	}
	const section = "train.exchange"
	if err := checkDataAxis(c, m, ranks, section, section+".system"); err != nil {
		return err
	}
	groups := m.DataRanks()
	if t.BatchSize%groups != 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s with batches of %s in %d groups", section, humanise.Count(t.BatchSize, "sample"), groups), At: "train.batch_size",
			Why: "all groups compute equally many samples", Fix: fmt.Sprintf("set train.batch_size: %d", (t.BatchSize/groups+1)*groups)}
	}
	if t.Exchange.System != config.WAGMAExchange {
		return nil
	}
	if groups&(groups-1) != 0 {
		low := 1 << (bits.Len(uint(groups)) - 1)
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s.system: %s with %d data ranks", section, config.WAGMAExchange, groups), At: TrainMesh.At,
			Why: "the models that are averaged in a step are those of ranks that differ in some bits of their numbers", Fix: fmt.Sprintf("use data:%d or data:%d", low, 2*low)}
	}
	if t.Exchange.Group > groups {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("averages of %d models with %d data ranks", t.Exchange.Group, groups), At: section + ".group",
			Why: "each data rank has one model", Fix: fmt.Sprintf("set %s.group: %d", section, groups)}
	}
	return nil
}

// SplitSamples returns the groups of ranks that take steps by themselves, with their slabs; nil if all ranks take every step
// together.
//
// Errors: exit 64 for a mesh that does not suit the network.
func SplitSamples(t *team.Team, c *config.TrainConfig, grid *ensemble.Grid) (*team.SampleGroups, error) {
	if !c.Train.Train.Exchange.IsEnabled() {
		return nil, nil
	}
	g, err := t.SplitSamples()
	if err != nil {
		return nil, err
	}
	return g, AssignSlabs(g.Own, SpecOf(c), TaskOf(c), grid, c.Train.Train.BatchSize/g.Count(), TrainMesh)
}

// checkDataAxis refuses a mesh without a data axis of several ranks, for a section of the configuration that needs it.
//
// Errors: exit 64.
func checkDataAxis(c *config.TrainConfig, m spatial.Mesh, ranks int, section, at string) error {
	if m.HasDataRanks() {
		return nil
	}
	if ranks == 1 {
		return &exit.Error{Code: exit.Usage, What: section + " on one rank", At: at, Why: "there is no exchange of gradients",
			Fix: "start several ranks, or add --set train.mesh=data:2, or remove " + section}
	}
	fix := "remove " + section
	if ranks <= c.Train.Train.BatchSize {
		fix = fmt.Sprintf("add --set train.mesh=data:%d, or ", ranks) + fix
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s on mesh %q", section, fmt.Sprint(m)), At: at,
		Why: "ranks with different samples exchange gradients, and the mesh has no data axis of several ranks", Fix: fix}
}

// MeshOption is where a user sets a mesh.
type MeshOption struct {
	At    string // name of the key or flag, for errors
	flag  string // format of the flag, with the mesh
	none  string // mesh of that flag for one rank
	batch string // format of the flag for the number of samples in a batch; "" if it cannot be set
}

// The options with meshes.
var (
	TrainMesh   = MeshOption{"train.mesh", "--set %q", autoMesh, "--set train.batch_size=%d"}
	PredictMesh = MeshOption{"--mesh", "--mesh %q", "lat:1", ""}
	BenchMesh   = MeshOption{"--mesh", "--mesh %q", "lat:1", "--batch %d"}
)

// typed returns the option with a mesh as a user types it.
func (o MeshOption) typed(m spatial.Mesh) string {
	text := cmp.Or(m.String(), o.none)
	if o == TrainMesh {
		text = o.At + "=" + text
	}
	return fmt.Sprintf(o.flag, text)
}

// CheckMesh refuses a mesh that does not suit the fields of a graph of n samples, in a job of a number of processes. A nil
// graph leaves the fields unchecked.
//
// Errors: exit 64 with the nearest mesh that does.
func (o MeshOption) CheckMesh(g *graph.Graph, m spatial.Mesh, n, processes int) error {
	f := spatial.FindMisfit(g, m, n)
	if f == nil {
		return nil
	}
	fix := "give " + o.typed(f.Mesh)
	if f.Axis == spatial.DataAxis && o.batch != "" {
		i := slices.IndexFunc(m, func(a spatial.MeshAxis) bool { return a.Name == f.Axis })
		fix = fmt.Sprintf("give "+o.batch+", or %s", m[i].Size, o.typed(f.Mesh))
	}
	if ranks := f.Mesh.Size(); ranks < processes && team.IsLaunched() {
		fix += " with " + humanise.Count(ranks, "process")
	} else if ranks < processes {
		fix += fmt.Sprintf(" --ranks %d", ranks)
	}
	return &exit.Error{Code: exit.Usage, What: f.What, At: o.At, Why: f.Why, Fix: fix}
}

// fastestMesh returns the mesh that rank 0 predicts to be fastest.
func fastestMesh(ctx context.Context, t *team.Team, c *config.TrainConfig, grid *ensemble.Grid) (spatial.Mesh, error) {
	var text string
	var err error
	if t.IsRoot() {
		text, err = fastestMeshText(ctx, t.Comm.Size(), c, grid)
	}
	if err := t.AgreeOnError(err); err != nil {
		return nil, err
	}
	if text, err = team.Broadcast(t, text); err != nil {
		return nil, err
	}
	return spatial.ParseMesh(text)
}

// fastestMeshText returns the mesh of a number of ranks as text.
func fastestMeshText(ctx context.Context, ranks int, c *config.TrainConfig, grid *ensemble.Grid) (string, error) {
	k := PlaceholderTask(TaskOf(c))
	g, err := SpecOf(c).Graph(&k, grid, c.Train.Train.BatchSize, uint64(c.Train.Train.Seed), true)
	if err != nil {
		return "", err
	}
	o, err := OptimiserOf(&c.Train.Train, g)
	if err != nil {
		return "", err
	}
	m, err := FastestMesh(ctx, g, MachineOf(c), ranks, o, "train.mesh")
	return m.String(), err
}

// AssignSlabs assigns every rank of a team its slab of a network's fields, as the network will be divided for
// batches of n samples. o is where the mesh was set.
//
// Errors: exit 64 for a mesh that does not suit the network.
func AssignSlabs(t *team.Team, s network.Spec, k task.Task, g *ensemble.Grid, n int, o MeshOption) error {
	if t == nil {
		return nil
	}
	if k.ErrorScale == nil {
		k = PlaceholderTask(k)
	}
	gr, err := s.Graph(&k, g, n, 0, true)
	if err != nil {
		return err
	}
	if err := o.CheckMesh(gr, t.Mesh, n, team.ProcessCount(t.Comm)); err != nil {
		return err
	}
	return t.AssignShards(gr, g, n)
}

// MeshRanks is the number of ranks of a mesh; 0: equal to the number of processes.
//
// Errors: exit 64 for an invalid mesh.
func MeshRanks(mesh string) (int, error) {
	if mesh == "" || mesh == autoMesh {
		return 0, nil
	}
	m, err := spatial.ParseMesh(mesh)
	return m.Size(), err
}

// maxHosted is the largest number of ranks of a process: each has buffers and a copy of the parameters.
const maxHosted = 256

// HostedRanks is the number of ranks of a training's mesh or pipeline, which its processes host; 0: equal to the number of
// processes.
//
// Errors: exit 64 for an invalid mesh, for more ranks along data than samples in a batch, for more ranks than processes
// can host, and for an invalid pipeline.
func HostedRanks(c *config.TrainConfig, processes int) (int, error) {
	if c.Train.Train.Pipeline.IsEnabled() {
		return hostedStages(&c.Train.Train, processes)
	}
	n, err := MeshRanks(c.Train.Train.Mesh)
	if err != nil || n == 0 {
		return 0, err
	}
	m, err := spatial.ParseMesh(c.Train.Train.Mesh)
	if err != nil {
		return 0, err
	}
	if err := cmp.Or(TrainMesh.CheckMesh(nil, m, c.Train.Train.BatchSize, processes), checkExchange(c, m, n)); err != nil {
		return 0, err
	}
	if n > maxHosted*processes {
		return 0, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the mesh %q has %d ranks, %s can host %d", m, n, humanise.Count(processes, "process"), maxHosted*processes), At: TrainMesh.At,
			Why: "every rank has its own parameters and buffers", Fix: fmt.Sprintf("start %s or more, or give %s", humanise.Count((n+maxHosted-1)/maxHosted, "process"), TrainMesh.typed(nil))}
	}
	return n, nil
}

// DescribeRanks describes the number of ranks, and of the processes that host them if it differs.
func DescribeRanks(processes, ranks int) string {
	if ranks == processes {
		return humanise.Count(ranks, "rank")
	}
	return fmt.Sprintf("%s on %s", humanise.Count(ranks, "rank"), humanise.Count(processes, "process"))
}
