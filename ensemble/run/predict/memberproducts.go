package predict

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
)

// distribution says what quantiles, probabilities and members of a variable are of, and how members
// are made.
//
// Errors: as family.
func (ch *productChoice) distribution(t task.Target, level ensemble.Level) (name, how string, err error) {
	if ch.model.Spec.PredictsMembers() {
		if ch.fallback != "" {
			return "empirical distribution of the members", ch.memberMethod(), nil
		}
		return "empirical distribution of the calibrated members", ch.memberMethod(), nil
	}
	family, err := ch.model.CheckedFamily(t.Variable)
	if err != nil {
		return "", "", err
	}
	return family.Name + ch.recalibrationNote(t, level), ch.memberMethod(), nil
}

// memberMethod says how calibrated members are made.
func (ch *productChoice) memberMethod() string {
	switch {
	case !ch.model.Spec.PredictsMembers():
		return ch.coupling.Description()
	case ch.fallback == config.RawFallback:
		return "raw members"
	case ch.fallback != "":
		return "members of " + ch.fallback + ", in the order of the raw ones"
	}
	return "each raw member corrected by the network"
}

// checkMemberProducts refuses what there is not of a network that gives members.
//
// Errors: exit 64.
func checkMemberProducts(m *model.Model, words []string, c config.Coupling) error {
	switch {
	case !m.Spec.PredictsMembers():
		return nil
	case slices.Contains(words, config.EnsembleSpreadProduct):
		return &exit.Error{Code: exit.Usage, What: "the model has no " + config.EnsembleSpreadProduct, At: "products", Why: "it corrects the members that there are",
			Fix: "leave it out, or train with another model.head than members"}
	case slices.Contains(words, config.ParametersProduct):
		return &exit.Error{Code: exit.Usage, What: "the model has no " + config.ParametersProduct, At: "products", Why: "it gives members, and no distribution",
			Fix: "leave them out, or train with model.head: distribution"}
	case slices.Contains(words, config.NeighbourhoodProduct), slices.Contains(words, config.NeighbourhoodAnyProduct):
		return &exit.Error{Code: exit.Usage, What: "probabilities of neighbourhoods are asked for, and the model gives members", At: "products", Why: "they are made of a distribution",
			Fix: "leave them out, or train with another model.head than members"}
	case c.Method != "" && c.Method != config.QuantileCoupling:
		return &exit.Error{Code: exit.Usage, What: "coupling is asked for, and the model gives members", At: "coupling.method", Why: "they are its own, in their own order",
			Fix: "leave coupling out"}
	}
	return nil
}

// fillMembers gives a field its values from the members of a prediction, at some places.
func (fl *filler) fillMembers(p *product.Product, f *product.Field, target int, at locations) {
	members := fl.out.TargetMembers(target, len(fl.model.Task.TargetWeights), fl.model.Grid.Size())
	if f.Kind == product.Member {
		members = members[slices.Index(p.Members, f.Member):][:1]
	}
	for m, x := range members {
		members[m] = at.interpolate(x)
		if f.Variable == "2t" && at.heightCorrection != nil {
			members[m] = at.correctHeight(f, slices.Clone(members[m]))
		}
	}
	if f.Values = members[0]; f.Kind != product.Member {
		f.Values = memberStatistic(members, f.Kind == product.Quantile, f.Below, f.Event)
	}
}

// memberStatistic computes a quantile of members, or the probability of an event as the share of
// members in it, at every point. The quantile of level q lies between sorted members, of which the
// kth of M stands for the level (k−1/3)/(M+1/3), which is right in the median for draws of any
// continuous distribution; beyond the outermost it is theirs.
//
// Missing: a missing member gives NaN.
// Source: Hyndman and Fan 1996, doi:10.2307/2684934 (type 8).
func memberStatistic(members [][]float32, quantile bool, level float64, e ensemble.Event) []float32 {
	out, x := make([]float32, len(members[0])), make([]float64, len(members))
	for p := range out {
		for m, f := range members {
			x[m] = float64(f[p])
		}
		slices.Sort(x) // NaN first
		switch {
		case x[0] != x[0]:
			out[p] = float32(math.NaN())
		case quantile:
			out[p] = float32(quantileOf(x, level))
		default:
			in := 0
			for _, v := range x {
				if (e.Relation == ensemble.Below || v > e.Lower) && (e.Relation == ensemble.Above || v < e.Upper) {
					in++
				}
			}
			out[p] = float32(in) / float32(len(x))
		}
	}
	return out
}

// quantileOf is that of memberStatistic, of sorted values.
func quantileOf(x []float64, level float64) float64 {
	at := level*(float64(len(x))+1./3) + 1./3 - 1
	i := int(math.Floor(at))
	switch {
	case i < 0:
		return x[0]
	case i >= len(x)-1:
		return x[len(x)-1]
	}
	return x[i] + (at-float64(i))*(x[i+1]-x[i])
}
