package task

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Batch holds the input and, for training, the targets of N samples of a network. Arrays that the
// network does not need are nil.
//
// Shape, with C features, V pairs of lead and variable, D levels and P = NY·NX points:
//
//	Features                          [N C D P]
//	Spread, Anomaly                   [N V D P]  of the input members
//	Season                            [N 2]      sine and cosine of the phase of the year
//	Residual, FullSpread, Weight      [N V D P]  training: analysis − members' mean, spread of the full ensemble, weight in the loss
//	Corrected                         [N V D P]  shift of stage B
//	Centre                            [N V D P]  members' mean
//	ReferenceShift, ReferenceSigma    [N V D P]  of the reference that is corrected
//
// Unit: the error scale of the target; Anomaly is standardised, Season and Weight have no unit.
// Missing: 0, with weight 0.
type Batch struct {
	Features, Spread, Anomaly, Season []float32
	Residual, FullSpread, Weight      []float32
	Corrected, Centre                 []float32
	ReferenceShift, ReferenceSigma    []float32
	// TeacherShift and TeacherSigma [N V D P] are the prediction of a teacher network, for
	// distillation.
	TeacherShift, TeacherSigma []float32
	// Members [N M C D P] are the fields of MemberCount members of each sample.
	Members     []float32
	Noise       ensemble.NoiseInput // of members
	MemberCount int                 // M; 0 means all members in use
	// Raw [N M V D P] are the members' fields of the targets in physical units, for predictions.
	// Deviation is their difference from the members' mean in units of the error scale, for
	// training.
	Raw, Deviation []float32
	// Conditions [N T·K] are K numbers for each of T leads, for networks with leads in rows.
	Conditions    []float32
	conditionSpec Conditions
}

// FillInput writes the network's input of sample i. used are positions of members on the forecast's
// axis.
//
// Errors: a forecast with other axes than the task.
func (k *Task) FillInput(b *Batch, i int, fc *ensemble.Forecast, used []int) error {
	p, d := fc.Grid.Size(), len(k.Features.Axes.Levels)
	size := k.Features.Channels() * d * p
	if err := k.Features.Build(b.Features[i*size:(i+1)*size], fc, used); err != nil {
		return err
	}
	if err := k.fillMembers(b, i, fc, used); err != nil {
		return err
	}
	b.fillSeason(i, fc.Init)
	return k.eachTarget(i, fc, used, func(at, out int, st Statistics) error {
		k.fillTargetInput(b, at, out, fc.Init, st)
		return nil
	})
}

// fillSeason writes season and conditions of sample i.
func (b *Batch) fillSeason(i int, init ensemble.Init) {
	sin, cos := math.Sincos(ensemble.SeasonAngle(init.Time))
	b.Season[2*i], b.Season[2*i+1] = float32(sin), float32(cos)
	b.fillConditions(i, init)
}

// fillTargetInput writes the inputs of one target from the members' statistics, at offset out of a
// batch:
//
//	Spread = s/e     Centre = m/e     Anomaly = (m − centre)/width
//
// with mean m, standard deviation s, and error scale e.
func (k *Task) fillTargetInput(b *Batch, at, out int, init ensemble.Init, st Statistics) {
	r := float32(1 / k.ErrorScale[at])
	for q := range st.Mean {
		b.Spread[out+q] = ZeroIfNaN(st.Std[q] * r)
		if b.Centre != nil {
			b.Centre[out+q] = ZeroIfNaN(st.Mean[q] * r)
		}
		b.Anomaly[out+q] = ZeroIfNaN((st.Mean[q] - k.Centre[at][q]) / k.Width[at][q])
	}
	if k.reference != nil {
		k.reference.fillBatch(b, at, out, init.Valid(k.Targets[at/len(k.Features.Axes.Levels)].Lead), st, r)
	}
}

