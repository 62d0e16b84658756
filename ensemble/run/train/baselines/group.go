package baselines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// group is the targets that are read in one pass over the samples. Each of their levels is a set.
type group struct {
	*fitter
	from, to int // targets of the task
	levels   int
	me       int // rank
	plan     *plan
	held     *heldSets // sets that this rank fits to
}

// newGroup plans the fits of the targets from to to−1.
func (f *fitter) newGroup(from, to int) *group {
	g := &group{fitter: f, from: from, to: to, levels: len(f.task.Features.Axes.Levels)}
	if f.ranks != nil {
		g.me = f.ranks.Comm.Rank()
	}
	g.plan = newPlan((to-from)*g.levels, f.fits, f.ranks.Size())
	return g
}

// fit reads the fields of the group and fits its baselines.
func (g *group) fit(ctx context.Context) (err error) {
	g.held, err = newHeldSets(g.set, g.plan.setsOf(g.me))
	if err := g.ranks.AgreeOnError(err); err != nil {
		return errors.Join(err, g.held.close())
	}
	defer func() { err = errors.Join(err, g.held.close()) }()
	if err := g.past.Each(ctx, g.ranks, g.addDate); err != nil {
		return err
	}
	own := map[int]outcome{}
	for unit, owner := range g.plan.owners {
		if owner == g.me && err == nil {
			own[unit], err = g.fitUnit(ctx, unit)
		}
	}
	if err := g.ranks.AgreeOnError(err); err != nil {
		return err
	}
	return g.collect(own)
}

// addDate gathers the fields of date i, each on the ranks that fit to it. A rank with an error takes part, because the others
// wait for its shard.
func (g *group) addDate(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
	used, own := task.MemberPositions(fc, g.task.UsedMembers)
	for v := g.from; v < g.to; v++ {
		part := make([]float32, g.set.fields*len(fc.Axes.Levels)*fc.Grid.Size())
		if own == nil {
			own = fillFields(part, g.task, fc, a, used, v)
		}
		first := (v - g.from) * g.levels
		whole, err := team.GatherLevels(g.ranks, part, g.set.fields, g.plan.readers[first:first+g.levels])
		if err != nil {
			return err
		}
		for l, fields := range whole {
			if fields != nil && own == nil {
				own = g.held.write(first+l, i, fields)
			}
		}
	}
	return own
}

// fitUnit makes one fit to one set.
func (g *group) fitUnit(ctx context.Context, unit int) (o outcome, err error) {
	set, fit := unit/len(g.fits), g.fits[unit%len(g.fits)]
	name := g.task.TargetName(g.from*g.levels + set)
	g.show.Note(fit.what + " of " + name)
	watch, end := watchPasses(ctx, fit.what+" of "+name)
	defer end()
	s := g.held.set(set, fit)
	s.Valid, s.Watch = g.validTimes(set), watch
	err = fit.do(&o, s, name)
	g.show.Add(1)
	if e := (*exit.Error)(nil); errors.As(err, &e) {
		return o, err
	} else if err != nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s has no %s: %v", name, fit.what, err))
	}
	return o, nil
}

// collect adds the outcomes to the result of rank 0, in the order of sets and fits, whichever rank has them.
func (g *group) collect(own map[int]outcome) error {
	for unit, owner := range g.plan.owners {
		o, err := team.SendToRoot(g.ranks, owner, own[unit])
		if err != nil {
			return err
		}
		if !g.ranks.IsRoot() {
			continue
		}
		if owner != g.me {
			g.show.Add(1)
		}
		set, fit := unit/len(g.fits), unit%len(g.fits)
		if fit == 0 {
			valid := slices.SortedFunc(slices.Values(g.validTimes(set)), time.Time.Compare)
			g.result.Baselines = append(g.result.Baselines, task.Baselines{FittedTo: valid})
		}
		g.fits[fit].take(g.result, o)
		g.result.Warnings = append(g.result.Warnings, o.Warnings...)
	}
	return nil
}

// validTimes are the valid times of a set.
func (g *group) validTimes(set int) (valid []time.Time) {
	for _, init := range g.past.Inits {
		valid = append(valid, init.Valid(g.task.Targets[g.from+set/g.levels].Lead).Time)
	}
	return valid
}
