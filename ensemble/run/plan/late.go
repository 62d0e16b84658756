package plan

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// units is the shares of a batch that groups of ranks compute by themselves.
type units struct {
	count, ranks int
	plan         search.Plan // of one
}

// unitsOf returns the units of a mesh: its ranks along data. ok is false if the batch does not divide.
func (s *strategist) unitsOf(m spatial.Mesh) (u units, ok bool, err error) {
	var own spatial.Mesh
	u.count = 1
	for _, a := range m {
		if a.Name == search.AxisNames[0] {
			u.count = a.Size
		} else {
			own = append(own, a)
		}
	}
	u.ranks = max(1, own.Size())
	if s.subject.Batch%u.count != 0 {
		return u, false, nil
	}
	g, err := s.network(s.subject.Batch / u.count)
	if err != nil {
		return u, false, err
	}
	u.plan, err = search.CostOf(s.ctx, g, s.machine, s.optimiser, own)
	return u, true, err
}

// Periods of proposed late sums and averages, as the papers have for their experiments, and of local SGD.
const (
	latePeriod  = 10
	localPeriod = 100
)

// lateSystem is a system whose ranks do not wait for each other in every step.
type lateSystem struct {
	name, results string
	start         search.Start
	exchange      config.Exchange // period, and group if it is configured
	configured    bool
}

// lateSystems are the systems of train.exchange, those with late units also with steps that these leave out, with the numbers of the
// configuration if it selects them.
func lateSystems(configured config.Exchange) []lateSystem {
	all := []lateSystem{
		{soloSystem, lateResults, search.FirstStart, config.Exchange{System: config.EagerExchange, Initiator: config.SoloInitiator, Period: latePeriod}, false},
		{majoritySystem, lateResults, search.DrawnStart, config.Exchange{System: config.EagerExchange, Initiator: config.MajorityInitiator, Period: latePeriod}, false},
		{wagmaSystem, averagedResults, search.GroupStart, config.Exchange{System: config.WAGMAExchange, Period: latePeriod}, false},
		{localSystem, averagedResults, search.NoStart, config.Exchange{System: config.LocalExchange, Period: localPeriod}, false},
	}
	for _, of := range all {
		if of.start != search.NoStart {
			of.name, of.exchange.Skip = skipping+of.name, true
			all = append(all, of)
		}
	}
	for i, of := range all {
		if e := of.exchange; configured.System == e.System && (e.Initiator == "" || e.Initiator == configured.Initiator) {
			all[i].exchange.Period, all[i].configured = configured.Period, configured.Skip == e.Skip
			if of.start == search.GroupStart {
				all[i].exchange.Group = configured.Group
			}
		}
	}
	return all
}

// setting is the text of train.exchange.
func (l lateSystem) setting(group int) string {
	text := "train.exchange: {system: " + l.exchange.System
	if l.exchange.Initiator != "" {
		text += ", initiator: " + l.exchange.Initiator
	}
	if l.start == search.GroupStart {
		text += fmt.Sprintf(", group: %d", group)
	}
	text += fmt.Sprintf(", period: %d", l.exchange.Period)
	if l.exchange.Skip {
		text += ", skip: true"
	}
	return text + "}"
}

// vectors is the number of vectors of the size of the parameters in memory: the send buffer and the results of a period, or weights,
// momentum and change of local SGD.
func (l lateSystem) vectors() int64 {
	if l.start == search.NoStart {
		return 3
	}
	return int64(l.exchange.Period) + 2
}

