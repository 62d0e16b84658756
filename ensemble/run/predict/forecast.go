package predict

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/ensemble/team"
)

// predicted is the forecast of one init, by the network or by the fallback.
type predicted struct {
	*prepared
	begun    time.Time
	trust    *trust
	out      *model.Forecast
	warnings []string // about values of the input
}

// forecast forecasts an init from the members that were read. failure is why the network is not open; nil where it is, or can be.
func (in *opened) forecast(ctx context.Context, init ensemble.Init, got attempt, failure error) (*predicted, error) {
	f := in.p.forecaster
	few := in.sel.Available[init].Few
	if !few {
		if failure = f.openTogether(failure); failure != nil && !f.recoverable(failure) {
			return nil, named(failure)
		}
	}
	begun := time.Now()
	var err error
	switch {
	case failure != nil || few:
		got, err = in.withoutNetwork(ctx, init, got.forecast)
	case got.prepared == nil:
		got.prepared, err = in.withNetwork(got.forecast, in.sel.Available[init].Members)
	}
	if err != nil {
		return nil, named(err)
	}
	got.forecast = nil // whose memory is needed
	t, err := in.trusted(init, got.input)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		t.lost(failure)
	}
	fc := &predicted{prepared: got.prepared, begun: begun, trust: t, warnings: got.warnings}
	if !t.fallsBack {
		fc.out, err = f.model.Infer(ctx, init, fc.stats)
		if err == nil || !f.recoverable(err) {
			return fc, named(err)
		}
		t.lost(err)
	}
	fc.out, err = in.fallBack(init, fc.stats, fc.raw)
	return fc, err
}

// openTogether opens the network of ranks that predict together, unless it failed before, and gives why it is not open.
func (f *forecaster) openTogether(failure error) error {
	if f.ranks == nil || failure != nil {
		return failure
	}
	_, err := team.Tell(f.ranks, team.Outcome[bool]{}, f.model.Open(f.engine))
	return err
}

// withNetwork makes the input of the network, which is open, of the forecast of ranks that predict together, whose
// values it gives back to the system before the network needs memory.
func (in *opened) withNetwork(fc *ensemble.Forecast, realisations []ensemble.Member) (s *prepared, err error) {
	m := in.p.forecaster.model
	s = &prepared{}
	if in.keepsMembers() {
		if s.raw, err = members.RawMembers(m, fc, realisations); err != nil {
			return nil, err
		}
	}
	if s.stats, err = m.Prepare(fc, fc.Members); err != nil {
		return nil, err
	}
	if s.input, err = in.driftOf(fc); err != nil {
		return nil, err
	}
	if len(fc.Values) > largeForecast {
		fc.Values = nil
		debug.FreeOSMemory()
	}
	return s, nil
}

// withoutNetwork makes of the members of an init what fallbacks need. fc is what ranks that predict together have read; nil
// has one rank read them.
func (in *opened) withoutNetwork(ctx context.Context, init ensemble.Init, fc *ensemble.Forecast) (a attempt, err error) {
	f := in.p.forecaster
	if f.ranks == nil {
		forecasts, warnings, err := in.sel.Read(ctx, []ensemble.Init{init}, nil)
		if err != nil {
			return a, err
		}
		fc, a.warnings, f.model.Local = forecasts[0], warnings, &f.model.Task
	}
	a.prepared = &prepared{}
	realisations := in.sel.Available[init].Members
	used, err := task.Positions(fc, realisations)
	if err != nil {
		return a, err
	}
	if in.keepsMembers() {
		if a.raw, err = members.RawMembers(f.model, fc, realisations); err != nil {
			return a, err
		}
	}
	if a.stats, err = f.model.Local.StatisticsOf(fc, used); err != nil {
		return a, err
	}
	a.input, err = in.driftOf(fc)
	return a, err
}

// fallBack forecasts an init by the fallback; of ranks that predict together the leading one does.
func (in *opened) fallBack(init ensemble.Init, stats []task.Statistics, raw []float32) (*model.Forecast, error) {
	f := in.p.forecaster
	members := len(in.sel.Available[init].Members)
	if f.ranks != nil {
		var mean, std []float32
		for _, s := range stats {
			mean, std = append(mean, s.Mean...), append(std, s.Std...)
		}
		targets := len(f.model.Task.Targets)
		mean, err := team.Join(f.ranks, mean, targets)
		if err != nil {
			return nil, err
		}
		if std, err = team.Join(f.ranks, std, targets); err != nil || !f.ranks.Leads() {
			return nil, err
		}
		n := f.model.Grid.Size()
		stats = nil
		for at := range f.model.Task.Score {
			stats = append(stats, task.Statistics{Mean: mean[at*n : (at+1)*n], Std: std[at*n : (at+1)*n]})
		}
	}
	return f.model.FallBack(f.fallback, init, stats, members, raw)
}
