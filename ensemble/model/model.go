package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Model is a trained model: a task, the networks whose outputs are averaged, and
// the baselines that were fitted on the same training dates.
type Model struct {
	Spec network.Spec
	Task task.Task
	Metadata
	// Family is that of the distribution whose parameters the networks give; nil for
	// those that give none.
	Family   *dist.Family
	Networks []Weights
	// Bias corrects the mean, and Spreads give the spread of the full ensemble, where the
	// training had stages; Networks then give sigma.
	Bias      Weights
	Spreads   []Weights
	Baselines []task.Baselines // as targets are stored; empty without analyses
	Coupling  []score.Coupling // what the test of the training found of its members
	Climate   *task.Climate    // of the training that made the model; nil for none, and in models that were loaded
	Drift     *Drift           // of the training; nil in models that were loaded until it is set to what LoadDrift reads

	arraysFile  *ckpt.File                      // from which maps are read when they are needed; nil if all are in memory
	kept        map[weightSlot]*engine.Snapshot // where weights were given on a device
	weightsFile *ckpt.File                      // of the only network, from which its weights are read when it is opened; else nil
	Ranks       *team.Team                      // that predict together; nil for one rank alone
	Local       *task.Task                      // of this rank
	Network     *network.Network                // compiled on first use; runs the networks in turn
	options     engine.Options                  // of net
	bias        *network.Network                // that of Bias, if there is one
	order       []int                           // of the members in the only sample of its batch, by their positions
}

// Metadata is what is known of a model beside its network, its task and its arrays.
type Metadata struct {
	Version string          `json:"version"`         // of the program that trained it
	Control string          `json:"members_control"` // member policy, "include" or "exclude"
	Trained ensemble.Period `json:"trained"`
	// Origins are those of the forecasts that it was trained on; none where that is not known.
	Origins []ensemble.Origin `json:"origins,omitempty"`
	Grid    *ensemble.Grid    `json:"grid"`
	// Interpolation is how fields came to Grid in training; those of predictions do too.
	Interpolation task.Interpolation `json:"interpolation,omitzero"`
	// Recalibrations, as targets are stored, are those of the distribution, and Calibrations those of probabilities of events, fitted on
	// validation starts. Nil for none.
	Recalibrations []Recalibration `json:"recalibrations,omitempty"`
	Calibrations   []Calibration   `json:"calibrations,omitempty"`
	Sparsity       []Sparsity      `json:"sparsity,omitempty"` // of the networks; none if nothing was pruned
	Sharing        *sharing.Plan   `json:"sharing,omitempty"`  // of the parameters of each network; nil if none are shared
	// Int8 are the scales with which convolutions predict in int8, by the names of their filters. Nil for none.
	Int8 map[string]*op.Int8Scales `json:"int8,omitempty"`
}

// Weights are the parameters and states of one network by name.
type Weights []ckpt.Tensor

// The files of a model folder.
const (
	File          = "model.json"
	ArraysFile    = "arrays.safetensors"
	WeightsFormat = "weights-%02d.safetensors"
	BiasFile      = "bias.safetensors"
	spreadsFormat = "spread-%02d.safetensors"
)

// schema names what the keys of model.json mean.
const schema = "ensemble.model/2"

// Description is model.json: everything but the arrays.
type Description struct {
	Schema   string                   `json:"schema"`
	Networks int                      `json:"networks"` // how many files of weights there are
	Spec     network.Spec             `json:"network"`
	Family   string                   `json:"family,omitempty"` // its ID
	Kind     ensemble.Standardisation `json:"standardise"`
	Task     task.Task                `json:"task"`
	Metadata
}

