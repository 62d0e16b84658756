package task

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Batch holds the network's values of some samples, one behind the other.
//
// Shape: Features [N C D P], Spread, Anomaly [N V D P], Season [N 2]; and, for
// training, Residual, FullSpread and Weight [N V D P], with P = NY*NX; Corrected [N V D P]
// is the shift of stage B, if that is known; ReferenceShift and ReferenceSigma [N V D P] are
// those of the reference, if there is one, and Centre [N V D P]
// the members' mean over the error scale, for networks that read it.
type Batch struct {
	Features, Spread, Anomaly, Season []float32
	Residual, FullSpread, Weight      []float32
	Corrected, Centre                 []float32
	ReferenceShift, ReferenceSigma    []float32
	// TeacherShift and TeacherSigma [N V D P] are those of a teacher, for networks that are taught.
	TeacherShift, TeacherSigma []float32
	// Members [N M C D P] are count members of each sample, for networks that read them.
	Members     []float32
	MemberCount int // 0 stands for all that are used
	// Raw [N M V D P] are the fields of the targets of these members, in physical units, and
	// Deviation what they differ from their mean in units of the error scale, for networks that give
	// members.
	Raw, Deviation []float32
	// Conditions [N T·K] are what networks with leads in rows are told of each.
	Conditions    []float32
	conditionSpec Conditions
}

// FillInput writes sample i of a batch from the used members (positions).
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

// fillSeason writes the season of sample i, and its conditions.
func (b *Batch) fillSeason(i int, init ensemble.Init) {
	sin, cos := math.Sincos(ensemble.SeasonAngle(init.Time))
	b.Season[2*i], b.Season[2*i+1] = float32(sin), float32(cos)
	b.fillConditions(i, init)
}

// fillTargetInput writes what the network is told of a target, to a place of a batch.
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

// FillFixed is the part of Input that is not of single fields, for the only sample of a batch:
// stats are those of the targets, as these are stored.
func (k *Task) FillFixed(b *Batch, init ensemble.Init, grid *ensemble.Grid, stats []Statistics) {
	k.Features.WriteFixed(b.Features, init, grid)
	b.fillSeason(0, init)
	for at, st := range stats {
		k.fillTargetInput(b, at, at*grid.Size(), init, st)
	}
}

// FillTarget writes the targets of sample i: what the network should say. There may be no analyses for a
// task that predicts only spread.
//
// Missing: a point without forecast or analysis gets the weight 0.
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

// NewBatch allocates room for n samples.
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

// fillMembers writes the members of sample i, if they are read.
func (k *Task) fillMembers(b *Batch, i int, fc *ensemble.Forecast, used []int) error {
	if b.Members == nil {
		return nil
	}
	size := len(used) * k.Features.MemberChannels() * len(k.Features.Axes.Levels) * fc.Grid.Size()
	if err := k.Features.BuildMembers(b.Members[i*size:(i+1)*size], fc, used); err != nil || b.Raw == nil && b.Deviation == nil {
		return err
	}
	return k.fillMemberTargets(b, i, fc, used)
}

// fillMemberTargets writes the fields of the targets of sample i's members, or what they differ from their mean.
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

// FillTeacher writes what a teacher says of a start, means and standard deviations in physical units as targets are stored, to sample i of a
// batch: around the mean of the used members, in units of the error scale.
func (k *Task) FillTeacher(b *Batch, i int, fc *ensemble.Forecast, used []int, mean, sigma []float32) error {
	p := fc.Grid.Size()
	return k.eachTarget(i, fc, used, func(at, out int, st Statistics) error {
		r := float32(1 / k.ErrorScale[at])
		for q := range p {
			shift, sigma := (mean[at*p+q]-st.Mean[q])*r, sigma[at*p+q]*r
			if shift-shift != 0 || sigma-sigma != 0 { // missing, where the weight is 0
				shift, sigma = 0, missingSigma
			}
			b.TeacherShift[out+q], b.TeacherSigma[out+q] = shift, sigma
		}
		return nil
	})
}

// eachTarget visits the targets with the statistics of the used members and the
// place of the target's field in a batch.
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

func ZeroIfNaN(x float32) float32 {
	if x != x {
		return 0
	}
	return x
}

// TargetStatistics gives the statistics of the targets, as these are stored, over members at some positions.
func (k *Task) TargetStatistics(fc *ensemble.Forecast, used []int) (stats []Statistics, err error) {
	err = k.eachTarget(0, fc, used, func(_, _ int, st Statistics) error {
		stats = append(stats, Statistics{slices.Clone(st.Mean), slices.Clone(st.Std)})
		return nil
	})
	return stats, err
}
