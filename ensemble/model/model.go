package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Model is a trained model: a task, one or more networks whose outputs are averaged, and
// baselines fitted on the same training dates. One goroutine uses it at a time, since its
// networks share one plan and one batch.
type Model struct {
	Spec network.Spec
	Task task.Task
	Metadata
	// Family is the family of the predicted distribution; nil for other heads.
	Family   *dist.Family
	Networks []Weights
	// Bias and Spreads are the networks of the first two stages of a training in stages: correction
	// of the mean, and spread of the full ensemble. Networks are then those of sigma.
	Bias      Weights
	Spreads   []Weights
	Baselines []task.Baselines // [target]; empty without analyses
	Coupling  []score.Coupling // results of the coupling test of the training
	Climate   *task.Climate    // of the training; nil for none, and in a model that was loaded
	Drift     *Drift           // of the training; in a model that was loaded nil until it is set to the result of LoadDrift

	arraysFile  *ckpt.File                      // file from which maps are read on demand; nil if all are in memory
	kept        map[weightSlot]*engine.Snapshot // weights that were uploaded to a device
	weightsFile *ckpt.File                      // file from which the weights of an only network are read by Open; else nil
	Ranks       *team.Team                      // ranks that predict together; nil for one process
	Local       *task.Task                      // of this rank; nil before Open
	Network     *network.Network                // compiled by Open; runs the networks in turn
	options     engine.Options                  // options of Network
	bias        *network.Network                // compiled network of Bias; nil for none
	output      memberOutput
}

// Metadata holds the properties of a model besides its networks, task and arrays.
type Metadata struct {
	Version string          `json:"version"`         // of the program that trained it
	Control string          `json:"members_control"` // use of the control, as data.members.control
	Trained ensemble.Period `json:"trained"`         // training period
	// Origins are those of the training forecasts; empty if unknown.
	Origins []ensemble.Origin `json:"origins,omitempty"`
	// Units are those of variables outside the vocabulary, as the training data state them; "1" without.
	Units map[string]string `json:"units,omitempty"`
	// Naming is what data.names and data.units of the training state; predictions and verifications use the same.
	Naming ensemble.Naming `json:"naming,omitzero"`
	Grid   *ensemble.Grid  `json:"grid"`
	// Interpolation is that of the training data; predictions use the same.
	Interpolation task.Interpolation `json:"interpolation,omitzero"`
	// Recalibrations, by target, convert the distribution; Calibrations map probabilities of
	// events. They are fitted on validation dates. Nil for none.
	Recalibrations []Recalibration `json:"recalibrations,omitempty"`
	Calibrations   []Calibration   `json:"calibrations,omitempty"`
	Sparsity       []Sparsity      `json:"sparsity,omitempty"` // of each network; empty without pruning
	Sharing        *sharing.Plan   `json:"sharing,omitempty"`  // parameter sharing of each network; nil for none
	// Int8 holds the scales of convolutions that predict in int8, by the names of their filters;
	// nil for none.
	Int8 map[string]*op.Int8Scales `json:"int8,omitempty"`
}

// Weights holds the parameters and states of one network by name.
type Weights []ckpt.Tensor

// Files of a model folder.
const (
	File          = "model.json"
	ArraysFile    = "arrays.safetensors"
	WeightsFormat = "weights-%02d.safetensors"
	BiasFile      = "bias.safetensors"
	spreadsFormat = "spread-%02d.safetensors"
)

// schema identifies the format of model.json.
const schema = "ensemble.model/3"

// Description is the content of model.json: everything except arrays.
type Description struct {
	Schema   string                   `json:"schema"`
	Networks int                      `json:"networks"` // number of files of weights
	Spec     network.Spec             `json:"network"`
	Family   string                   `json:"family,omitempty"` // ID of the predicted family
	Kind     ensemble.Standardisation `json:"standardise"`
	Task     task.Task                `json:"task"`
	Metadata
}

