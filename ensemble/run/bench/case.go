package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Networks that `ensemble bench` measures.
var (
	BenchUNet3D     = unet3d.UNetKind.Name
	BenchResNet2D   = unet3d.ResNetKind.Name
	BenchUNet2D     = unet3d.UNet2DKind.Name
	BenchFactorised = unet3d.FactorisedKind.Name
)

// benchLeads is the number of leads of networks that have them in rows: as many rows for each sample.
const benchLeads = 3

// benchStages is the number of halvings of the grid in networks that are not published with one.
const benchStages = 3

// Models lists the networks, the default first.
var Models = []string{BenchUNet3D, BenchResNet2D, BenchUNet2D, BenchFactorised}

// Channels is the number of input channels of the published networks.
const Channels = 42

// TrainPasses is the number of forward passes that a training step counts as: forward, gradient of the input,
// gradient of the filters.
const TrainPasses = 3

// benchRate is the learning rate of the measured training steps.
const benchRate = 1e-4

// benchPrecisions maps names of precisions to those of the engine.
var benchPrecisions = map[string]string{"float32": "f32", "bf16": "bf16", "bf16_products": "bf16_products", "f16": "f16", "tf32": "tf32"}

// Case is one network on one field size.
type Case struct {
	Model     string     `json:"model"`
	Base      int        `json:"base"` // width of the first stage
	Crop      setup.Crop `json:"crop"`
	Batch     int        `json:"batch"`            // samples per step
	Depth     int        `json:"depth"`            // levels
	Threads   int        `json:"threads"`          // 0: all cores
	Device    string     `json:"device,omitempty"` // "cpu" (also if empty), "cuda" or "auto"
	Precision string     `json:"precision"`
	Periodic  bool       `json:"periodic,omitempty"` // longitudes wrap around
	// Operations is the fraction of the FLOPs that remains after channels were removed; each layer keeps a
	// multiple of Multiple. 0 removes none.
	Operations float64 `json:"operations,omitempty"`
	Multiple   int     `json:"multiple,omitempty"`
	// Without lists optional compiler passes to leave out, separated by commas.
	Without string `json:"without,omitempty"`
	// MemoryBytes limits arena and workspaces together; 0: no limit.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// WorkspaceBytes limits the workspaces; 0: no limit.
	WorkspaceBytes int64 `json:"workspace_bytes,omitempty"`
	// OffloadFolder is that of engine.Memory; "": none.
	OffloadFolder string `json:"offload_folder,omitempty"`
}

// String describes the case.
func (k Case) String() string {
	name := fmt.Sprintf("%s base %d, crop %v, batch %d, depth %d, %s, threads %d", k.Model, k.Base, k.Crop, k.Batch, k.Depth, k.Precision, k.Threads)
	if k.Device != "" && k.Device != "cpu" {
		name += ", device " + k.Device
	}
	if k.Without != "" {
		name += ", without " + strings.ReplaceAll(k.Without, ",", ", ")
	}
	if k.Operations > 0 {
		name += fmt.Sprintf(", %g of the operations", k.Operations)
	}
	return name
}

// check completes a case.
//
// Errors: exit 64 for an invalid network; 69 for a precision or device that the engine lacks.
func (k *Case) check() error {
	bad := func(what, why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: k.String(), Why: why, Fix: fix}
	}
	if k.Model == "" {
		k.Model = BenchUNet3D
	}
	if k.Precision == "" {
		k.Precision = "float32"
	}
	k.Threads = network.Threads(k.Threads)
	if k.Depth == 0 {
		k.Depth = 2
		if k.Model != BenchUNet3D {
			k.Depth = 1
		}
	}
	switch {
	case !slices.Contains(Models, k.Model):
		fix := "give " + strings.Join(Models, " or ")
		if near := nearest.Find(k.Model, Models); near != "" {
			fix = "did you mean `" + near + "`?"
		}
		return bad(fmt.Sprintf("unknown model %q", k.Model), "", fix)
	case k.Base < 1 || k.Batch < 1 || k.Depth < 1 || k.Operations < 0 || k.Operations > 1 || k.Multiple < 0 || k.Crop.Height < 1 || k.Crop.Width < 1 || k.MemoryBytes < 0 || k.WorkspaceBytes < 0:
		return bad("invalid size of a case", "base, crop, batch and depth must be at least 1", "give positive numbers")
	case k.OffloadFolder != "" && k.MemoryBytes == 0:
		return bad("a folder for activations without a memory limit", "without a limit all activations stay in memory", "add --memory, for example --memory 1GiB")
	case benchPrecisions[k.Precision] == "":
		return &exit.Error{Code: exit.NoDevice, What: fmt.Sprintf("precision %s is not available", k.Precision), At: k.String(),
			Why: "the engine does not support it", Fix: "give --precision float32, bf16, bf16_products, f16 or tf32"}
	}
	if _, err := k.graph(true); err != nil {
		fix := "give rows and columns that divide by 32"
		if k.Model == BenchResNet2D {
			fix = "give a base that divides by 4, and depth 1"
		}
		return k.named(err, fix)
	}
	return nil
}