// FillFixed writes the part of FillInput that does not depend on single members, for a batch with one
// sample: constant features, season, and the inputs of targets from their statistics. Together with
// fields that arrive one by one it gives the result of FillInput.
//
// Shape: stats [target], in storage order [lead][variable][level].
func (k *Task) FillFixed(b *Batch, init ensemble.Init, grid *ensemble.Grid, stats []Statistics) {
	k.Features.WriteFixed(b.Features, init, grid)
	b.fillSeason(0, init)
	for at, st := range stats {
		k.fillTargetInput(b, at, at*grid.Size(), init, st)
	}
}

// FillTarget writes the target of sample i, for training: residual (analysis minus members' mean),
// spread of the full ensemble, and weight in the loss (area × target weight × lead weight).
// analyses may be nil for a task that predicts spread only.
//
// Missing: points without forecast or analysis get the weight 0.
// Errors: a missing analysis.
func (k *Task) FillTarget(b *Batch, i int, fc *ensemble.Forecast, used []int, analyses []*ensemble.Analysis) error {
	p, d := fc.Grid.Size(), len(k.Features.Axes.Levels)
	w := fc.Grid.Weights()
	full := make([]float32, p)
	return k.eachTarget(i, fc, used, func(at, out int, st Statistics) error {
		v, l := at/d, at%d
		t, x := k.TargetInForecast(fc, v)
		fc.MeanStd(full, full, t, x, l, AllMembers(fc), k.Features.DDOF)
		obs := st.Mean
		if analyses != nil {
			var err error
			if obs, err = k.AnalysisField(analyses, fc.Init, v, k.Features.Axes.Levels[l]); err != nil {
				return err
			}
		}
		r := float32(1 / k.ErrorScale[at])
		// The weight is area × target weight × lead weight.
		importance := k.TargetWeights[at]
		if k.LeadWeights != nil {
			importance *= k.LeadWeights[v]
		}
		for q := range p {
			residual, spread := (obs[q]-st.Mean[q])*r, full[q]*r
			weight := float32(w[q] * importance)
			if residual != residual || spread != spread {
				residual, spread, weight = 0, 0, 0
			}
			b.Residual[out+q], b.FullSpread[out+q], b.Weight[out+q] = residual, spread, weight
		}
		if k.extremeWeights != nil {
			members := make([][]float32, len(fc.Members))
			for m := range members {
				members[m] = fc.Field(t, m, x, l)
			}
			k.extremeWeights.apply(b.Weight[out:out+p], at, fc.Init.Valid(k.Targets[v].Lead), members)
		}
		return nil
	})
}

// AnalysesOfMember returns the fields of a member of a forecast, given by position, at the target leads in the form of analyses,
// for FillTarget. They are views, not copies.
func (k *Task) AnalysesOfMember(fc *ensemble.Forecast, member int) (out []*ensemble.Analysis) {
	for _, lead := range k.TargetLeads() {
		out = append(out, fc.AsAnalysis(slices.Index(fc.Axes.Leads, lead), member))
	}
	return out
}

// NewBatch allocates a batch of n samples, without the arrays that only some networks need.
func NewBatch(k *Task, g *ensemble.Grid, n int) Batch {
	p, d := g.Size(), len(k.Features.Axes.Levels)
	targets := func() []float32 { return make([]float32, n*len(k.Targets)*d*p) }
	b := Batch{
		Features: make([]float32, n*k.Features.Channels()*d*p),
		Season:   make([]float32, n*ensemble.SeasonChannels),
		Spread:   targets(), Anomaly: targets(), Residual: targets(), FullSpread: targets(), Weight: targets(),
	}
	if k.reference != nil {
		b.ReferenceShift, b.ReferenceSigma = targets(), targets()
	}
	return b
}

