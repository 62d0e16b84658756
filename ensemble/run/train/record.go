package train

import (
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// record writes the results of a finished training besides its model: scores, the map example of the report,
// and the manifest with the checksums of all outputs. Only rank 0 writes. resumed is the step that the run
// resumed from.
func (t *trainer) record(o Options, run *trainingRun, j evaluation, resumed uint64) (*Result, error) {
	res := &Result{RunDir: o.RunDir, Steps: t.pos.Step, Input: t.observers.input.Result(), Scores: j.scores, Sparsity: t.model.Sparsity, StepCost: t.sizeTimes.cost(), Sharing: t.model.Sharing, Warnings: t.data.Warnings}
	if !t.ranks.IsRoot() {
		return res, nil
	}
	defer o.Progress.Start("write results", 0).Done()
	if j.example != nil {
		t.kernels.timings.Save(t.kernels.table)
		if err := t.dir.Publish(func() error { return t.writeScores(o, j) }); err != nil {
			return nil, err
		}
	}
	if err := t.dir.Events().Write("done", t.pos.Step, 0, rundir.Value{Name: "resumed_from", Value: resumed}); err != nil {
		return nil, err
	}
	made, err := trained.Outputs(t.dir, res.Scores != nil)
	if err != nil {
		return nil, err
	}
	for _, name := range made {
		res.Outputs = append(res.Outputs, t.dir.File(name))
	}
	m, err := t.manifest(o, run, j)
	if err != nil {
		return nil, err
	}
	if err := t.dir.Events().Sync(); err != nil {
		return nil, err
	}
	return res, t.dir.WriteManifest(m, made)
}

// writeScores writes the results on the test samples.
func (t *trainer) writeScores(o Options, j evaluation) error {
	if err := model.SaveCoupling(t.dir.File("model"), t.model.Coupling); err != nil {
		return err
	}
	if err := trained.WriteScores(o.RunDir, j.scores); err != nil {
		return err
	}
	return j.example.Save(o.RunDir)
}

// manifest returns the record of a finished training.
func (t *trainer) manifest(o Options, run *trainingRun, j evaluation) (rundir.Manifest, error) {
	d := t.data
	sum, err := trained.ModelChecksum(t.dir.File("model"))
	details := map[string]any{"steps": t.pos.Step, "determinism": "D1", "members_used": d.Used, "members_full": len(d.All),
		"inits_train": len(d.Train.Inits), "inits_validation": len(d.Validation.Inits), "inits_test": len(d.Test.Inits)}
	if run.compared != nil {
		run.compared.Mesh = t.ranks.Division()
		details["ranks"] = run.compared
	}
	if j.departures != nil {
		details["test_departures"] = j.departures
	}
	return rundir.Manifest{
		Record: manifest.Record{Status: manifest.OK, Version: o.Version, ConfigChecksum: "sha256:" + t.hash, ModelChecksum: sum,
			Start: run.started, End: time.Now().UTC(), Inputs: d.Inputs, Warnings: d.Warnings},
		Command: "train", Identity: run.identity,
		Details: details,
	}, err
}
