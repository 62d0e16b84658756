package plan

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/spatial/pipeline/price"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// addPipeline adds the fastest pipeline, or that of the configuration, by first-order steps. All ranks wait for the slowest stage in
// every micro-batch.
//
// Errors: those of price.Pipeline.Step.
func (s *strategist) addPipeline(p *PlannedPipeline) error {
	if p == nil {
		return nil
	}
	step := p.of.step
	if step.Curvature != nil {
		var err error
		if step, err = p.of.prices.Step(s.ctx, p.of.s, nil); err != nil {
			return err
		}
	}
	x := s.pipelined(p, step)
	x.System, x.Setting, x.Results, x.Configured = pipelineSystem, p.setting(), exactResults, p.Configured && p.KFAC == nil
	faster := x.StepS < s.all[0].StepS
	why := fmt.Sprintf("it is slower than the mesh; the largest stage has %.0f %% of the computation, and ranks are idle for %.0f %%", 100*p.LargestStage, 100*x.Idle)
	switch {
	case !s.all[0].Fits:
		why = "no mesh fits into the memory of a rank"
	case faster:
		why = "it is faster than the best mesh"
	}
	s.add(x, faster || !s.all[0].Fits, why)
	return nil
}

// pipelined is a strategy with the step of a pipeline without K-FAC.
func (s *strategist) pipelined(p *PlannedPipeline, step price.Step) Strategy {
	compute := (1-step.Idle)*step.Passes.Seconds() + step.Optimiser.Seconds()
	e := search.LateExchange{Units: s.o.Ranks, Ranks: 1, Compute: compute, Wait: step.Time.Seconds() - compute}
	return s.with(Strategy{Mesh: p.Mesh, EvenStepS: step.Time.Seconds(), StepS: max(step.Time.Seconds(), s.imbalance.LateStep(e)), MemoryBytes: step.Memory, SentBytes: step.Sent}, compute)
}

// addPipeFisher adds K-FAC in the pipeline, with inversions in its idle times: with the delay of the configuration if that selects
// K-FAC, else with the least that saves most. It is proposed to a training by K-FAC that it makes
// faster.
//
// Errors: those of search.Factors.
func (s *strategist) addPipeFisher(p *PlannedPipeline) error {
	if p == nil {
		return nil
	}
	step := p.of.step
	if step.Curvature == nil {
		training := s.o.Config.Train.Train
		training.KFAC.Delay = 1 // memory for inverses that are not in use yet
		var err error
		if step, err = p.of.prices.Step(s.ctx, p.of.s, kfacSettings(&training)); err != nil {
			return err
		}
		step.Curvature = step.Curvature.Delayed(step.Curvature.HidingDelay())
	}
	c := step.Curvature
	if !c.HasFactors() {
		return nil
	}
	x := s.pipelined(p, step)
	x.EvenStepS, x.StepS = step.Mean().Seconds(), x.StepS+c.Mean().Seconds()
	planned := plannedCurvature(c)
	x.System, x.Results = pipeFisherSystem, optimiserResults
	x.Setting = fmt.Sprintf("train.optimizer: kfac, train.kfac: {refresh: %d, delay: %d}, %s", planned.Refresh, planned.Delay, p.setting())
	isKFAC := s.o.Config.Train.Train.Optimizer == config.KFACOptimizer
	x.Configured, x.Why = isKFAC && p.Configured, planned.text()
	if at := slices.IndexFunc(s.all, func(y Strategy) bool { return y.System == kfacSystem }); at >= 0 {
		y := s.all[at]
		faster := x.Fits && (x.StepS < y.StepS || !y.Fits)
		x.Proposed = isKFAC && faster
		if than := fmt.Sprintf("; K-FAC on the mesh takes %.3f ms a step", 1e3*y.StepS); x.Fits {
			x.Why += than
		}
	}
	if !x.Fits {
		x.Why = "it does not fit into the memory of a rank"
	}
	s.all = append(s.all, x)
	return nil
}

// plannedCurvature converts the work of K-FAC to the units of the answer.
func plannedCurvature(c *price.Curvature) *PlannedCurvature {
	filled, exposed := c.Inversions(c.Delay())
	most, _ := c.Inversions(c.HidingDelay())
	return &PlannedCurvature{Refresh: c.Refresh(), Delay: c.Delay(), HidingDelay: c.HidingDelay(), MostFilledS: most.Seconds(), ProductsS: c.Products.Seconds(), FactorsS: c.Factors.Seconds(),
		FilledS: filled.Seconds(), ExposedS: exposed.Seconds()}
}

// text states what idle times save.
func (c *PlannedCurvature) text() string {
	text := fmt.Sprintf("of %.3f ms of inversions in an update, idle times of %d steps save %.3f ms, and %.3f ms are exposed", 1e3*(c.FilledS+c.ExposedS), c.Delay, 1e3*c.FilledS, 1e3*c.ExposedS)
	switch {
	case c.HidingDelay == 0:
		text += "; no idle time of the busiest rank is long enough for a piece"
	case c.HidingDelay > c.Delay:
		text += fmt.Sprintf("; train.kfac.delay: %d saves %.3f ms, which is most", c.HidingDelay, 1e3*c.MostFilledS)
	}
	return text + fmt.Sprintf("; factors take %.3f ms more every %d steps, products %.3f ms in each", 1e3*c.FactorsS, c.Refresh, 1e3*c.ProductsS)
}
