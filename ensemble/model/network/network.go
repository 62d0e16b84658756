package network

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Spec describes a network apart from its task. In JSON the embedded parts and the head are one
// object.
type Spec struct {
	BodySpec
	MembersSpec
	LeadsSpec
	Head HeadSpec `json:"head"`
	// Precision is the storage type of fields inside the network, as in engine.Options; empty means
	// "f32".
	Precision string `json:"precision,omitempty"`
	// Method is the training method: empty for one network that is trained at once, or
	// config.StagesMethod. Then Bias describes the network of the first stage, and the other fields
	// those of the later stages.
	Method config.Method `json:"method,omitempty"`
	Bias   BiasSpec      `json:"bias,omitzero"`
	// SpreadLoss is the loss of the stage that predicts the spread.
	SpreadLoss config.Loss `json:"spread_loss,omitempty"`
	// Reference is the baseline that the network corrects, as in model.reference; empty for none.
	Reference string `json:"reference,omitempty"`

	// Kept lists the remaining channels of layers from which channels were removed.
	Kept []channels.Kept `json:"kept,omitempty"`

	// Sharing selects how layers share parameters; the zero value means no sharing.
	Sharing sharing.Options `json:"sharing,omitzero"`
	// TeacherWeight is the weight of the distance to a teacher in the loss, 0 to 1.
	TeacherWeight float64 `json:"-"`

	stage       Stage            // stage whose network and loss are built
	memberCount int              // members of a sample, for networks that read members; 0 means those of the task
	window      config.FieldSize // rows and columns that a training step sees; zero means the whole grid
}

// BodySpec describes the body of a network, which computes features from the input.
type BodySpec struct {
	Kind     string  `json:"kind"`             // as model.kind
	Height   string  `json:"height,omitempty"` // as unet3d.Levels; empty means shared
	Base     int     `json:"base"`
	Stages   int     `json:"stages"`
	Dropout  float64 `json:"dropout"`
	Periodic bool    `json:"periodic"`
	// Embedding is the number of trained fields in the input.
	Embedding int `json:"embedding,omitempty"`
	// Auxiliary is the number of constant auxiliary fields in the input.
	Auxiliary int `json:"auxiliary_fields,omitempty"`
	// Recurrent holds the options of recurrent cells, for networks that have them.
	Recurrent unet3d.Recurrent `json:"recurrent,omitzero"`
	// Axial holds the options of axial attention, for networks that have it.
	Axial unet3d.Axial `json:"axial,omitzero"`
}

// MembersSpec describes how the network reads members.
type MembersSpec struct {
	// Members is as model.members; empty means statistics of members. Pool and Encoder describe the
	// member encoder.
	Members string `json:"members,omitempty"`
	Pool    string `json:"pool,omitempty"`
	Encoder int    `json:"encoder_channels,omitempty"`
	// Attention is as unet3d.AttentionWeights, for attention over members.
	Attention string `json:"attention,omitempty"`
}

// LeadsSpec describes how the network reads leads.
type LeadsSpec struct {
	// Leads is as model.lead_axis; empty means leads in channels. Conditions is as model.conditions,
	// for leads in rows.
	Leads      string   `json:"leads,omitempty"`
	Conditions []string `json:"conditions,omitempty"`
}

// BiasSpec describes the network of the first of three stages, which corrects the bias.
type BiasSpec struct {
	Base   int     `json:"base"`
	Stages int     `json:"stages"`
	Local  int     `json:"local"`  // window size of the locally connected layer; 0 for none
	Smooth float64 `json:"smooth"` // weight of its roughness in the loss
	Folds  int     `json:"folds"`  // blocks of years for cross-fitting
}

// Weights of the mixed loss of the published spread network: 0.16 L1 + 0.84 (1 − MS-SSIM).
const (
	mixL1   = 0.16
	mixSSIM = 0.84
)