// Save writes the model's files into a folder, model.json last.
//
// Errors: exit 73 or 74; a file is written whole or not at all.
func (m *Model) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.CreateError(dir, err)
	}
	k := &m.Task
	var arrays []ckpt.Tensor
	add := func(name string, i int, data any, n int) {
		arrays = append(arrays, ckpt.Tensor{Name: fmt.Sprintf("%s.%03d", name, i), Shape: []int{n}, Data: data})
	}
	for i, f := range k.Features.Fields {
		add("feature_mean", i, f.Mean, len(f.Mean))
		add("feature_scale", i, f.Scale, len(f.Scale))
	}
	for i := range k.Centre {
		add("anomaly_centre", i, k.Centre[i], len(k.Centre[i]))
		add("anomaly_width", i, k.Width[i], len(k.Width[i]))
	}
	for i, a := range k.Features.Auxiliary {
		add("auxiliary", i, a.Values, len(a.Values))
	}
	if err := ckpt.WriteFile(filepath.Join(dir, ArraysFile), arrays, nil); err != nil {
		return err
	}
	if err := k.Reference().Save(filepath.Join(dir, task.ReferenceFile)); err != nil {
		return err
	}
	if m.Climate != nil {
		if err := m.Climate.Save(filepath.Join(dir, task.ClimateFile)); err != nil {
			return err
		}
	}
	if m.Drift != nil {
		if err := m.Drift.Save(filepath.Join(dir, DriftFile)); err != nil {
			return err
		}
	}
	for name, w := range m.WeightFiles(len(m.Networks)) {
		path := filepath.Join(dir, name)
		write := func() error { return ckpt.WriteFile(path, *w, nil) }
		if len(m.Sparsity) > 0 {
			write = func() error { return ckpt.WritePacked(path, *w) }
		}
		if err := write(); err != nil {
			return err
		}
	}
	return m.SaveDescription(dir)
}

// WeightFiles are the weights of a model of n networks, by the names of their files.
func (m *Model) WeightFiles(n int) map[string]*Weights {
	files := map[string]*Weights{}
	m.Networks = slices.Grow(m.Networks, n)[:n]
	for i := range n {
		files[fmt.Sprintf(WeightsFormat, i)] = &m.Networks[i]
	}
	if m.Spec.Staged() {
		files[BiasFile] = &m.Bias
		m.Spreads = slices.Grow(m.Spreads, n)[:n]
		for i := range n {
			files[fmt.Sprintf(spreadsFormat, i)] = &m.Spreads[i]
		}
	}
	return files
}

// SaveDescription writes what a verification needs of a model: its baselines and, last, its
// description.
//
// Errors: as Save.
func (m *Model) SaveDescription(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.CreateError(dir, err)
	}
	if err := task.SaveBaselines(filepath.Join(dir, task.BaselinesFile), m.Baselines); err != nil {
		return err
	}
	if err := SaveCoupling(dir, m.Coupling); err != nil {
		return err
	}
	f := Description{Schema: schema, Networks: len(m.Networks), Spec: m.Spec, Kind: m.Task.Features.Fields[0].Kind, Task: m.Task, Metadata: m.Metadata}
	if family := m.Spec.PredictedFamily(len(m.Networks)); family != nil {
		f.Family = family.ID
	}
	return jsonfile.Write(filepath.Join(dir, File), f)
}

// Load reads a model folder; if it is lean the maps of its normalisers, and the weights
// of an only network, stay in their files, which Close closes: they may be more than all else.
func Load(dir string, lean bool) (*Model, error) {
	m, f, err := LoadDescription(dir)
	if err != nil {
		return nil, err
	}
	if err := m.loadArrays(filepath.Join(dir, ArraysFile), f.Kind, lean, damagedError(dir)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if m.Spec.Reference != "" {
		r, err := task.LoadReference(filepath.Join(dir, task.ReferenceFile), m.Spec.Reference, &m.Task, m.Grid.Size())
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		m.Task.SetReference(r)
	}
	if lean && f.Networks == 1 && !m.Spec.Staged() && !m.Spec.SharesParameters() {
		m.Networks = []Weights{nil}
		m.weightsFile, err = ckpt.Open(filepath.Join(dir, fmt.Sprintf(WeightsFormat, 0)))
		return m, err
	}
	for name, w := range m.WeightFiles(f.Networks) {
		if *w, _, err = ckpt.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return m, m.buildFilters(damagedError(dir))
}

// damagedError makes errors of a model folder whose files do not fit each other.
func damagedError(dir string) func(why string) error {
	return func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "the model is damaged", At: filepath.Join(dir, File), Why: why, Fix: "train again, or copy the whole folder again"}
	}
}