// Save writes the files of a model folder, model.json last.
//
// Arrays are tensors named kind.index: feature_mean and feature_scale of each input field (one
// value, or a map), anomaly_centre and anomaly_width of each target, auxiliary of each auxiliary
// field. Weights of pruned models are packed.
//
// Errors: exit 73 or 74; each file is replaced atomically.
func (m *Model) Save(dir string) error {
	if err := atomicfile.MkdirAll(dir, 0o755); err != nil {
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

// WeightFiles returns the weights of a model with n networks, by the names of their files. Callers
// read or set them through the pointers. A model that was trained in stages has a file of the mean's
// network, and one for each spread network, in addition.
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

// SaveDescription writes the files that verification needs: baselines, results of the coupling test
// and, last, model.json.
//
// Errors: as Save.
func (m *Model) SaveDescription(dir string) error {
	if err := atomicfile.MkdirAll(dir, 0o755); err != nil {
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

// Load reads a model folder. With lean, the maps of normalisers and the weights of an only network
// stay in their files, which Close closes: they may need more memory than everything else.
//
// Errors: exit 66 if there is no model, exit 65 if it is damaged.
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

// damagedError returns a function that makes the error of a damaged model folder.
func damagedError(dir string) func(why string) error {
	return func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "the model is damaged", At: filepath.Join(dir, File), Why: why, Fix: "train again, or copy the whole folder again"}
	}
}

// LoadDescription reads the files of SaveDescription, and validates model.json.
//
// The schema is read before all else, so a model of another version is not reported as damaged.
// Sizes are compared here, because later code indexes by them.
//
// Errors: as Load.
func LoadDescription(dir string) (*Model, *Description, error) {
	path := filepath.Join(dir, File)
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &exit.Error{Code: exit.NotYet, What: "no trained model", At: path,
			Why: "the training did not finish, or the folder is not a run directory", Fix: "train first: ensemble train -c FILE --run-dir DIR", Err: err}
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
		return nil, nil, &exit.Error{Code: exit.BadData, What: "the model has another format", At: path, Why: fmt.Sprintf("schema %q, this program reads %q", head.Schema, schema), Fix: "train the model again"}
	}
	var f Description
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, nil, bad(err.Error())
	}
	if err := f.Spec.Check(); err != nil {
		return nil, nil, bad(err.Error())
	}
	if f.Spec.ReadsMembers() != (len(f.Task.Features.MemberInputs) > 0) || f.Spec.Auxiliary != len(f.Task.Features.Auxiliary) || f.Spec.Staged() != (f.Spec.Bias != network.BiasSpec{}) {
		return nil, nil, bad(fmt.Sprintf("method %q, members %q and %d auxiliary fields do not match the rest of the description", f.Spec.Method, f.Spec.Members, len(f.Task.Features.Auxiliary)))
	}
	m := &Model{Spec: f.Spec, Task: f.Task, Metadata: f.Metadata, Family: f.Spec.PredictedFamily(f.Networks)}
	if (f.Family == "") != (m.Family == nil) || m.Family != nil && f.Family != m.Family.ID {
		return nil, nil, bad(fmt.Sprintf("distribution %q does not match the head of the network", f.Family))
	}
	if bins := m.Spec.Head.Bins(); bins > 0 && slices.ContainsFunc(m.Task.Edges, func(e []float64) bool { return len(e) != bins+1 }) || bins > 0 != (m.Task.Edges != nil) {
		return nil, nil, bad(fmt.Sprintf("histogram head with %d bins, but the task has another number of edges", bins))
	}
	if n := len(m.Task.ErrorScale); len(m.Task.LargestSpread) != n || m.Task.LargestError != nil && len(m.Task.LargestError) != n {
		return nil, nil, bad("the largest errors or spreads of the training are missing")
	}
	if err := f.checkInt8(filepath.Join(dir, File)); err != nil {
		return nil, nil, err
	}
	if (m.Spec.Head.Recalibration() != "") != (len(m.Recalibrations) > 0) || slices.ContainsFunc(m.Recalibrations, func(r Recalibration) bool { return !r.isValid() }) {
		return nil, nil, bad("recalibration is missing or invalid")
	}
	if slices.ContainsFunc(m.Calibrations, func(c Calibration) bool { return !c.Mapping.Valid() || c.Event.Relation != ensemble.Above }) {
		return nil, nil, bad("the calibration of a probability is not a monotonically increasing function")
	}
	if m.Baselines, err = task.LoadBaselines(filepath.Join(dir, task.BaselinesFile), m.Grid.Size()); err != nil {
		return nil, nil, err
	}
	m.Coupling, err = loadCoupling(dir)
	return m, &f, err
}