// Graph builds the network for a batch of n samples on a grid, with its loss if requested. The
// outputs are the same with and without loss.
//
// Errors: an unknown kind; options and sizes that do not match each other.
func (s Spec) Graph(k *task.Task, g *ensemble.Grid, n int, seed uint64, loss bool) (*graph.Graph, error) {
	b := graph.New(seed)
	d, v := len(k.Features.Axes.Levels), len(k.Targets)
	g, maps := s.windowOf(g)
	targets := graph.Shape{n, v, d, g.NY, g.NX}
	in := unet3d.CalibratedInput{
		Features: b.Input("features", graph.Shape{n, k.Features.Channels(), d, g.NY, g.NX}),
		Spread:   b.Input("spread", targets),
		Anomaly:  b.Input("anomaly", targets),
		Season:   b.Input("season", graph.Shape{n, ensemble.SeasonChannels, 1, 1, 1}),
	}
	if s.Reference != "" {
		in.ReferenceShift, in.ReferenceSigma = b.Input("reference_shift", targets), b.Input("reference_sigma", targets)
		in.Features = op.Concat(b, 1, in.Features, in.ReferenceShift, in.ReferenceSigma)
	}
	if s.Embedding > 0 {
		in.Features = unet3d.Embedding(b, in.Features, s.Embedding)
	}
	wrap := s.Periodic && g.Periodic()
	if s.PredictsMembers() {
		s.memberGraph(b, k, in.Features, in.Season, wrap, targets, loss)
		return s.buildShrunk(b)
	}
	if s.ReadsMembers() {
		in.Features = s.joinMembers(b, k, in.Features, wrap)
	}
	var out unet3d.CalibratedOutput
	var roughness graph.Value
	kind := s.NetworkKind()
	switch {
	case kind == nil:
		return nil, fmt.Errorf("network: unknown kind %q: %w", s.Kind, graph.ErrShape)
	case s.stage == BiasStage:
		net := unet3d.Correction{UNet: unet3d.BiasUNet{Base: s.Bias.Base, Stages: s.Bias.Stages, Periodic: wrap}, Local: s.Bias.Local}
		out.Shift, roughness = net.Build(b, in.Features, in.Anomaly)
	case kind.SingleField:
		out.Spread = s.toErrorUnits(b, kind.Build(b, in.Features, s.spreadLayout(k, wrap)), k)
		if s.Staged() {
			out.Sigma = unet3d.SoftFloor(b, out.Spread)
		}
	default:
		scale, affine := make([]float64, v*d), make([][2]float64, v*d)
		for i := range scale {
			scale[i] = k.SpreadScale[i] / k.ErrorScale[i]
			affine[i] = [2]float64{k.SpreadAffine[i][0] / k.ErrorScale[i], k.SpreadAffine[i][1]}
		}
		body := kind.Body(s.layout(wrap))
		if s.HasLeadRows() {
			body = s.rowsBody(k, wrap)
		}
		net := unet3d.Calibrated{
			Body: body, NoMaps: kind.Baseline, MapGrid: maps,
			SpreadAffine: affine, SpreadScale: scale, SpreadOnly: s.Head.Spread != nil || s.Staged(), SigmaFromSpread: s.Staged(),
			Extra: s.ExtraOutputs(),
		}
		out = net.Build(b, in)
	}
	give := map[string]graph.Value{OutSpread: out.Spread, OutShift: out.Shift, OutSigma: out.Sigma}
	h := headOutputs{parameters: []graph.Value{out.Shift, out.Sigma}}
	if s.readsCentre() {
		h.centre = b.Input("centre", targets)
	}
	if s.Head.Distribution.isLinked() {
		var given []graph.Value
		h.parameters, given = s.linkParameters(b, k, out, h.centre)
		for i, name := range s.ParameterNames() {
			give[name] = given[i]
		}
	}
	for _, name := range s.Outputs() {
		b.Output(name, give[name])
	}
	switch {
	case loss && s.Staged():
		b.Loss(s.stageLoss(b, k, out, roughness, targets))
	case loss:
		b.Loss(s.loss(b, k, out, h, targets))
	}
	return s.buildShrunk(b)
}

// Check refuses a spec with an unknown kind, without head, or with a head or arrangement of leads
// that the kind does not support.
func (s Spec) Check() error {
	switch kind := s.NetworkKind(); {
	case kind == nil:
		return fmt.Errorf("unknown kind of network %q", s.Kind)
	case s.PredictsMembers() && !kind.PredictsMembers(), !s.PredictsMembers() && kind.UsesAttention():
		return fmt.Errorf("network %q does not support the head %q", s.Kind, s.Head.Name())
	case s.HasLeadRows() && kind.Leads == unet3d.LeadsInChannels, !s.HasLeadRows() && kind.SpansLeads():
		return fmt.Errorf("network %q does not support leads in %q", s.Kind, cmp.Or(s.Leads, config.ChannelLeads))
	}
	return s.Head.Check()
}

