package plan

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/optim/kfac"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// addLargeBatch adds scaled rates with LAMB, whose step is that of synchronous training.
func (s *strategist) addLargeBatch() error {
	x := s.synchronous(largeBatchSystem, s.reference)
	x.Setting, x.Results = "train.optimizer: lamb, train.learning_rate_scaling: sqrt", optimiserResults
	x.Configured = slices.Contains([]string{"lars", "lamb"}, s.o.Config.Train.Train.Optimizer)
	batch := s.subject.Batch * max(1, s.o.Config.Train.Train.Accumulate)
	x.Proposed, x.Why = batch >= largeBatch && x.Fits, fmt.Sprintf("a step has %d samples, %d or more; whether it needs fewer steps only a training tells", batch, largeBatch)
	if batch < largeBatch {
		x.Why = fmt.Sprintf("a step has %d samples, less than %d", batch, largeBatch)
	}
	s.all = append(s.all, x)
	return nil
}

// addKFAC adds synchronous steps that K-FAC preconditions. In the mean over the steps between two updates of the curvature
//
//	T = T(synchronous) + products/rate + (T(step with factors) − T(synchronous) + Σ side³/r + ⌈log₂N⌉·(α + βn)) / refresh
//
// with the inversions of the busiest rank at the rate r of one thread, and n bytes of inverses that all ranks receive. Whether it saves
// as many steps as it costs only a training tells.
//
// Source: Osawa et al. 2019, arXiv:1811.12019 (distribution of factors and inversions over ranks).
func (s *strategist) addKFAC() error {
	k := s.o.Config.Train.Train.KFAC
	layers, err := search.Factors(s.g, k.MaxSide)
	if err != nil {
		return err
	}
	inverses := kfac.InverseValues(layers)
	if inverses == 0 { // no layer has factors
		return nil
	}
	p, err := search.CostWithFactors(s.ctx, s.g, s.machine, s.optimiser, s.reference.Mesh, k.MaxSide)
	if err != nil {
		return err
	}
	ranks := max(1, s.reference.Mesh.Size())
	send, sent := s.machine.UnitsExchange(1, ranks, 1, inverses) // a broadcast
	update := (p.Step - s.reference.Step + send).Seconds() + float64(kfac.InversionCost(layers, ranks))/kfac.InverseRate
	mean := s.machine.FLOPsTime(kfac.ApplyFLOPs(layers)).Seconds() + update/float64(max(1, k.Refresh))

	x := s.synchronous(kfacSystem, s.reference)
	even := x.EvenStepS
	x.EvenStepS += mean
	x.StepS += mean
	x.Setting, x.Results = fmt.Sprintf("train.optimizer: kfac, train.kfac.refresh: %d", k.Refresh), optimiserResults
	x.Configured = s.o.Config.Train.Train.Optimizer == config.KFACOptimizer && !s.o.Config.Train.Train.Pipeline.IsEnabled()
	x.MemoryBytes = max(p.Memory, s.reference.Memory) + kfac.Bytes(layers, setup.KFACOptions(&s.o.Config.Train.Train))
	x.SentBytes += (sentBytes(p) - sentBytes(s.reference) + sent) / int64(max(1, k.Refresh))
	x = s.with(x, computing(s.reference)+mean)
	x.Why = fmt.Sprintf("an update takes %.3g s; it is faster if a training needs more than %s %% fewer steps, which only a training tells", update, percent(1-even/x.EvenStepS))
	if !x.Fits {
		x.Why = "it does not fit into the memory of a rank"
	}
	s.all = append(s.all, x)
	return nil
}