// loadArrays reads the normalisers, the maps of the anomaly and auxiliary fields.
//
// With lean, Features.Maps reads the maps of a field when they are needed, and the file stays open.
//
// Errors: exit 65 for an array that is missing or has another size; exit 66 or 74 for the file.
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
			return bad(fmt.Sprintf("normaliser %d in %s is missing or has another size", i, ArraysFile))
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
			return nil, bad(fmt.Sprintf("%s %d in %s is missing or has another size", name, i, ArraysFile))
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

// Forecast is the prediction of a model for one initialisation, in physical units.
//
// Shape: Mean, Sigma, Spread [lead][variable][level][NY·NX]; Mean and Sigma are nil for a spread
// head. Parameters [parameter] of this shape are those of a distribution that is not normal, in the
// order of its family; those of a normal distribution are Mean and Sigma. Spread is nil if no loss trained it.
type Forecast struct {
	Mean, Sigma, Spread []float32
	Parameters          [][]float32
	// Members [member][lead][variable][level][NY·NX] are those of a network that corrects members, in the order of
	// the forecast, once for each draw of noise. Mean and Sigma are computed from them, and Spread is nil.
	Members []float32
	Clipped int // number of negative values of Spread that were set to 0
	// Departures are the largest distances from the members, by target; complete on all ranks.
	Departures []Departure
}

// Predict runs the networks on some members of a forecast, usually those of the task, and averages
// their outputs. With several ranks each gives its slab of the forecast; the root rank gets the
// result, the others only its departures.
//
// Errors: a forecast with other axes or another grid, outputs that are not finite, context errors.
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

// Prepare computes the network's input from a forecast, which is not needed afterwards, and returns
// the statistics of the targets in storage order. The network must be open.
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

// Infer runs the networks on the input of Prepare. Outputs are averaged in units of the network,
// before the conversion to physical units; both orders agree, as the conversion is linear, except
// for the clipping of spreads. Recalibration precedes censoring, because it holds for the normal
// distribution.
//
// Errors: as Predict.
func (m *Model) Infer(ctx context.Context, init ensemble.Init, stats []task.Statistics) (*Forecast, error) {
	n := len(m.Network.Batch.Spread)
	if m.Spec.PredictsMembers() {
		out := &Forecast{}
		shifts, err := m.memberShifts(ctx)
		if err != nil {
			return nil, err
		}
		err = m.correctMembers(out, shifts, init)
		return m.gather(out, stats, err)
	}
	out := &Forecast{Spread: make([]float32, n)}
	other := m.newParameterAverage(n)
	if m.Spec.Head.Distribution != nil && other == nil {
		out.Mean, out.Sigma = make([]float32, n), make([]float32, n)
	}
	sums := map[string][]float32{network.OutSpread: out.Spread, network.OutShift: out.Mean, network.OutSigma: out.Sigma}
	if err := m.average(ctx, sums, other); err != nil {
		return nil, err
	}
	err := m.toPhysical(out, init, stats)
	if err == nil {
		m.recalibrate(out, len(stats))
		m.censor(out, len(stats))
	}
	if other != nil && err == nil {
		err = other.toPhysical(out, init, stats)
	}
	if !m.Spec.TrainsSpread() {
		out.Spread, out.Clipped = nil, 0
	}
	return m.gather(out, stats, err)
}

