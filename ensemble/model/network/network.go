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

// Spec is what a network is built from, apart from its task. The parts are of one network; in JSON they are one object, with that of the head in it.
type Spec struct {
	BodySpec
	MembersSpec
	LeadsSpec
	Head HeadSpec `json:"head"`
	// Precision is the type in which fields inside the network are stored, as in
	// engine.Options; empty means "f32".
	Precision string `json:"precision,omitempty"`
	// Method is that of the training: empty, one network learns all at once, or
	// config.StagesMethod. Then Bias is the network of the first stage, and the rest describes
	// that of the others.
	Method config.Method `json:"method,omitempty"`
	Bias   BiasSpec      `json:"bias,omitzero"`
	// SpreadLoss is the loss of the stage that learns the spread.
	SpreadLoss config.Loss `json:"spread_loss,omitempty"`
	// Reference is the baseline that the network corrects, as in model.reference; empty for none.
	Reference string `json:"reference,omitempty"`

	// Kept are the channels that are left of layers of which some were removed.
	Kept []channels.Kept `json:"kept,omitempty"`

	// Sharing says how layers share parameters; the zero value: not at all.
	Sharing sharing.Options `json:"sharing,omitzero"`
	// TeacherWeight is the weight of a teacher in the loss of a training.
	TeacherWeight float64 `json:"-"`

	stage       Stage // whose network and loss are built
	memberCount int   // members of a sample, if it reads members; 0 stands for those of the task
}

// BodySpec is what makes features of the input.
type BodySpec struct {
	Kind     string  `json:"kind"`             // as in model.kind
	Height   string  `json:"height,omitempty"` // as unet3d.Levels; empty is shared
	Base     int     `json:"base"`
	Stages   int     `json:"stages"`
	Dropout  float64 `json:"dropout"`
	Periodic bool    `json:"periodic"`
	// Embedding is the number of learned fields in the input.
	Embedding int `json:"embedding,omitempty"`
	// Auxiliary is the number of fields that do not change in the input.
	Auxiliary int `json:"auxiliary_fields,omitempty"`
	// Recurrent are the cells of a network that has some.
	Recurrent unet3d.Recurrent `json:"recurrent,omitzero"`
	// Axial is how points attend along axes, in a network in which they do.
	Axial unet3d.Axial `json:"axial,omitzero"`
}

// MembersSpec is what the network sees of members.
type MembersSpec struct {
	// Members is as model.members: empty, their statistics. Then Pool and Encoder describe the encoder.
	Members string `json:"members,omitempty"`
	Pool    string `json:"pool,omitempty"`
	Encoder int    `json:"encoder_channels,omitempty"`
	// Attention says where members have weights for each other, as unet3d.AttentionWeights.
	Attention string `json:"attention,omitempty"`
}

// LeadsSpec is where leads are.
type LeadsSpec struct {
	// Leads is as model.leads: empty, in channels. Conditions are what rows are told, as model.conditions.
	Leads      string   `json:"leads,omitempty"`
	Conditions []string `json:"conditions,omitempty"`
}

// BiasSpec is what the network of the first of three stages is built from.
type BiasSpec struct {
	Base   int     `json:"base"`
	Stages int     `json:"stages"`
	Local  int     `json:"local"`  // side of the windows of the locally connected layer; 0 has none
	Smooth float64 `json:"smooth"` // weight of its roughness in the loss
	Folds  int     `json:"folds"`  // blocks of years for cross-fitting
}

// The mixed loss of the published spread network: 0.16 L1 + 0.84 (1 - MS-SSIM).
const (
	mixL1   = 0.16
	mixSSIM = 0.84
)