// NetworkKind is the kind of the network; nil if the name is unknown.
func (s Spec) NetworkKind() *unet3d.Kind { return unet3d.KindByName(s.Kind) }

// layout is the size of the network, with independent rows.
func (s Spec) layout(wrap bool) unet3d.Layout {
	return unet3d.Layout{Base: s.Base, Stages: s.Stages, Dropout: s.Dropout, Levels: unet3d.Levels(s.Height), Periodic: wrap,
		Attention: unet3d.AttentionWeights(s.Attention), Recurrent: s.Recurrent, Axial: s.Axial}
}

// spreadLayout is the layout of a network that predicts one spread field on one level, in units of
// the spread scale. It locates the channels that this network reads by name.
func (s Spec) spreadLayout(k *task.Task, wrap bool) unet3d.Layout {
	f, l := &k.Features, s.layout(wrap)
	// The channels of an aggregate are contiguous at each lead.
	of := func(a ensemble.Aggregate) (out [][2]int) {
		if !slices.Contains(f.Aggregates, a) {
			return nil
		}
		for _, lead := range f.Axes.Leads {
			c := f.Channel(lead, a, f.Axes.Variables[0])
			out = append(out, [2]int{c, c + len(f.Axes.Variables)})
		}
		return out
	}
	lead, variable := k.TargetAt(0)
	l.Out, l.Spread = 1, unet3d.SpreadChannels{Spreads: of(ensemble.UsedSpread), Members: of(ensemble.FirstMember), Target: lead*len(f.Axes.Variables) + variable}
	return l
}

// Names of the outputs, in units of the error scale.
const (
	OutSpread = "spread"
	OutShift  = "shift"
	OutSigma  = "sigma"
)

// Outputs lists the outputs of the network.
func (s Spec) Outputs() []string {
	switch {
	case s.PredictsMembers():
		return []string{OutMembers}
	case s.stage == BiasStage:
		return []string{OutShift}
	case s.Staged():
		return []string{OutSpread, OutSigma}
	case s.Head.Distribution.isLinked():
		return append([]string{OutSpread}, s.ParameterNames()...)
	case s.Head.Distribution != nil:
		return []string{OutSpread, OutShift, OutSigma}
	}
	return []string{OutSpread}
}

// toErrorUnits converts the output of a one-field network from units of the spread scale to those of
// the error scale.
func (s Spec) toErrorUnits(b *graph.Builder, y graph.Value, k *task.Task) graph.Value {
	return op.Scale(b, y, k.SpreadScale[0]/k.ErrorScale[0])
}

// loss is the training loss, in units of the error scale:
//
//	mean of the score                            head distribution
//	  + TeacherWeight·(distance to the teacher − score)   with a teacher
//	  + SpreadWeight·MSE of the spread            if set
//	loss of the spread                           head spread
//
// Means are weighted with the weights of the batch.
func (s Spec) loss(b *graph.Builder, k *task.Task, out unet3d.CalibratedOutput, h headOutputs, targets graph.Shape) graph.Value {
	full, weight := b.Input("full_spread", targets), b.Input("weight", targets)
	have, want := toSpreadUnits(b, k, out.Spread), toSpreadUnits(b, k, full)
	if d := s.Head.Distribution; d != nil {
		residual := b.Input("residual", targets)
		loss := op.WeightedMean(b, s.distributionScore(b, k, h, residual), weight)
		if s.TeacherWeight > 0 {
			loss = s.distillationLoss(b, loss, h, weight)
		}
		if d.SpreadWeight > 0 {
			loss = op.Add(b, loss, op.Scale(b, op.WeightedMSE(b, have, want, weight), d.SpreadWeight))
		}
		return loss
	}
	return s.spreadLoss(b, k, have, want, weight)
}

// spreadLossFuncs lists the losses between predicted and full spread, both in units of the spread
// scale.
var spreadLossFuncs = map[config.Loss]func(b *graph.Builder, have, want, weight graph.Value, o op.SimilarityOptions) graph.Value{
	config.MSELoss: func(b *graph.Builder, have, want, weight graph.Value, _ op.SimilarityOptions) graph.Value {
		return op.WeightedMSE(b, have, want, weight)
	},
	config.L1Loss: func(b *graph.Builder, have, want, weight graph.Value, _ op.SimilarityOptions) graph.Value {
		return op.WeightedL1(b, have, want, weight)
	},
	config.SSIMLoss: func(b *graph.Builder, have, want, _ graph.Value, o op.SimilarityOptions) graph.Value {
		return op.Sub(b, b.Scalar(1), op.SSIM(b, have, want, o))
	},
	config.MSSSIMLoss: func(b *graph.Builder, have, want, weight graph.Value, o op.SimilarityOptions) graph.Value {
		distance := op.Sub(b, b.Scalar(1), op.MSSSIM(b, have, want, o))
		return op.Add(b, op.Scale(b, op.WeightedL1(b, have, want, weight), mixL1), op.Scale(b, distance, mixSSIM))
	},
}

