package predict

import (
	"context"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/internal/exit"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// template returns the fields whose order the members of a target follow, on the model's grid. raw are the
// input members of all targets.
func (ch *productChoice) template(at int, raw []float32, used int) [][]float32 {
	if ch.coupling.Schaake() {
		return ch.coupling.Fields[at]
	}
	k, n := &ch.model.Task, ch.model.Grid.Size()
	out := make([][]float32, used)
	for m := range out {
		i := m*len(k.Targets)*len(k.Features.Axes.Levels) + at
		out[m] = raw[i*n : (i+1)*n]
	}
	return out
}

// openArchive opens past analyses of the published targets, for the Schaake shuffle. No values are read.
//
// Errors: those of fio.List and fio.Open; exit 66 if no time has analyses of all targets.
func openArchive(ctx context.Context, pool *decode.Pool, c config.Coupling, ch *productChoice) (*members.Archive, error) {
	files, err := input.ConfigFiles("coupling.template", c.Template)
	if err != nil {
		return nil, err
	}
	a := &members.Archive{Window: c.Window}
	k := &ch.model.Task
	d := len(k.Features.Axes.Levels)
	for _, f := range ch.fields {
		at := k.TargetIndex(task.Target{Variable: f.Variable, Lead: f.Lead}, f.Level)
		one := members.ArchivedTarget{Target: at, Variable: f.Variable, Level: k.Features.Axes.Levels[at%d], Offset: time.Duration(f.Lead - k.Targets[0].Lead), Statistic: k.Features.Axes.StatisticOf(f.Variable, f.Lead)}
		if (f.Kind == product.Member || f.Kind == product.NeighbourhoodAny) && !slices.Contains(a.Fields, one) {
			a.Fields = append(a.Fields, one)
		}
	}
	if a.In, err = fio.Open(ctx, files, fio.Options{Pool: pool}); err != nil {
		return nil, err
	}
	have := map[ensemble.Valid]int{}
	for _, f := range a.Fields {
		here := map[ensemble.Valid]bool{}
		known, _ := ensemble.VariableNamed(f.Variable)
		for _, e := range a.In.Catalogue().Entries {
			if (e.Lead == 0 || e.Statistic != "") && e.Product == ensemble.MemberField && e.TimeStatistic().Matches(f.Statistic, known.Period) && e.Variable == f.Variable &&
				ensemble.FindLevel([]ensemble.Level{f.Level}, e.Variable, e.Level) >= 0 {
				if t := f.First(e.Valid()); !here[t] {
					here[t] = true
					have[t]++
				}
			}
		}
	}
	for t, n := range have {
		if n == len(a.Fields) {
			a.Times = append(a.Times, t)
		}
	}
	slices.SortFunc(a.Times, func(x, y ensemble.Valid) int { return x.Compare(y.Time) })
	if a.Times == nil {
		err := &exit.Error{Code: exit.NotYet, What: "no template for the Schaake shuffle", At: input.FileList(files),
			Why: "no time has analyses of all published targets: " + ch.model.DescribeTargets(), Fix: "list files of past analyses of these in coupling.template"}
		a.In.Close()
		return nil, err
	}
	return a, nil
}

// openTemplates opens the archive if the members need one, once for all inputs.
func (p *prediction) openTemplates(ctx context.Context, ch *productChoice) (err error) {
	if !ch.members || !ch.coupling.Schaake() {
		return nil
	}
	if p.archive == nil {
		if p.archive, err = openArchive(ctx, p.pool, p.options.Publish.Coupling, ch); err != nil {
			return err
		}
	}
	ch.coupling.Archive = p.archive
	return nil
}

// templateTimes reads the template of an initialisation's members and returns the times of its analyses; nil if
// members need none.
func (p *prediction) templateTimes(ctx context.Context, ch *productChoice, init ensemble.Init, members []ensemble.Member) (times []ensemble.Valid, err error) {
	times, _, err = p.template(ctx, ch, init, members)
	return times, err
}

// template reads the template of an initialisation's members, by target; nil if members need none.
func (p *prediction) template(ctx context.Context, ch *productChoice, init ensemble.Init, members []ensemble.Member) ([]ensemble.Valid, map[int][][]float32, error) {
	c := &ch.coupling
	if c.Archive == nil {
		return nil, nil, nil
	}
	return c.Archive.Template(ctx, p.destination(), init, p.forecaster.model.Task.Targets[0].Lead, len(c.Members(members)))
}