// LoadDescription reads what saveReference writes.
//
// Errors: as LoadModel.
func LoadDescription(dir string) (*Model, *Description, error) {
	path := filepath.Join(dir, File)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &exit.Error{Code: exit.NotYet, What: "no trained model", At: path,
			Why: "the run was not trained to its end, or the folder is not that of a run", Fix: "train first: ensemble train -c FILE --run-dir DIR", Err: err}
	} else if err != nil {
		return nil, nil, &exit.Error{Code: exit.IO, What: "cannot read the model", At: path, Why: err.Error(), Fix: "check the file's permissions", Err: err}
	}
	bad := damagedError(dir)
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, nil, bad(err.Error())
	}
	if head.Schema != schema {
		return nil, nil, &exit.Error{Code: exit.BadData, What: "the model is of another format", At: path, Why: fmt.Sprintf("its schema is %q, this program reads %q", head.Schema, schema), Fix: "train it again"}
	}
	var f Description
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, nil, bad(err.Error())
	}
	if err := f.Spec.Check(); err != nil {
		return nil, nil, bad(err.Error())
	}
	if f.Spec.ReadsMembers() != (len(f.Task.Features.MemberInputs) > 0) || f.Spec.Auxiliary != len(f.Task.Features.Auxiliary) || f.Spec.Staged() != (f.Spec.Bias != network.BiasSpec{}) {
		return nil, nil, bad(fmt.Sprintf("method %q and members %q, with %d auxiliary fields, do not go with the rest", f.Spec.Method, f.Spec.Members, len(f.Task.Features.Auxiliary)))
	}
	m := &Model{Spec: f.Spec, Task: f.Task, Metadata: f.Metadata, Family: f.Spec.PredictedFamily(f.Networks)}
	if (f.Family == "") != (m.Family == nil) || m.Family != nil && f.Family != m.Family.ID {
		return nil, nil, bad(fmt.Sprintf("distribution %q, which its network does not give", f.Family))
	}
	if bins := m.Spec.Head.Bins(); bins > 0 && slices.ContainsFunc(m.Task.Edges, func(e []float64) bool { return len(e) != bins+1 }) || bins > 0 != (m.Task.Edges != nil) {
		return nil, nil, bad(fmt.Sprintf("a histogram of %d bins and edges of another", bins))
	}
	if err := f.checkInt8(); err != nil {
		return nil, nil, bad(err.Error())
	}
	if (m.Spec.Head.Recalibration() != "") != (len(m.Recalibrations) > 0) || slices.ContainsFunc(m.Recalibrations, func(r Recalibration) bool { return !r.isValid() }) {
		return nil, nil, bad("a distribution that was to be calibrated and is not, or not to a distribution")
	}
	if slices.ContainsFunc(m.Calibrations, func(c Calibration) bool { return !c.Mapping.Valid() || c.Event.Relation != ensemble.Above }) {
		return nil, nil, bad("a calibration of probabilities that is no rising function")
	}
	if m.Baselines, err = task.LoadBaselines(filepath.Join(dir, task.BaselinesFile), m.Grid.Size()); err != nil {
		return nil, nil, err
	}
	m.Coupling, err = loadCoupling(dir)
	return m, &f, err
}

