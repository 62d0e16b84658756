package compress

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// pruneAtOnce prunes the network of a finished training without training, and compares it with the original on the
// validation samples.
//
// Errors: as Prune; exit 65 without calibration samples.
func pruneAtOnce(ctx context.Context, job *config.PruneConfig, o RetrainOptions) (r *RetrainResult, err error) {
	from := string(job.RunDir)
	run, err := beginDerived(derivation{from: from, to: o.RunDir, overwrite: o.Overwrite, threads: o.Threads, version: o.Version, config: job.Hash()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.dir.Close()) }()
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
	if m.Networks[0], m.Sparsity, err = pruneWeights(ctx, job.PruneJob, m, d.Train, network.Options(run.training.Train.Train.Threads, ""), o.Progress); err != nil {
		return nil, err
	}
	if err := run.copyFiles(m); err != nil {
		return nil, err
	}
	if err := run.dir.Publish(func() error { return m.Save(run.dir.File("model")) }); err != nil {
		return nil, err
	}
	runs := []string{from, o.RunDir}
	for _, other := range job.CompareWith {
		runs = append(runs, string(other))
	}
	table, err := compareEfficiency(ctx, run.training, runs, o.Timings)
	if err != nil {
		return nil, err
	}
	if err := run.dir.Publish(func() error { return table.save(o.RunDir) }); err != nil {
		return nil, err
	}
	outputs, err := run.finish(efficiencyFile)
	return &RetrainResult{&train.Result{RunDir: o.RunDir, Outputs: outputs, Warnings: d.Warnings, Sparsity: m.Sparsity}, table}, err
}

// pruneWeights removes weights from the network of a model, and returns the remaining ones.
//
// Errors: exit 64 for a target that the layers do not allow, or too little damping; those of reading the samples.
func pruneWeights(ctx context.Context, job config.PruneJob, m *model.Model, from samples.Examples, o engine.Options, p *progress.Reporter) (model.Weights, []model.Sparsity, error) {
	g, err := m.Spec.Graph(&m.Task, m.Grid, 1, 0, false)
	if err != nil {
		return nil, nil, err
	}
	weights := engine.NewStore()
	if err := errors.Join(weights.LayOut(g), model.Fill(weights, m.Networks[0])); err != nil {
		return nil, nil, err
	}
	layers := prune.Layers(g, weights.Entries())
	mask, err := chooseMask(job, layers, weights.Params)
	if err != nil {
		return nil, nil, err
	}
	if job.Prune.Method == config.OBSPruning {
		s := &surgery{job: job, model: m, weights: weights, samples: from, options: o}
		if err := s.prune(ctx, g, layers, mask, p); err != nil {
			return nil, nil, err
		}
	} else {
		for i, keep := range mask.Mask() {
			if !keep {
				weights.Params()[i] = 0
			}
		}
	}
	w := model.CopyWeights(weights)
	sparsity, err := model.SparsityOf(layers, w)
	return w, []model.Sparsity{sparsity}, err
}

// chooseMask chooses weights at random or by their size: for method obs only how many go.
func chooseMask(job config.PruneJob, layers []prune.Layer, w prune.Weights) (*prune.Pruner, error) {
	o := train.PruneOptions(job.Prune, 1, 2)
	o.From, o.To, o.Every = 0, 1, 1
	if job.Prune.Method == config.OBSPruning {
		o.Method = prune.Magnitude
	}
	p, err := prune.New(layers, len(w()), o)
	if err != nil {
		return nil, err
	}
	_, err = p.Step(1, 0, w, nil)
	return p, err
}
