package model

import (
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/ecc"
)

// SelectFallback returns the first of some methods (IDs of baselines, or raw) that can replace the
// network's forecast for all targets; "" if none can. The order of methods is that of the
// configuration. raw needs no fit and can always replace it.
func (m *Model) SelectFallback(methods []string) string {
	for _, method := range methods {
		complete := method == config.RawFallback || len(m.Baselines) > 0
		for at := range m.Task.TargetWeights {
			complete = complete && (method == config.RawFallback || m.Task.TargetWeights[at] == 0 || m.fallbackFit(at, method) != nil)
		}
		if complete {
			return method
		}
	}
	return ""
}

// fallbackFit finds the fit of a baseline for a target with the kind of output of the network: a
// distribution of any family or, for networks that correct members, also corrected members. It
// returns nil if there is none.
func (m *Model) fallbackFit(at int, id string) *task.Baseline {
	if at >= len(m.Baselines) || m.Spec.Head.Spread != nil {
		return nil
	}
	for i, b := range m.Baselines[at].Fits {
		if b.Method.ID == id && (b.Method.Family == nil) == (b.Method.Predictors == baseline.MemberPredictors) && (b.Method.Family != nil || m.Spec.PredictsMembers()) {
			return &m.Baselines[at].Fits[i]
		}
	}
	return nil
}

// Fallback computes a forecast without the network, by a method of SelectFallback. stats are the
// statistics of count members on the whole grid, by target. For networks that correct members,
// members are these members. The forecast has the output of the network:
//
//   - A distribution. The raw method gives the members' mean m and the spread s·√(1 + 1/M), with
//     divisor M−1 in s: the predictive spread if members and analysis are independent draws of one
//     distribution. A baseline of another family is converted by mean and spread.
//   - For a network that corrects members: the raw members; or members corrected by the baseline;
//     or, if the baseline gives a distribution, its quantiles of levels (i−½)/M in the rank order
//     of the raw members (ensemble copula coupling).
//   - For a spread head: the linear regression of the full ensemble's spread on the members'
//     spread. The other forecasts have it too, as Spread.
//
// Targets that are not scored have the raw distribution.
//
// Shape: members [member][target][point], nil unless the network corrects members.
// Missing: NaN where members are NaN.
// Errors: those of ecc.CoupleQuantiles.
// Source: Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1 (factor √(1 + 1/M)); Schefzik,
// Thorarinsdottir and Gneiting 2013, doi:10.1214/13-STS443 (ensemble copula coupling).
func (m *Model) Fallback(method string, init ensemble.Init, stats []task.Statistics, count int, members []float32) (*Forecast, error) {
	k := &m.Task
	out := &Forecast{}
	if m.Spec.PredictsMembers() {
		out.Members = make([]float32, len(members))
	}
	depth := len(k.Features.Axes.Levels)
	unbiased := math.Sqrt(float64(count-k.Features.DDOF) / float64(max(count-1, 1)))
	finite := math.Sqrt(1 + 1/float64(count))
	for at, st := range stats {
		spread, full := make([]float32, len(st.Std)), make([]float32, len(st.Std))
		for q, s := range st.Std {
			spread[q] = float32(unbiased * float64(s))
			full[q] = float32(max(0, k.SpreadAffine[at][0]+k.SpreadAffine[at][1]*float64(s)))
		}
		raw := baseline.Raw{Valid: init.Valid(k.Targets[at/depth].Lead).Time, Mean: st.Mean, Std: spread}
		b := m.fallbackFit(at, method)
		switch {
		case m.Spec.PredictsMembers():
			raw.Members = (&Forecast{Members: members}).TargetMembers(at, len(stats), len(st.Mean))
			if err := m.addFallbackMembers(out, at, len(stats), raw, b); err != nil {
				return nil, err
			}
			continue
		case m.Spec.Head.Spread != nil:
		case b != nil:
			m.addFallback(out, at, st.Mean, b.Method.Family, b.Fit.Forecast(raw))
		default:
			for q := range spread {
				spread[q] *= float32(finite)
			}
			m.addFallback(out, at, st.Mean, dist.Normal, [][]float32{st.Mean, spread})
		}
		if m.Spec.TrainsSpread() {
			out.Spread = append(out.Spread, full...)
		}
	}
	if out.Members == nil {
		m.censor(out, len(stats))
	}
	return out, nil
}

// Smallest standard deviation and mean of distributions that are not normal, in units of the error
// scale. They are needed where all members agree, and for families of positive values. For a
// censored family both together mean that values differ from 0 in one of a million cases.
const (
	minStd  = 1e-3
	minMean = 1e-6
)