// loadArrays fills the normalisers and the maps of the anomaly.
func (m *Model) loadArrays(path string, kind ensemble.Standardisation, lean bool, bad func(string) error) (err error) {
	if m.arraysFile, err = ckpt.Open(path); err != nil {
		return err
	}
	k := &m.Task
	size := func(name string, i int) int {
		e, ok := m.arraysFile.Find(fmt.Sprintf(name, i))
		if !ok || len(e.Shape) != 1 {
			return 0
		}
		return e.Shape[0]
	}
	const meanName, scaleName = "feature_mean.%03d", "feature_scale.%03d"
	k.Features.Maps = func(i int, n *ensemble.Normaliser) (err error) {
		if n.Mean, err = m.arraysFile.Float64(n.Mean, fmt.Sprintf(meanName, i)); err == nil {
			n.Scale, err = m.arraysFile.Float64(n.Scale, fmt.Sprintf(scaleName, i))
		}
		return err
	}
	for i := range k.Features.Axes.Fields() {
		n := &ensemble.Normaliser{Kind: kind}
		if s := size(meanName, i); s != size(scaleName, i) || s != 1 && s != m.Grid.Size() {
			return bad(fmt.Sprintf("normaliser %d is missing or of another size in %s", i, ArraysFile))
		}
		if !lean {
			if err := k.Features.Maps(i, n); err != nil {
				return bad(err.Error())
			}
		}
		k.Features.Fields = append(k.Features.Fields, n)
	}
	field := func(name string, i int) ([]float32, error) {
		t, err := m.arraysFile.Tensor(fmt.Sprintf("%s.%03d", name, i))
		x, ok := t.Data.([]float32)
		if err != nil || !ok || len(x) != m.Grid.Size() {
			return nil, bad(fmt.Sprintf("%s %d is missing or of another size in %s", name, i, ArraysFile))
		}
		return x, nil
	}
	for i := range k.ErrorScale {
		centre, err := field("anomaly_centre", i)
		if err != nil {
			return err
		}
		width, err := field("anomaly_width", i)
		if err != nil {
			return err
		}
		k.Centre, k.Width = append(k.Centre, centre), append(k.Width, width)
	}
	for i := range k.Features.Auxiliary {
		if k.Features.Auxiliary[i].Values, err = field("auxiliary", i); err != nil {
			return err
		}
	}
	if lean {
		return nil
	}
	k.Features.Maps = nil
	err, m.arraysFile = m.arraysFile.Close(), nil
	return err
}

// Forecast is what a model makes of one start, in physical units.
//
// Shape: Mean, Sigma, Spread [lead][variable][level][NY*NX]; Mean and Sigma are nil for
// a spread head. Parameters [parameter] of that shape are those of a distribution that is not
// normal, in the order of its family; of a normal one they are Mean and Sigma. Clipped is the number of values of Spread that the network put
// below zero and that were set to 0.
type Forecast struct {
	Mean, Sigma, Spread []float32
	Parameters          [][]float32
	// Members [member][lead][variable][level][NY*NX], in the order of their numbers, are those of a
	// network that gives members; Mean and Sigma are of these, and Spread is nil.
	Members []float32
	Clipped int
}

// Predict runs the networks on some members of one forecast, as a rule those of the task,
// and averages what they say. Of ranks that predict together each gives its slab of the forecast; the
// leading one gets the result, the others nil.
//
// Errors: if the forecast has other axes or another grid, or if an output is not
// finite; context errors.
func (m *Model) Predict(ctx context.Context, o engine.Options, fc *ensemble.Forecast, members []ensemble.Member) (*Forecast, error) {
	if err := m.Open(o); err != nil {
		return nil, err
	}
	stats, err := m.Prepare(fc, members)
	if err != nil {
		return nil, err
	}
	return m.Infer(ctx, fc.Init, stats)
}