// fillMembers writes the fields of the members of sample i, if the network reads them.
func (k *Task) fillMembers(b *Batch, i int, fc *ensemble.Forecast, used []int) error {
	if b.Members == nil {
		return nil
	}
	size := len(used) * k.Features.MemberChannels() * len(k.Features.Axes.Levels) * fc.Grid.Size()
	in := b.MemberInput()
	in.Channels = b.Members[i*size : (i+1)*size]
	if err := k.Features.BuildMembers(in, fc, used); err != nil || b.Raw == nil && b.Deviation == nil {
		return err
	}
	return k.fillMemberTargets(b, i, fc, used)
}

// MemberInput is the input from members of a batch with one sample.
func (b *Batch) MemberInput() ensemble.MemberInput {
	return ensemble.MemberInput{Channels: b.Members, Noise: b.Noise}
}

// fillMemberTargets writes the members' fields of the targets of sample i to Raw, or their
// difference from the mean to Deviation.
func (k *Task) fillMemberTargets(b *Batch, i int, fc *ensemble.Forecast, used []int) error {
	p, d := fc.Grid.Size(), len(k.Features.Axes.Levels)
	targets := len(k.Targets) * d
	return k.eachTarget(i, fc, used, func(at, _ int, st Statistics) error {
		t, x := k.TargetAt(at / d)
		r := float32(1 / k.ErrorScale[at])
		for m, member := range used {
			to := ((i*len(used)+m)*targets + at) * p
			raw := fc.Field(t, member, x, at%d)
			if b.Raw != nil {
				copy(b.Raw[to:], raw)
				continue
			}
			for q, v := range raw {
				b.Deviation[to+q] = ZeroIfNaN((v - st.Mean[q]) * r)
			}
		}
		return nil
	})
}

// FillTeacher writes the prediction of a teacher to sample i, relative to the mean of the used
// members and in units of the error scale.
//
// Shape: mean, sigma [target][point], in physical units.
// Missing: shift 0 and sigma 1, where the weight of the sample is 0.
func (k *Task) FillTeacher(b *Batch, i int, fc *ensemble.Forecast, used []int, mean, sigma []float32) error {
	p := fc.Grid.Size()
	return k.eachTarget(i, fc, used, func(at, out int, st Statistics) error {
		r := float32(1 / k.ErrorScale[at])
		for q := range p {
			shift, sigma := (mean[at*p+q]-st.Mean[q])*r, sigma[at*p+q]*r
			if shift-shift != 0 || sigma-sigma != 0 { // missing: the weight is 0
				shift, sigma = 0, missingSigma
			}
			b.TeacherShift[out+q], b.TeacherSigma[out+q] = shift, sigma
		}
		return nil
	})
}

// eachTarget calls visit for each target with its index, the offset of its field in sample i of a
// batch, and the statistics of the used members. The statistics are overwritten by the next call.
func (k *Task) eachTarget(i int, fc *ensemble.Forecast, used []int, visit func(at, out int, st Statistics) error) error {
	p, d := fc.Grid.Size(), len(k.Features.Axes.Levels)
	st := Statistics{make([]float32, p), make([]float32, p)}
	for v := range k.Targets {
		t, x := k.TargetAt(v)
		for l := range d {
			fields := make([][]float32, len(used))
			for i, m := range used {
				fields[i] = fc.Field(t, m, x, l)
			}
			k.Features.MeanStd(st.Mean, st.Std, fields)
			at := v*d + l
			if err := visit(at, (i*len(k.Targets)*d+at)*p, st); err != nil {
				return err
			}
		}
	}
	return nil
}

// ZeroIfNaN replaces NaN by 0, as a network cannot read missing values.
func ZeroIfNaN(x float32) float32 {
	if x != x {
		return 0
	}
	return x
}

// TargetStatistics computes mean and standard deviation of the used members for each target.
//
// Shape: [target], in storage order.
func (k *Task) TargetStatistics(fc *ensemble.Forecast, used []int) (stats []Statistics, err error) {
	err = k.eachTarget(0, fc, used, func(_, _ int, st Statistics) error {
		stats = append(stats, Statistics{slices.Clone(st.Mean), slices.Clone(st.Std)})
		return nil
	})
	return stats, err
}
