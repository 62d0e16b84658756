package compress

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/engine/prune/obs"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// pruneAtOnce prunes the network of a finished training without training, and compares it with the original on the
// validation samples.
//
// Errors: as Prune; exit 65 without calibration samples.
func pruneAtOnce(ctx context.Context, job *config.PruneConfig, o RetrainOptions) (*RetrainResult, error) {
	from := string(job.RunDir)
	run, err := beginDerived(derivation{from: from, to: o.RunDir, overwrite: o.Overwrite, threads: o.Threads, version: o.Version, config: job.Hash()})
	if err != nil {
		return nil, err
	}
	defer run.dir.Close()
	m, err := model.Load(filepath.Join(from, "model"), false)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := checkPrunable(m, len(m.Networks), from); err != nil {
		return nil, err
	}
	d, err := run.readData(ctx)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	s := &surgery{job: job.PruneJob, model: m, calibration: obs.Calibration{MaxSide: job.Calibration.MaxSide}}
	if err := s.prune(ctx, d.Train, network.Options(run.training.Train.Train.Threads, ""), o.Progress); err != nil {
		return nil, err
	}
	if err := run.copyFiles(m); err != nil {
		return nil, err
	}
	if err := m.Save(run.dir.File("model")); err != nil {
		return nil, err
	}
	runs := []string{from, o.RunDir}
	for _, other := range job.CompareWith {
		runs = append(runs, string(other))
	}
	table, err := compareEfficiency(ctx, run.training, runs)
	if err != nil {
		return nil, err
	}
	if err := table.save(o.RunDir); err != nil {
		return nil, err
	}
	outputs, err := run.finish(efficiencyFile)
	return &RetrainResult{&train.Result{RunDir: o.RunDir, Outputs: outputs, Warnings: d.Warnings, Sparsity: m.Sparsity}, table}, err
}

// surgery prunes one network at once.
type surgery struct {
	job         config.PruneJob
	model       *model.Model
	calibration obs.Calibration
}

// prune removes weights from the network of the model. Every layer loses as many as by magnitude.
//
// Errors: exit 64 for a target that the layers do not allow, or too little damping; those of reading the samples.
func (s *surgery) prune(ctx context.Context, from samples.Examples, o engine.Options, p *progress.Reporter) error {
	m, hessians := s.model, s.job.Prune.Method == config.OBSPruning
	if hessians {
		o.Passes = s.calibration.Passes()
		o.Extension = engine.FinishFunc(func(err error) error {
			if err == nil {
				s.calibration.Observe(m.Network.Plan)
			}
			return err
		})
	}
	if err := m.Open(o); err != nil {
		return err
	}
	g, err := m.Spec.Graph(&m.Task, m.Grid, 1, 0, false)
	if err != nil {
		return err
	}
	weights := engine.NewStore() // runs fill that of the plan
	if err := errors.Join(weights.LayOut(g), model.Fill(weights, m.Networks[0])); err != nil {
		return err
	}
	all := prune.Layers(g, weights.Entries())
	mask, err := s.masks(all, weights.Params)
	if err != nil {
		return err
	}
	if hessians {
		if err := s.calibrate(ctx, from, o, p); err != nil {
			return err
		}
	}
	for _, l := range mask.Layers() {
		if err := s.pruneLayer(l, weights, mask.Mask()[l.Offset:l.Offset+l.Size()]); err != nil {
			return err
		}
	}
	m.Networks[0] = model.CopyWeights(weights)
	sparsity, err := model.SparsityOf(all, m.Networks[0])
	m.Sparsity = []model.Sparsity{sparsity}
	return err
}

// calibrate runs the network on training samples, for the Hessians.
//
// Errors: exit 65 without samples.
func (s *surgery) calibrate(ctx context.Context, from samples.Examples, o engine.Options, p *progress.Reporter) error {
	order, err := calibrationOrder(from, s.job.Calibration.Inits)
	if err != nil {
		return err
	}
	task := p.Start("calibrate", int64(len(order)))
	defer task.Done()
	return predictEach(ctx, s.model, o, from, order, func(i int, _ *ensemble.Forecast) { task.Set(int64(i+1), "") })
}

// masks chooses weights at random or by their size: for method obs only how many each layer keeps.
func (s *surgery) masks(layers []prune.Layer, w prune.Weights) (*prune.Pruner, error) {
	o := train.PruneOptions(s.job.Prune, 1, 2)
	o.From, o.To, o.Every = 0, 1, 1
	if s.job.Prune.Method == config.OBSPruning {
		o.Method = prune.Magnitude
	}
	p, err := prune.New(layers, len(w()), o)
	if err != nil {
		return nil, err
	}
	_, err = p.Step(1, 0, w, nil)
	return p, err
}

// pruneLayer sets the weights of a layer that keep does not keep to 0; by method obs, blocks of as many weights whose removal
// costs least, and adapts the others with the bias. Layers without a Hessian, such as transposed convolutions, lose their
// smallest blocks.
//
// Errors: exit 64 for too little damping.
func (s *surgery) pruneLayer(l prune.Layer, store *engine.Store, keep []bool) error {
	w := store.Params()[l.Offset : l.Offset+l.Size()]
	if s.job.Prune.Method == config.OBSPruning {
		bias, _, _ := store.Get(s.calibration.Bias(l.Param))
		o := s.job.Prune.Block
		if p, ok := s.calibration.Problem(l.Param, w, bias, o.Out, o.In, s.job.Calibration.Damping); ok {
			p.KeepColumns = l.ReadsInput
			removed := 0
			for _, k := range keep {
				if !k {
					removed++
				}
			}
			if _, err := p.Remove(removed); err != nil {
				return &exit.Error{Code: exit.Usage, What: "the blocks of " + l.Name + " cannot be removed by their Hessian", At: "calibration.damping", Why: err.Error(), Fix: "set a larger calibration.damping", Err: err}
			}
			s.calibration.Write(l.Param, p, w, bias)
			return nil
		}
	}
	for i, k := range keep {
		if !k {
			w[i] = 0
		}
	}
	return nil
}