// spreadLoss is the loss between the predicted spread and that of the full ensemble.
func (s Spec) spreadLoss(b *graph.Builder, k *task.Task, have, want, weight graph.Value) graph.Value {
	loss := s.SpreadLoss
	if s.Head.Spread != nil {
		loss = s.Head.Spread.Loss
	}
	build := spreadLossFuncs[loss]
	if build == nil {
		return b.Fail("loss", fmt.Errorf("unknown loss %q of spreads", loss))
	}
	return build(b, have, want, weight, op.SimilarityOptions{Range: k.SpreadRange})
}

// stageLoss is the training loss of a stage:
//
//	bias    MSE in units of the error scale + Smooth·roughness of the locally connected layer
//	spread  MSE in units of the spread scale, or another loss of spreads
//	sigma   CRPS of the normal distribution around the corrected mean
func (s Spec) stageLoss(b *graph.Builder, k *task.Task, out unet3d.CalibratedOutput, roughness graph.Value, targets graph.Shape) graph.Value {
	weight := b.Input("weight", targets)
	switch s.stage {
	case BiasStage:
		loss := op.WeightedMSE(b, out.Shift, b.Input("residual", targets), weight)
		if s.Bias.Local > 0 && s.Bias.Smooth > 0 {
			loss = op.Add(b, loss, op.Scale(b, roughness, s.Bias.Smooth))
		}
		return loss
	case SpreadStage:
		return s.spreadLoss(b, k, toSpreadUnits(b, k, out.Spread), toSpreadUnits(b, k, b.Input("full_spread", targets)), weight)
	}
	corrected, residual := b.Input("corrected", targets), b.Input("residual", targets)
	return op.WeightedMean(b, op.GaussianCRPS(b, corrected, out.Sigma, residual), weight)
}

// toSpreadUnits converts spreads from units of the error scale to those of the spread scale.
func toSpreadUnits(b *graph.Builder, k *task.Task, x graph.Value) graph.Value {
	inverse := make([]float32, x.Dim(1)*x.Dim(2))
	for i := range inverse {
		inverse[i] = float32(k.ErrorScale[i] / k.SpreadScale[i])
	}
	return op.Mul(b, x, b.Const("", graph.Shape{1, x.Dim(1), x.Dim(2), 1, 1}, inverse))
}

// Network is a compiled network with the memory of its inputs.
type Network struct {
	Plan   *engine.Plan
	Shard  *spatial.Plan          // plan of this rank of several; nil for one process
	ranks  *team.Team             // ranks that compute the network together; nil for one process
	shapes map[string]graph.Shape // of inputs and outputs, before distribution
	Rows   spatial.Interval       // samples of a batch that this rank has
	Batch  task.Batch             // of this rank's samples and slab
}

