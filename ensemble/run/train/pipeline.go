package train

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/pipelined"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
)

// compilePipeline compiles the stages of this rank. The division into stages is that of a checkpoint with as many stages, which
// keeps the bits of a resumed training.
func (t *trainer) compilePipeline(spec network.Spec, o engine.Options) error {
	n, ranks := t.current, *t.ranks
	if len(t.pos.Cuts) == len(ranks.Pipeline.Cuts) {
		p := *ranks.Pipeline
		p.Cuts, ranks.Pipeline = t.pos.Cuts, &p
	}
	count, err := setup.MicroBatches(&n.cfg)
	if err != nil {
		return err
	}
	share := n.cfg.BatchSize / ranks.Pipeline.Mesh.DataRanks()
	g, err := spec.Graph(&t.model.Task, t.model.Grid, share/count, t.seed(), true)
	if err != nil {
		return err
	}
	if n.pipeline, err = pipelined.Compile(g, n.store, pipelined.Options{Ranks: &ranks, Training: n.cfg, Engine: spec.Options(o)}); err != nil {
		return err
	}
	if err := n.pipelineCurvature(); err != nil {
		return err
	}
	first := ranks.DataGroup(ranks.Comm.Rank()) * share
	t.pos.Cuts, n.rows = slices.Clone(ranks.Pipeline.Cuts), spatial.Interval{Lo: first, Hi: first + share}
	return t.dir.Events().Write("pipeline", t.pos.Step, t.pos.Epoch+1, rundir.Value{Name: "pipeline", Value: ranks.Pipeline.Text}, rundir.Value{Name: "stages", Value: n.pipeline.Stages()})
}

// idleShare is the share of an epoch's pipeline steps in which ranks ran no passes, their mean, from the values of all ranks; and with
// K-FAC the part of it in which they ran inversions. nil without a pipeline.
func idleShare(all []rundir.Value) []rundir.Value {
	of := map[string]float64{}
	for _, v := range all {
		if x, ok := v.Value.(float64); ok {
			of[v.Name] = x
		}
	}
	if of["pipeline_s"] == 0 {
		return nil
	}
	shares := []rundir.Value{{Name: "pipeline_idle", Value: 1 - of["passes_s"]/of["pipeline_s"]}}
	if filled, ok := of["filled_s"]; ok {
		shares = append(shares, rundir.Value{Name: "pipeline_filled", Value: filled / of["pipeline_s"]})
	}
	return shares
}