// graph builds the network on pseudo-random fields; for training with mean absolute error as loss.
func (k Case) graph(train bool) (*graph.Graph, error) {
	b := graph.New(1)
	kind := unet3d.KindByName(k.Model)
	rows := k.Batch
	if kind.SpansLeads() {
		rows *= benchLeads
	}
	x := b.Input("x", graph.Shape{rows, Channels, k.Depth, k.Crop.Height, k.Crop.Width})
	var y graph.Value
	switch k.Model {
	case BenchResNet2D:
		// Base 32: the published network.
		widths := []int{2 * k.Base, 3 * k.Base, 4 * k.Base, 5 * k.Base, 7 * k.Base}
		y = unet3d.ResNet2D{Widths: widths, Periodic: k.Periodic, Reinject: unet3d.PublishedReinject}.Build(b, x)
	case BenchUNet3D:
		y = unet3d.UNet{Base: k.Base, Periodic: k.Periodic}.Build(b, x)
	default:
		y = kind.Build(b, x, unet3d.Layout{Base: k.Base, Stages: benchStages, Levels: unet3d.SharedLevels, Periodic: k.Periodic, Out: 1, Leads: benchLeads})
	}
	b.Output("y", y)
	if train {
		b.Loss(op.L1(b, y, b.Input("target", y.Shape())))
	}
	g, err := b.Build()
	if err != nil || k.Operations == 0 {
		return g, err
	}
	c := channels.Find(g)
	kept, err := c.Choose(channels.Goal{FLOPFraction: k.Operations, Multiple: k.Multiple}, c.EqualScores())
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the pruning target cannot be reached", Why: err.Error(), Fix: "give a larger --operations or a smaller --channel-multiple", Err: err}
	}
	g, _, err = c.Shrink(kept)
	return g, err
}

// FLOPs is the useful work of one forward pass: twice the multiplications of the convolutions, without taps
// on the padding in depth. A training step counts TrainPasses times as much.
//
// Errors: ErrShape if the case is invalid.
func (k Case) FLOPs() (int64, error) {
	g, err := k.graph(false)
	if err != nil {
		return 0, err
	}
	return UsefulFLOPs(g), nil
}

// UsefulFLOPs is the work of a graph's contractions.
func UsefulFLOPs(g *graph.Graph) (sum int64) {
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && engine.ClassOf(g, n) == engine.Contraction {
			sum += n.Op.FLOPs(g.InShapes(n), n.Shape, n.Attrs)
		}
	}
	return sum
}

// Step is a compiled case that can be run repeatedly.
type Step struct {
	of   Case
	plan *engine.Plan
	opt  *optim.Optimizer // nil for prediction
	n    uint64
}

// FLOPs is the useful work of one Run; see Case.FLOPs.
func (s *Step) FLOPs() (int64, error) {
	n, err := s.of.FLOPs()
	if s.opt != nil {
		n *= TrainPasses
	}
	return n, err
}

// Compile compiles a training step or a prediction of the case with the options of training and prediction;
// profile measures every kernel. Input and target are random numbers, the same in every process.
//
// Errors: those of engine.Compile: exit 64 and 69.
func (k Case) Compile(train, profile bool) (*Step, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	return k.compile(train, k.Options(profile))
}

// Options returns the engine options of all plans, with the memory limits of the case; profile measures every
// kernel.
func (k Case) Options(profile bool) engine.Options {
	o := network.Options(k.Threads, k.Device)
	o.Memory.Limit, o.Memory.OffloadFolder, o.Workspace = k.MemoryBytes, k.OffloadFolder, k.WorkspaceBytes
	o.Precision, o.Profile, o.Without = benchPrecisions[k.Precision], profile, k.passes()
	return o
}

// compile compiles the case with engine options.
func (k Case) compile(train bool, o engine.Options) (*Step, error) {
	g, err := k.graph(train)
	if err != nil {
		return nil, err
	}
	if !train {
		o.Mode = engine.Infer
	}
	plan, err := engine.Compile(g, o)
	if err != nil {
		return nil, k.named(setup.NameMemoryLimit(err, setup.FlagMemory, setup.FlagWorkspace), "")
	}
	s := &Step{of: k, plan: plan}
	if train {
		if s.opt, err = optim.New(plan.Store(), optim.Options{Threads: k.Threads}); err != nil {
			return nil, errors.Join(err, plan.Close())
		}
	}
	s.draw(0)
	return s, nil
}

// draw fills input and target with random numbers of stream n.
func (s *Step) draw(n uint64) {
	r := rand.New(rand.NewPCG(1, 2+n))
	for i := range s.plan.Input("x") {
		s.plan.Input("x")[i] = float32(r.NormFloat64())
	}
	for i := range s.plan.Input("target") {
		s.plan.Input("target")[i] = r.Float32()
	}
}

// named replaces the source line in an engine error by the case, and its remedy by fix if that is not empty.
func (k Case) named(err error, fix string) error {
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	copied := *e
	copied.At, copied.Fix = k.String(), cmp.Or(fix, e.Fix)
	return &copied
}

// Run runs one step: a training step with gradients, loss and Adam's update, or one prediction.
func (s *Step) Run(ctx context.Context) error {
	if err := s.plan.Run(ctx, s.n); err != nil {
		return err
	}
	s.n++
	if s.opt == nil {
		return nil
	}
	_, err := s.opt.Step(benchRate)
	return err
}

// Close frees plan and optimiser.
func (s *Step) Close() error {
	err := s.plan.Close()
	if s.opt != nil {
		err = errors.Join(err, s.opt.Close())
	}
	return err
}