// addLate adds the systems of train.exchange, each on the mesh with data ranks on which it is fastest.
func (s *strategist) addLate() error {
	var all []units
	for _, m := range s.meshes {
		u, ok, err := s.unitsOf(m.Mesh)
		if err != nil {
			return err
		}
		if ok {
			u.plan.Mesh = m.Mesh
			all = append(all, u)
		}
	}
	whole := map[string]Strategy{} // that compute all steps, by name
	for _, of := range lateSystems(s.o.Config.Train.Train.Exchange) {
		var best *Strategy
		for _, u := range all {
			x, ok := s.late(of, u)
			if ok && (best == nil || compareBools(x.Fits, best.Fits) < 0 || x.Fits == best.Fits && x.StepS < best.StepS) {
				best = &x
			}
		}
		if best != nil {
			whole[of.name] = *best
			condition, why := s.compareWaiting(siteShare)
			if of.start != search.NoStart {
				condition, why = s.compareImbalance()
			}
			if of.start == search.DrawnStart && condition {
				why += "; half of the gradients of a step and more are fresh in the mean"
			}
			if of.exchange.Skip {
				condition, why = compareSkips(*best, whole[strings.TrimPrefix(of.name, skipping)], condition, why)
			}
			s.add(*best, condition, why)
		}
	}
	return nil
}

// late is a system of train.exchange on the units of a mesh; ok is false if it needs another number of units.
func (s *strategist) late(of lateSystem, u units) (x Strategy, ok bool) {
	members := u.count
	if of.start == search.GroupStart {
		if u.count&(u.count-1) != 0 { // groups are those of ranks that differ in some bits
			return x, false
		}
		members = min(u.count, cmp.Or(of.exchange.Group, max(2, 1<<int(math.Log2(float64(u.count))/2)))) // about √P
	}
	sum, sent := s.machine.UnitsExchange(u.count, u.ranks, members, s.parameters)
	global, globalSent := s.machine.UnitsExchange(u.count, u.ranks, u.count, s.parameters)
	notice := s.machine.Notices(u.count, u.ranks)
	e := search.LateExchange{Start: of.start, Units: u.count, Ranks: u.ranks, Group: members, Period: of.exchange.Period, Compute: computing(u.plan),
		Wait: u.plan.Step.Seconds() - computing(u.plan), Sum: (sum + notice).Seconds(), Notice: notice.Seconds(), Global: global.Seconds()}
	exchanges := int64(of.exchange.Period - 1)
	if of.start == search.NoStart {
		exchanges = 0
	}
	x = Strategy{System: of.name, Setting: of.setting(members), Configured: of.configured, Mesh: u.plan.Mesh.String(), Results: of.results,
		EvenStepS: search.Imbalance{}.LateStep(e), MemoryBytes: u.plan.Memory + 4*of.vectors()*s.parameters,
		SentBytes: sentBytes(u.plan) + (exchanges*sent+globalSent)/int64(of.exchange.Period)}
	if of.exchange.Skip {
		x.StepS, x.LeftOut = s.imbalance.SkipStep(e)
	} else {
		x.StepS = s.imbalance.LateStep(e)
	}
	return s.with(x, e.Compute*(1-x.LeftOut)), true
}

// compareSkips compares a system whose late units leave steps out with the one that computes them all, under the condition of both. A step
// with fewer samples is worth less, so what counts are the samples that are computed in a second.
func compareSkips(x, whole Strategy, condition bool, why string) (more bool, text string) {
	ratio := (1 - x.LeftOut) * whole.StepS / x.StepS
	text = fmt.Sprintf("%s; %.2g %% of the samples are left out, and %.3g times as many a second are computed as with all steps", why, 100*x.LeftOut, ratio)
	return condition && ratio > 1, text
}

// compareImbalance compares the imbalance with the limit of late sums.
func (s *strategist) compareImbalance() (more bool, why string) {
	b := s.imbalance
	switch {
	case !b.IsKnown():
		return false, "the imbalance of the ranks is not known: `ensemble bench --parallel --write-machine FILE` measures it"
	case b.Slowest < lateRatio:
		return false, fmt.Sprintf("the slowest rank of a step takes %.3g of the mean, less than %g", b.Slowest, lateRatio)
	case b.Random() < lateRatio:
		return false, fmt.Sprintf("the slowest rank of a step takes %.3g of the mean, but the same rank %.3g in all steps: distribute the work", b.Slowest, b.Persistent)
	}
	return true, fmt.Sprintf("the slowest rank of a step takes %.3g of the mean, %g or more, another one in each step", b.Slowest, lateRatio)
}
