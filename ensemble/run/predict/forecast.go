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

// initForecast is the forecast of one initialisation, by the network or the fallback.
type initForecast struct {
	*preparedInput
	started  time.Time
	trust    *trustDecision
	out      *model.Forecast
	warnings []string // about values of the input
}

// forecast forecasts an initialisation from the members that were read. failure is the error of opening the
// network; nil if it is open or can be opened.
func (in *openInput) forecast(ctx context.Context, init ensemble.Init, got readResult, failure error) (*initForecast, error) {
	f := in.p.forecaster
	few := in.selection.Available[init].TooFew
	if !few {
		if failure = f.openOnAllRanks(failure); failure != nil && !f.recoverable(failure) {
			return nil, nameMemoryFlags(failure)
		}
	}
	begun := time.Now()
	var err error
	switch {
	case failure != nil || few:
		got, err = in.prepareForFallback(ctx, init, got)
	case got.preparedInput == nil:
		got.preparedInput, err = in.prepareForNetwork(got.forecast, in.selection.Available[init].Members)
	}
	if err != nil {
		return nil, nameMemoryFlags(err)
	}
	got.forecast = nil // its memory is needed
	t, err := in.assess(init, got.driftScores)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		t.networkFailed(failure)
	}
	fc := &initForecast{preparedInput: got.preparedInput, started: begun, trust: t, warnings: got.warnings}
	if !t.useFallback {
		fc.out, err = f.model.Infer(ctx, init, fc.stats)
		if err == nil {
			if err = in.assessDepartures(init, fc.out.Departures, t); err != nil || !t.useFallback {
				return fc, err
			}
		} else if !f.recoverable(err) {
			return fc, nameMemoryFlags(err)
		} else {
			t.networkFailed(err)
		}
	}
	fc.out, err = in.forecastFallback(init, fc.stats, fc.raw)
	return fc, err
}

// openOnAllRanks opens the network on all ranks that predict together, unless it failed before. It returns why
// it is not open.
func (f *forecaster) openOnAllRanks(failure error) error {
	if f.ranks == nil || failure != nil {
		return failure
	}
	_, err := team.AllGatherOutcomes(f.ranks, team.Outcome[bool]{}, f.model.Open(f.engine))
	return err
}

// prepareForNetwork builds the network's input from a forecast that ranks have read together, and frees the
// forecast's values before the network needs memory.
func (in *openInput) prepareForNetwork(fc *ensemble.Forecast, realisations []ensemble.Member) (s *preparedInput, err error) {
	m := in.p.forecaster.model
	s = &preparedInput{}
	if in.keepsMembers() {
		if s.raw, err = members.RawMembers(m, fc, realisations); err != nil {
			return nil, err
		}
	}
	if s.stats, err = m.Prepare(fc, fc.Members); err != nil {
		return nil, err
	}
	if s.driftScores, err = in.driftScores(fc); err != nil {
		return nil, err
	}
	if len(fc.Values) > largeForecast {
		fc.Values = nil
		debug.FreeOSMemory()
	}
	return s, nil
}

// prepareForFallback computes from the members what the fallback needs. Ranks that predict together have read them;
// one rank reads them again, as it keeps only the network's input.
func (in *openInput) prepareForFallback(ctx context.Context, init ensemble.Init, got readResult) (a readResult, err error) {
	f, fc := in.p.forecaster, got.forecast
	a.warnings = got.warnings
	if f.ranks == nil {
		forecasts, warnings, err := in.selection.Read(ctx, []ensemble.Init{init}, nil)
		if err != nil {
			return a, err
		}
		fc, a.warnings, f.model.Local = forecasts[0], warnings, &f.model.Task
	}
	a.preparedInput = &preparedInput{}
	realisations := in.selection.Available[init].Members
	used, err := task.MemberPositions(fc, realisations)
	if err != nil {
		return a, err
	}
	if in.keepsMembers() {
		if a.raw, err = members.RawMembers(f.model, fc, realisations); err != nil {
			return a, err
		}
	}
	if a.stats, err = f.model.Local.TargetStatistics(fc, used); err != nil {
		return a, err
	}
	a.driftScores, err = in.driftScores(fc)
	return a, err
}

// forecastFallback forecasts an initialisation with the fallback; on several ranks rank 0 does.
func (in *openInput) forecastFallback(init ensemble.Init, stats []task.Statistics, raw []float32) (*model.Forecast, error) {
	f := in.p.forecaster
	members := len(in.selection.Available[init].Members)
	if f.ranks != nil {
		var mean, std []float32
		for _, s := range stats {
			mean, std = append(mean, s.Mean...), append(std, s.Std...)
		}
		targets := len(f.model.Task.Targets)
		mean, err := team.GatherFields(f.ranks, mean, targets)
		if err != nil {
			return nil, err
		}
		if std, err = team.GatherFields(f.ranks, std, targets); err != nil || !f.ranks.IsRoot() {
			return nil, err
		}
		n := f.model.Grid.Size()
		stats = nil
		for at := range f.model.Task.TargetWeights {
			stats = append(stats, task.Statistics{Mean: mean[at*n : (at+1)*n], Std: std[at*n : (at+1)*n]})
		}
	}
	out, err := f.model.Fallback(f.fallback, init, stats, members, raw)
	if err != nil {
		return nil, err
	}
	out.Departures = model.Departures(&f.model.Task, f.model.Grid, out, stats)
	return out, in.checkFallback(init, out.Departures)
}