// average runs the networks on the batch and adds their outputs, each with its share, to sums; outputs without a
// sum to other.
func (m *Model) average(ctx context.Context, sums map[string][]float32, other *parameterAverage) error {
	for _, p := range m.inferences() {
		if m.weightsFile == nil { // else Open has set the weights
			if err := m.fill(p); err != nil {
				return err
			}
		}
		p.net.Load(&m.Network.Batch)
		if err := p.net.Plan.Run(ctx, 0); err != nil {
			return err
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
	return nil
}

// fill sets the weights of a network. On a device with memory of its own the weights stay there for
// all predictions, if there is memory for those of all networks. A device that has no memory left
// for a copy is no error: its weights are uploaded for each run.
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

// weightSlot identifies weights that were given to a compiled network.
type weightSlot struct {
	net     *network.Network
	weights *ckpt.Tensor
}

// inference is one run of a compiled network in a prediction: its weights, the outputs that are
// used, and their weight share in the average.
type inference struct {
	net     *network.Network
	weights Weights
	outputs []string
	share   float32
}

// inferences lists the runs of a prediction. The network of the mean has share 1, since stages have
// one; spreads and sigmas are averaged over networks.
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

// toPhysical converts the outputs of the network to physical units: Mean = members' mean + e·shift,
// Sigma = e·sigma, Spread = max(0, e·spread) with the error scale e.
//
// Missing: NaN where the members' mean is NaN.
// Errors: exit 65 for values that are not finite.
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
				return notFiniteError(k, init, at, q, out.describe(i))
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

// NotFinite is what an output that is no distribution is called in errors, also in those that other ranks report.
const NotFinite = "the network's output is not finite, or its spread is not positive"

// notFiniteError makes the error of an output that is not finite, or of a spread that is not positive.
func notFiniteError(k *task.Task, init ensemble.Init, at, point int, why string) error {
	return &exit.Error{Code: exit.BadData, What: NotFinite, At: fmt.Sprintf("initialisation %s, %s, point %d", init, k.TargetName(at), point), Why: why,
		Fix: "check the input's values with `ensemble inspect --stats`; publish a fallback forecast with on_failure: fallback; or train again with a lower train.learning_rate"}
}

// slabResult is what a rank reports of its slab of a forecast.
type slabResult struct {
	Clipped    int
	Departures []Departure
}

// gather finds the departures of a forecast and gathers the slabs of all ranks on the root rank, unless a
// rank has an error.
//
// Every rank must call it, also with an error: the others wait for its outcome, and all return an
// error. Points are counted on the primary rank of each slab, so that replicas do not count twice.
func (m *Model) gather(out *Forecast, stats []task.Statistics, err error) (*Forecast, error) {
	if err == nil {
		out.Departures = Departures(m.LocalTask(), m.Ranks.Shard().LocalGrid(m.Grid), out, stats)
	}
	if m.Ranks == nil {
		return out, err
	}
	slabs, err := team.AllGatherOutcomes(m.Ranks, team.Outcome[slabResult]{Result: slabResult{out.Clipped, out.Departures}}, err)
	if err != nil {
		return nil, err
	}
	out.Clipped = 0
	var departures [][]Departure
	for r, c := range slabs {
		if m.Ranks.Shard().IsPrimary(r) {
			out.Clipped += c.Result.Clipped
		}
		departures = append(departures, c.Result.Departures)
	}
	out.Departures = joinDepartures(departures)
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
		if out.Members, err = team.GatherFields(m.Ranks, out.Members, m.memberCount()*len(m.Task.Targets)); err != nil {
			return nil, err
		}
	}
	if !m.Ranks.IsRoot() {
		return &Forecast{Departures: out.Departures}, nil
	}
	return out, nil
}

// describe gives the values at point i.
func (f *Forecast) describe(i int) string {
	text := fmt.Sprintf("full ensemble's spread %g", f.Spread[i])
	if f.Mean != nil {
		text = fmt.Sprintf("mean %g, spread %g, ", f.Mean[i], f.Sigma[i]) + text
	}
	return text
}

// isFinite reports whether spread, mean and sigma at point i are finite, and sigma is positive. x −
// x is 0 for finite x, and NaN for infinity and NaN.
func isFinite(spread float32, out *Forecast, i int) bool {
	ok := func(x float32) bool { return x-x == 0 }
	return ok(spread) && (out.Mean == nil || ok(out.Mean[i]) && ok(out.Sigma[i]) && out.Sigma[i] > 0)
}

// Open compiles the network for a batch of one sample. Networks use the compiled plan in turn, with
// their own weights, so that there is memory for the fields of one network.
//
// A model that is open stays as it is. Filters with zero blocks or the 2:4 pattern get kernels that skip the
// zeros, and quantised models int8 kernels.
//
// Errors: those of the compiler; exit 65 for weights that do not match the network.
func (m *Model) Open(o engine.Options) error {
	if m.Network != nil {
		return nil
	}
	m.options = o
	if m.Local == nil {
		m.Local = &m.Task
	}
	o.Store, o.Mode, o.DonateInputs = engine.NewStore(), engine.Infer, m.Ranks == nil // inputs are written again before every run
	zeros, err := m.zeroPatterns()
	if err != nil {
		return err
	}
	o.BlockMasks, o.TwoFourFilters = zeros.kept, zeros.twoFour
	if o.Int8, err = m.int8Scales(); err != nil {
		return err
	}
	m.Network, err = m.Spec.Compile(&m.Task, m.Grid, 1, 0, false, o, m.Ranks)
	if errors.Is(err, pass.ErrPrecision) && o.Precision == "" {
		// The precision of the training was not requested. This device has a more accurate one.
		o.Precision = "f32"
		m.Network, err = m.Spec.Compile(&m.Task, m.Grid, 1, 0, false, o, m.Ranks)
	}
	if err != nil {
		return err
	}
	if m.Spec.Staged() {
		o.Store = engine.NewStore()
		if zeros, err = findZeroPatterns(m.Bias); err != nil {
			return err
		}
		o.BlockMasks, o.TwoFourFilters = zeros.kept, zeros.twoFour
		m.bias, err = m.Spec.ForStage(network.BiasStage).Compile(&m.Task, m.Grid, 1, 0, false, o, m.Ranks)
		return err
	}
	repeated := m.output.count > m.Spec.MemberCount(&m.Task)
	if repeated {
		b := &m.Network.Batch
		b.Noise.Fields = make([]float32, len(b.Members)/len(m.Task.Features.MemberInputs))
	}
	if len(m.Networks) == 1 && m.Ranks == nil && !repeated { // a run may overwrite the input of the next
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

// Close frees the compiled network and closes the files of the model. Open may be called again for a
// model whose weights are in memory.
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
//
// Memory: a copy of all weights.
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
// Errors: exit 65 for a missing name, another shape, or values that are not finite.
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

// shapeError makes the error of a shape that differs from the network's.
func shapeError(have []int, e engine.Entry) error {
	return fmt.Errorf("shape %v, want %v", have, e.Shape)
}

// fillStore reads all parameters and states of a store. read fills the values of an entry, and
// reports whether the source has it.
//
// Errors: as Fill; those of exit.Read.
// Cost: one pass over all values, to find those that are not finite.
func fillStore(s *engine.Store, read func(e engine.Entry, to []float32) (found bool, err error)) error {
	for _, e := range s.Entries() {
		to, _, _ := s.Get(e.Name)
		found, err := read(e, to)
		var known *exit.Error
		switch {
		case !found:
			return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the weights lack %q", e.Name), Why: fmt.Sprintf("the network has a parameter of this name with shape %v", e.Shape),
				Fix: "give weights of the same network"}
		case errors.As(err, &known):
			return err
		case err != nil:
			return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the weights of %q do not match the network", e.Name), Why: err.Error(), Fix: "give weights of the same network", Err: err}
		}
		if slices.ContainsFunc(to, func(x float32) bool { return x-x != 0 }) { // an activation could hide NaN in the output
			return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("the weights of %q are not finite", e.Name), Why: "the file was damaged, or the training diverged", Fix: "copy the model again, or train again"}
		}
	}
	return nil
}

// LocalTask returns the task of this rank's slab. It is the whole task without ranks.
func (m *Model) LocalTask() *task.Task {
	if m.Local != nil {
		return m.Local
	}
	return &m.Task
}