// Prepare makes the network's input of one forecast, which is not needed after that, and
// gives the statistics of the targets, as these are stored. The network is open.
func (m *Model) Prepare(fc *ensemble.Forecast, members []ensemble.Member) ([]task.Statistics, error) {
	used, err := task.MemberPositions(fc, members)
	if err != nil {
		return nil, err
	}
	if err := m.SetMemberCount(len(used)); err != nil {
		return nil, err
	}
	if err := m.Local.FillInput(&m.Network.Batch, 0, fc, used); err != nil {
		return nil, err
	}
	m.SortMembers(len(used))
	return m.Local.TargetStatistics(fc, used)
}

// Infer runs the networks on what was prepared.
func (m *Model) Infer(ctx context.Context, init ensemble.Init, stats []task.Statistics) (*Forecast, error) {
	n := len(m.Network.Batch.Spread)
	out := &Forecast{Spread: make([]float32, n)}
	other := m.newParameterAverage(n)
	if m.Spec.Head.Distribution != nil && other == nil {
		out.Mean, out.Sigma = make([]float32, n), make([]float32, n)
	}
	if m.Spec.PredictsMembers() {
		out.Spread, out.Members = nil, make([]float32, len(m.Network.Batch.Raw))
	}
	sums := map[string][]float32{network.OutSpread: out.Spread, network.OutShift: out.Mean, network.OutSigma: out.Sigma, network.OutMembers: out.Members}
	for _, p := range m.inferences() {
		if m.weightsFile == nil { // else they are there since it was opened
			if err := m.fill(p); err != nil {
				return nil, err
			}
		}
		p.net.Load(&m.Network.Batch)
		if err := p.net.Plan.Run(ctx, 0); err != nil {
			return nil, err
		}
		for _, name := range p.outputs {
			if sums[name] == nil {
				other.add(name, p.net.Output(name), p.share)
				continue
			}
			for i, x := range p.net.Output(name) {
				sums[name][i] += p.share * x
			}
		}
	}
	if m.Spec.PredictsMembers() {
		return m.gather(out, m.correctMembers(out, init))
	}
	err := m.toPhysical(out, init, stats)
	if err == nil {
		m.recalibrate(out, len(stats))
	}
	if other != nil && err == nil {
		err = other.toPhysical(out, init, stats)
	}
	return m.gather(out, err)
}

// fill gives a network its weights. On a device with memory of its own they are kept from the first
// prediction to the last, if it has room for those of all networks.
func (m *Model) fill(p inference) error {
	if len(p.weights) == 0 {
		return Fill(p.net.Plan.Store(), p.weights)
	}
	key := weightSlot{p.net, &p.weights[0]}
	if k := m.kept[key]; k != nil {
		return p.net.Plan.Restore(k)
	}
	if err := Fill(p.net.Plan.Store(), p.weights); err != nil {
		return err
	}
	k, err := p.net.Plan.Snapshot()
	if err != nil && exit.CodeOf(err) != exit.NoDevice {
		return err
	}
	if k != nil {
		if m.kept == nil {
			m.kept = map[weightSlot]*engine.Snapshot{}
		}
		m.kept[key] = k
	}
	return nil
}

// weightSlot is where weights were given to a network.
type weightSlot struct {
	net     *network.Network
	weights *ckpt.Tensor
}

// inference is one run of a compiled network in a prediction: with which weights, and which of its
// outputs are used, each counting as a share of a mean.
type inference struct {
	net     *network.Network
	weights Weights
	outputs []string
	share   float32
}

// inferences are those of a prediction.
func (m *Model) inferences() (all []inference) {
	share := 1 / float32(len(m.Networks))
	if !m.Spec.Staged() {
		for _, w := range m.Networks {
			all = append(all, inference{m.Network, w, m.Spec.Outputs(), share})
		}
		return all
	}
	all = append(all, inference{m.bias, m.Bias, []string{network.OutShift}, 1})
	for i := range m.Networks {
		all = append(all, inference{m.Network, m.Spreads[i], []string{network.OutSpread}, share}, inference{m.Network, m.Networks[i], []string{network.OutSigma}, share})
	}
	return all
}