// Graph builds the network for a batch of n samples on a grid, with its loss if
// asked for; the outputs are the same.
func (s Spec) Graph(k *task.Task, g *ensemble.Grid, n int, seed uint64, loss bool) (*graph.Graph, error) {
	b := graph.New(seed)
	d, v := len(k.Features.Axes.Levels), len(k.Targets)
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
		return nil, fmt.Errorf("network: there is no kind %q: %w", s.Kind, graph.ErrShape)
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
			Body: body, NoMaps: kind.Baseline,
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

// Check refuses a network of no kind, with no head, or with a head that its kind does not have.
func (s Spec) Check() error {
	switch kind := s.NetworkKind(); {
	case kind == nil:
		return fmt.Errorf("no kind of network is called %q", s.Kind)
	case s.PredictsMembers() && !kind.PredictsMembers(), !s.PredictsMembers() && kind.UsesAttention():
		return fmt.Errorf("a network %q with the head %q", s.Kind, s.Head.Name())
	case s.HasLeadRows() && kind.Leads == unet3d.LeadsInChannels, !s.HasLeadRows() && kind.SpansLeads():
		return fmt.Errorf("a network %q with its leads in %q", s.Kind, cmp.Or(s.Leads, config.ChannelLeads))
	}
	return s.Head.Check()
}

// NetworkKind is the kind of the network; nil if there is none of its name.
func (s Spec) NetworkKind() *unet3d.Kind { return unet3d.KindByName(s.Kind) }

// layout is the size of the network, whose rows are by themselves.
func (s Spec) layout(wrap bool) unet3d.Layout {
	return unet3d.Layout{Base: s.Base, Stages: s.Stages, Dropout: s.Dropout, Levels: unet3d.Levels(s.Height), Periodic: wrap,
		Attention: unet3d.AttentionWeights(s.Attention), Recurrent: s.Recurrent, Axial: s.Axial}
}

// spreadLayout is the layout of a network that makes one spread field on one level from the channels of the
// features, in units of the spread's scale.
func (s Spec) spreadLayout(k *task.Task, wrap bool) unet3d.Layout {
	f, l := &k.Features, s.layout(wrap)
	// All channels of an aggregate, which lie together at each lead.
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

// Names of the outputs of networks, in units of the error scale.
const (
	OutSpread = "spread"
	OutShift  = "shift"
	OutSigma  = "sigma"
)

// Outputs are those of the network.
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

// toErrorUnits gives a network's one output channel, in units of the spread's scale,
// the scale of the target.
func (s Spec) toErrorUnits(b *graph.Builder, y graph.Value, k *task.Task) graph.Value {
	return op.Scale(b, y, k.SpreadScale[0]/k.ErrorScale[0])
}

// loss is the training loss in units of the error scale.
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

// spreadLossFuncs build the distances of spreads to those of the full ensemble, both in units of its scale.
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

// spreadLoss is the distance to the full ensemble's spread by the loss of the network.
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

// stageLoss is the training loss of a stage: of the correction the squared error in units of
// the error scale and its weights' roughness, of the spread the squared distance in units
// of its scale or another loss of spreads, of sigma the CRPS around the corrected mean.
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

// toSpreadUnits gives spreads in units of the spread's scale.
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
	Shard  *spatial.Plan          // of one rank of several: plan and what it is a part of; else nil
	ranks  *team.Team             // that compute the network together; nil for one
	shapes map[string]graph.Shape // of inputs and outputs
	Rows   spatial.Interval       // samples of a batch that this rank has
	Batch  task.Batch             // of this rank's samples and slab
}

// Compile builds a network for n samples and compiles it, with its loss if asked
// for; of several ranks, one's part. Networks that share a store share their parameters.
func (s Spec) Compile(k *task.Task, g *ensemble.Grid, n int, seed uint64, loss bool, o engine.Options, ranks *team.Team) (*Network, error) {
	gr, err := s.Graph(k, g, n, seed, loss)
	if err != nil {
		return nil, err
	}
	o = s.Options(o)
	if o.Mode == engine.Infer && len(o.Store.Entries()) == 0 {
		for i := range gr.Nodes { // their values come from a file: drawing millions of random ones takes long
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
		if !slices.Equal(own[2:], slab.Box()) {
			return nil, errors.Join(fmt.Errorf("rank %d has the slab %v of fields that are cut at %v", ranks.Comm.Rank(), slab.Box(), own[2:]), net.Plan.Close())
		}
		net.Rows = own[0]
	}
	here := task.Task{Features: k.Features, Targets: k.Targets}
	here.SetReference(k.Reference())
	here.Features.Axes = ranks.Shard().LocalAxes(k.Features.Axes)
	net.Batch = s.NewBatch(&here, ranks.Shard().LocalGrid(g), net.Rows.Len(), s.MemberCount(k), loss)
	return net, nil
}

// Options are o with the precision of the network, unless o names another.
func (s Spec) Options(o engine.Options) engine.Options {
	o.Precision = cmp.Or(o.Precision, s.Precision)
	return o
}

// NewBatch gives n samples of a task room for what the network reads, with so many members of each; and for what a loss
// needs of them, or what a prediction.
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

// Load hands a batch to the plan: this rank's samples and slab. Inputs that the network
// does not read (the anomaly of a spread head) have no place there and are left out.
func (n *Network) Load(b *task.Batch) {
	for name, x := range map[string][]float32{
		"features": b.Features, "spread": b.Spread, "anomaly": b.Anomaly, "season": b.Season,
		"residual": b.Residual, "full_spread": b.FullSpread, "weight": b.Weight, "corrected": b.Corrected, "members": b.Members, "deviation": b.Deviation, "centre": b.Centre, "conditions": b.Conditions,
		"reference_shift": b.ReferenceShift, "reference_sigma": b.ReferenceSigma, "teacher_shift": b.TeacherShift, "teacher_sigma": b.TeacherSigma,
	} {
		if in := n.Plan.Input(name); len(in) > 0 && len(x) > 0 && &in[0] != &x[0] { // else it was written there
			copy(in, x)
		}
	}
}

// Output is this rank's slab of an output. It stays as it is until the next run.
func (n *Network) Output(name string) []float32 {
	y, slab := n.Plan.Output(name), n.ranks.Shard()
	if slab == nil {
		return y
	}
	return slab.Crop(y, n.ranks.Mesh.Owned(n.Shard.Outputs[name], n.shapes[name], n.ranks.Comm.Rank()))
}
