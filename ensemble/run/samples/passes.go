package samples

import (
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// PlanReads plans what the caches keep for the passes over samples that follow. All ranks call it with the same
// passes, while none reads.
func (d *Data) PlanReads(passes []loader.Pass) {
	d.Source.PlanCaches(passes, len(SplitInits(d.Split)), d.readers.own)
}

// Pass returns a pass over samples in which all ranks read all, in an order; nil is by date.
func (e Examples) Pass(order []int) loader.Pass { return loader.Pass{Common: e.reads(order)} }

// Span is a part of a training: from a batch of an epoch to before the epoch End, counted from 0.
type Span struct{ Epoch, Batch, End int }

// TrainingPasses returns the passes of a part of the training of one network on some of the training samples (nil: all):
// training samples, which data-parallel groups share, and validation samples.
func (d *Data) TrainingPasses(c config.Training, network int, only []int, part Span) []loader.Pass {
	s, group := d.Schedule(c, network, only)
	s.Epochs, s.Test = part.End, 0
	groups := d.readers.groups
	if groups == nil {
		groups = []int{group}
	}
	passes := s.Passes(part.Epoch)
	for i, p := range passes {
		if p.Own == nil {
			continue
		}
		own := make([][]int, len(groups))
		for r, g := range groups {
			if own[r] = p.Own[g]; i == 0 {
				lo, hi := s.Share(g, s.Batch)
				own[r] = own[r][part.Batch*(hi-lo):]
			}
		}
		passes[i].Own = own
	}
	return passes
}

// firstPasses returns the passes up to the end of the first network: statistics, baselines, its epochs, and one over
// validation and test. What follows the training is planned before it begins.
func (d *Data) firstPasses(c *config.TrainConfig) []loader.Pass {
	every := d.Train
	every.Inits = SplitInits(d.Split)
	passes := []loader.Pass{every.Pass(nil)}
	targets := len(setup.TaskOf(c).Targets)
	for v := 0; v < targets; v += d.TargetsPerPass() {
		passes = append(passes, d.BeforeTest().Pass(nil))
	}
	for range targets {
		if c.Climate.File == "" && c.Climate.Source != config.NoClimate {
			passes = append(passes, d.BeforeTest().Pass(nil))
		}
	}
	passes = append(passes, d.TrainingPasses(c.Train.Train, 0, nil, Span{End: c.Train.Train.Epochs})...)
	return append(passes, d.Validation.Pass(nil), d.Test.Pass(nil))
}

// TargetsPerPass is the number of target variables and leads whose baselines are fitted in one pass over the samples.
func (d *Data) TargetsPerPass() int { return d.Ranks.Size() }

// ReadCounts returns the reads of samples so far, summed over all ranks. Errors and waiting times are those of this rank. All
// ranks call it at the same point.
func (d *Data) ReadCounts() (loader.Counts, error) {
	c := d.Source.Counts()
	of := []*loader.Count{&c.Prefetched, &c.Memory, &c.Disk, &c.Peers, &c.FileSystem}
	var own []float64 // bytes are exact up to 2⁵³
	for _, n := range of {
		own = append(own, float64(n.Reads), float64(n.Bytes))
	}
	totals, err := d.Ranks.Totals(own)
	if err != nil {
		return c, err
	}
	for i, n := range of {
		n.Reads, n.Bytes = int64(totals[2*i].Sum), int64(totals[2*i+1].Sum)
	}
	return c, nil
}