// toPhysical brings the outputs of the network into physical units.
func (m *Model) toPhysical(out *Forecast, init ensemble.Init, stats []task.Statistics) error {
	k := m.Local
	off := 0
	for at, st := range stats {
		e := float32(k.ErrorScale[at])
		for q := range st.Mean {
			i := off + q
			if out.Spread[i] *= e; out.Spread[i] < 0 {
				out.Spread[i] = 0
				out.Clipped++
			}
			if out.Mean != nil {
				out.Mean[i] = st.Mean[q] + e*out.Mean[i]
				out.Sigma[i] *= e
			}
			if missing := st.Mean[q] != st.Mean[q]; !missing && !isFinite(out.Spread[i], out, i) {
				return notFiniteError(k, init, at, q)
			} else if missing { // as is the mean already
				out.Spread[i] = st.Mean[q]
				if out.Sigma != nil {
					out.Sigma[i] = st.Mean[q]
				}
			}
		}
		off += len(st.Mean)
	}
	return nil
}

func notFiniteError(k *task.Task, init ensemble.Init, at, point int) error {
	return &exit.Error{Code: exit.Bug, What: "the network's output is not finite",
		At:  fmt.Sprintf("start %s, %s, point %d", init, k.TargetName(at), point),
		Fix: "check the model's weights and the input's values with `ensemble inspect --stats`"}
}

// gather joins the slabs of several ranks on the leading one, unless one has failed.
func (m *Model) gather(out *Forecast, err error) (*Forecast, error) {
	if m.Ranks == nil {
		return out, err
	}
	clipped, err := team.AllGatherOutcomes(m.Ranks, team.Outcome[int]{Result: out.Clipped}, err)
	if err != nil {
		return nil, err
	}
	out.Clipped = 0
	for r, c := range clipped {
		if m.Ranks.Shard().IsPrimary(r) {
			out.Clipped += c.Result
		}
	}
	fields := []*[]float32{&out.Spread, &out.Mean, &out.Sigma}
	for i := range out.Parameters {
		fields = append(fields, &out.Parameters[i])
	}
	for _, field := range fields {
		if *field == nil {
			continue
		}
		if *field, err = team.GatherFields(m.Ranks, *field, len(m.Task.Targets)); err != nil {
			return nil, err
		}
	}
	if out.Members != nil {
		if out.Members, err = team.GatherFields(m.Ranks, out.Members, len(m.order)*len(m.Task.Targets)); err != nil {
			return nil, err
		}
	}
	if !m.Ranks.IsRoot() {
		return nil, nil
	}
	return out, nil
}

func isFinite(spread float32, out *Forecast, i int) bool {
	ok := func(x float32) bool { return x-x == 0 }
	return ok(spread) && (out.Mean == nil || ok(out.Mean[i]) && ok(out.Sigma[i]) && out.Sigma[i] > 0)
}

// Open compiles the network for single samples, once for all weights: they take
// turns, so that the fields of one network are in memory.
func (m *Model) Open(o engine.Options) error {
	if m.Network != nil {
		return nil
	}
	m.options = o
	if m.Local == nil {
		m.Local = &m.Task
	}
	o.Store, o.Mode, o.DonateInputs = engine.NewStore(), engine.Infer, m.Ranks == nil // which fills its inputs before every run
	var err error
	if o.BlockMasks, err = m.KeptBlocks(); err != nil {
		return err
	}
	if o.Int8, err = m.int8Scales(); err != nil {
		return err
	}
	m.Network, err = m.Spec.Compile(&m.Task, m.Grid, 1, 0, false, o, m.Ranks)
	if errors.Is(err, pass.ErrPrecision) && o.Precision == "" {
		// Nobody asked for the type of the training: what this device has is more exact.
		o.Precision = "f32"
		m.Network, err = m.Spec.Compile(&m.Task, m.Grid, 1, 0, false, o, m.Ranks)
	}
	if err != nil {
		return err
	}
	if m.Spec.Staged() {
		o.Store = engine.NewStore()
		if o.BlockMasks, err = keptBlocks(m.Bias); err != nil {
			return err
		}
		m.bias, err = m.Spec.ForStage(network.BiasStage).Compile(&m.Task, m.Grid, 1, 0, false, o, m.Ranks)
		return err
	}
	if len(m.Networks) == 1 && m.Ranks == nil { // else each network finds in its place what the one before left
		m.Network.Batch.Features = m.Network.Plan.Input("features")
	}
	if m.weightsFile == nil {
		return nil
	}
	return fillStore(m.Network.Plan.Store(), func(e engine.Entry, to []float32) (bool, error) {
		at, ok := m.weightsFile.Find(e.Name)
		if ok && !slices.Equal(at.Shape, []int(e.Shape)) {
			return true, shapeError(at.Shape, e)
		}
		return ok, m.weightsFile.Float32(to, e.Name)
	})
}