// Compile builds the network for n samples and compiles it, with its loss if requested. With
// several ranks it compiles the part of this rank. Networks that use the same store share their
// parameters.
//
// Errors: those of Graph and of the compiler; a slab that differs from the distribution of the
// features.
func (s Spec) Compile(k *task.Task, g *ensemble.Grid, n int, seed uint64, loss bool, o engine.Options, ranks *team.Team) (*Network, error) {
	gr, err := s.Graph(k, g, n, seed, loss)
	if err != nil {
		return nil, err
	}
	o = s.Options(o)
	if o.Mode == engine.Infer && len(o.Store.Entries()) == 0 {
		for i := range gr.Nodes { // weights are read from a file later; random initialisation would take long
			gr.Nodes[i].Init = graph.Zeros()
		}
	}
	net := &Network{ranks: ranks, Rows: spatial.Interval{Hi: n}, shapes: map[string]graph.Shape{}}
	for _, nd := range gr.Nodes {
		if nd.Kind == graph.KindInput {
			net.shapes[nd.Name] = nd.Shape
		}
	}
	for _, out := range gr.Outputs {
		net.shapes[out.Name] = gr.Nodes[out.ID].Shape
	}
	switch {
	case ranks == nil:
		net.Plan, err = engine.Compile(gr, o)
	case ranks.ShardedOptimiser && o.Mode == engine.Train:
		net.Shard, err = spatial.CompileShardedOptimiser(gr, ranks.Comm, ranks.Mesh, o)
	case ranks.Compression != nil && o.Mode == engine.Train:
		net.Shard, err = spatial.CompileCompressed(gr, ranks.Comm, ranks.Mesh, *ranks.Compression, o)
	default:
		net.Shard, err = spatial.Compile(gr, ranks.Comm, ranks.Mesh, o)
	}
	if err == nil && ranks != nil {
		net.Plan = net.Shard.Plan
	}
	if err != nil {
		return nil, err
	}
	if slab := ranks.Shard(); slab != nil {
		own := net.Shard.OwnedBox("features", net.shapes["features"])
		if !s.hasWindow() && !slices.Equal(own[2:], slab.Box()) {
			return nil, errors.Join(fmt.Errorf("rank %d: slab %v, want %v as the fields are distributed", ranks.Comm.Rank(), slab.Box(), own[2:]), net.Plan.Close())
		}
		net.Rows = own[0]
	}
	local := task.Task{Features: k.Features, Targets: k.Targets}
	local.SetReference(k.Reference())
	local.Features.Axes = ranks.Shard().LocalAxes(k.Features.Axes)
	if !s.hasWindow() { // windows of a batch are loaded from one with whole fields
		net.Batch = s.NewBatch(&local, ranks.Shard().LocalGrid(g), net.Rows.Len(), s.MemberCount(k), loss)
	}
	return net, nil
}

// Options sets the precision of the network in o, unless o has one.
func (s Spec) Options(o engine.Options) engine.Options {
	o.Precision = cmp.Or(o.Precision, s.Precision)
	return o
}

// NewBatch allocates a batch of n samples with the arrays that the network reads, for a number of
// members. With loss it has the arrays of the loss, otherwise those of a prediction.
func (s Spec) NewBatch(k *task.Task, g *ensemble.Grid, n, members int, loss bool) task.Batch {
	b := task.NewBatch(k, g, n)
	if s.readsCentre() {
		b.Centre = make([]float32, len(b.Spread))
	}
	if s.TeacherWeight > 0 {
		b.TeacherShift, b.TeacherSigma = make([]float32, len(b.Spread)), make([]float32, len(b.Spread))
	}
	if len(s.Conditions) > 0 {
		b.AllocateConditions(s.conditions(k), n)
	}
	fields := n * members * len(k.Features.Axes.Levels) * g.Size()
	if s.ReadsMembers() {
		b.Members = make([]float32, fields*k.Features.MemberChannels())
	}
	switch targets := fields * len(k.Targets); {
	case !s.PredictsMembers():
	case loss:
		b.Deviation = make([]float32, targets)
	default:
		b.Raw = make([]float32, targets)
	}
	return b
}

// Load copies a batch to the inputs of the plan: this rank's samples and slab. Inputs that the
// network does not read, such as the anomaly with a spread head, are not in the plan and are
// skipped.
func (n *Network) Load(b *task.Batch) {
	for name, x := range Inputs(b) {
		if in := n.Plan.Input(name); len(in) > 0 && len(x) > 0 && &in[0] != &x[0] { // the batch may use the memory of the plan
			copy(in, x)
		}
	}
}

// Inputs are the arrays of a batch by the names of inputs of the graph.
func Inputs(b *task.Batch) map[string][]float32 {
	return map[string][]float32{
		"features": b.Features, "spread": b.Spread, "anomaly": b.Anomaly, "season": b.Season,
		"residual": b.Residual, "full_spread": b.FullSpread, "weight": b.Weight, "corrected": b.Corrected, "members": b.Members, "deviation": b.Deviation, "centre": b.Centre, "conditions": b.Conditions,
		"reference_shift": b.ReferenceShift, "reference_sigma": b.ReferenceSigma, "teacher_shift": b.TeacherShift, "teacher_sigma": b.TeacherSigma,
	}
}

// Output returns this rank's slab of an output. It is valid until the next run.
func (n *Network) Output(name string) []float32 {
	y, slab := n.Plan.Output(name), n.ranks.Shard()
	if slab == nil {
		return y
	}
	return slab.Crop(y, n.ranks.Mesh.Owned(n.Shard.Outputs[name], n.shapes[name], n.ranks.Comm.Rank()))
}