// addFallback appends a target to a forecast. y are parameters of some family; they are converted to
// the family of the model. centre is the members' mean.
//
// If family is that of the model, parameters are copied; else mean and standard deviation agree, and
// the other parameters are those of setFreeParameters.
//
// Shape: centre [point]; y [parameter][point].
// Missing: NaN in centre or y gives NaN.
func (m *Model) addFallback(out *Forecast, at int, centre []float32, family *dist.Family, y ParameterFields) {
	k := &m.Task
	to := m.VariableFamily(k.Targets[at/len(k.Features.Axes.Levels)].Variable)
	scale := k.ErrorScale[at]
	normal := m.Family == dist.Normal // mean and spread are the parameters, even if products are censored at 0
	if out.Parameters == nil && !normal {
		out.Parameters = make([][]float32, len(to.Parameters))
	}
	par, given, missing := make([]float64, len(to.Parameters)), make([]float64, len(y)), math.NaN()
	for q, c := range centre {
		mean, std := missing, missing
		if y.At(given, q); c == c && !slices.ContainsFunc(given, math.IsNaN) {
			mean, std = family.Moments(given)
			if !normal {
				std = max(std, minStd*scale)
				if to.Positive {
					mean = max(mean, minMean*scale)
				}
			}
		}
		if !normal {
			switch {
			case mean == mean && (family == m.Family || family == to):
				copy(par, given)
			case mean == mean:
				m.setFreeParameters(par, at, float64(c))
				fallthrough
			default:
				to.SetMoments(par, mean, std)
			}
			for i, x := range par {
				out.Parameters[i] = append(out.Parameters[i], float32(x))
			}
			if mean == mean {
				mean, std = to.Moments(par)
			}
		}
		out.Mean, out.Sigma = append(out.Mean, float32(mean)), append(out.Sigma, float32(std))
	}
}

// setFreeParameters sets the parameters that mean and standard deviation do not determine. They are
// the degrees of freedom of a recalibrated model, the edges of a histogram, or the defaults of the
// family. Edges of several networks are taken at equal steps of their index, since each network has
// a share of the bins.
func (m *Model) setFreeParameters(par []float64, at int, centre float64) {
	switch {
	case m.Recalibrations != nil:
		par[2] = m.Recalibrations[at].Nu
	case m.Spec.Head.Bins() > 0: // the bins of all networks together, relative to the members' mean
		edges := m.Task.Edges[at]
		variable := m.Task.Targets[at/len(m.Task.Features.Axes.Levels)].Variable
		for i := range par[:len(par)/2+1] {
			x := float64(i) * float64(len(edges)-1) / float64(len(par)/2)
			j := min(int(x), len(edges)-2)
			par[i] = centre + m.Task.ErrorScale[at]*(edges[j]+(x-float64(j))*(edges[j+1]-edges[j]))
			if network.IsNonNegative(variable) {
				par[i] = max(0, par[i])
			}
		}
	default:
		network.FreeParameters(m.Family, par)
	}
}

// addFallbackMembers writes the members of a target into a forecast, the raw ones if b is nil.
// Negative members of variables that have no negative values become 0. Mean and spread are then
// those of the members.
//
// Random ties of the ranks are seeded by initialisation, lead, variable and level (ecc.FieldDraws),
// so two runs give the same members.
func (m *Model) addFallbackMembers(out *Forecast, at, targets int, raw baseline.Raw, b *task.Baseline) (err error) {
	members := raw.Members
	switch {
	case b == nil:
	case b.Method.Family == nil:
		members = b.Fit.Forecast(raw)
	default:
		y := ParameterFields(b.Fit.Forecast(raw))
		par := make([]float64, len(y))
		d := len(m.Task.Features.Axes.Levels)
		of := m.Task.Targets[at/d]
		draws := ecc.FieldDraws(ensemble.InitAt(raw.Valid.Add(-time.Duration(of.Lead))), of.Lead, of.Variable, m.Task.Features.Axes.Levels[at%d], m.Grid)
		if members, err = ecc.CoupleQuantiles(raw.Members, ecc.MidLevels(len(raw.Members)), draws, func(point int, level float64) float64 {
			return b.Method.Family.Quantile(y.At(par, point), level)
		}); err != nil {
			return err
		}
	}
	k := &m.Task
	bounded := network.IsNonNegative(k.Targets[at/len(k.Features.Axes.Levels)].Variable)
	own := out.TargetMembers(at, targets, len(raw.Mean))
	for i, x := range members {
		for q, v := range x {
			if bounded && v < 0 {
				v = 0
			}
			own[i][q] = v
		}
	}
	mean, std := make([]float32, len(raw.Mean)), make([]float32, len(raw.Mean))
	k.Features.MeanStd(mean, std, own)
	out.Mean, out.Sigma = append(out.Mean, mean...), append(out.Sigma, std...)
	return nil
}