// Close frees the compiled network and closes the files of the model.
func (m *Model) Close() (err error) {
	m.kept = nil
	for _, n := range []**network.Network{&m.Network, &m.bias} {
		if *n != nil {
			err, *n = errors.Join(err, (*n).Plan.Close()), nil
		}
	}
	if m.weightsFile != nil {
		err, m.weightsFile = errors.Join(err, m.weightsFile.Close()), nil
	}
	if m.arraysFile != nil {
		err, m.arraysFile = errors.Join(err, m.arraysFile.Close()), nil
	}
	return err
}

// CopyWeights copies all parameters and states of a store.
func CopyWeights(s *engine.Store) Weights {
	var w Weights
	for _, e := range s.Entries() {
		v, shape, _ := s.Get(e.Name)
		w = append(w, ckpt.Tensor{Name: e.Name, Shape: shape, Data: slices.Clone(v)})
	}
	return w
}

// Fill sets all parameters and states of a store.
//
// Errors: exit 65 if a name is missing or a size differs.
func Fill(s *engine.Store, w Weights) error {
	given := map[string]ckpt.Tensor{}
	for _, t := range w {
		given[t.Name] = t
	}
	return fillStore(s, func(e engine.Entry, to []float32) (bool, error) {
		t, ok := given[e.Name]
		if !ok {
			return false, nil
		}
		v, err := t.Float32()
		if err == nil && !slices.Equal(t.Shape, []int(e.Shape)) {
			err = shapeError(t.Shape, e)
		}
		if err == nil {
			copy(to, v)
		}
		return true, err
	})
}

func shapeError(have []int, e engine.Entry) error {
	return fmt.Errorf("shape %v, the network has %v", have, e.Shape)
}

// fillStore has all parameters and states of a store read to their places; read says whether
// they are there.
//
// Errors: as fill; those of exit.Read.
func fillStore(s *engine.Store, read func(e engine.Entry, to []float32) (there bool, err error)) error {
	for _, e := range s.Entries() {
		to, _, _ := s.Get(e.Name)
		there, err := read(e, to)
		var known *exit.Error
		switch {
		case !there:
			return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the weights lack %q", e.Name), Why: fmt.Sprintf("the network has it with shape %v", e.Shape),
				Fix: "give weights of the same network"}
		case errors.As(err, &known):
			return err
		case err != nil:
			return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the weights of %q do not fit the network", e.Name), Why: err.Error(), Fix: "give weights of the same network", Err: err}
		}
		if slices.ContainsFunc(to, func(x float32) bool { return x-x != 0 }) { // which an activation may turn into 0
			return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the weights of %q are not finite", e.Name), Why: "the file was damaged, or the training diverged", Fix: "copy the model again, or train again"}
		}
	}
	return nil
}

// LocalTask is the task of this rank's slab.
func (m *Model) LocalTask() *task.Task {
	if m.Local != nil {
		return m.Local
	}
	return &m.Task
}
