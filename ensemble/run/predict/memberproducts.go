package predict

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
)

// distribution returns a description of what quantiles, probabilities and members of a target are based on,
// and how members are made.
//
// Errors: as model.CheckedFamily.
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

// memberMethod describes how calibrated members are made.
func (ch *productChoice) memberMethod() string {
	switch {
	case !ch.model.Spec.PredictsMembers():
		return ch.coupling.Description()
	case ch.fallback == config.RawFallback:
		return "raw members"
	case ch.fallback != "":
		return "members of " + ch.fallback + ", in the rank order of the raw members"
	}
	if n := ch.coupling.Count; n > 0 {
		return fmt.Sprintf("member j of %d is raw member (j-1) mod M of M, from 0, corrected by the network with draw floor((j-1)/M) of its noise", n)
	}
	return "each raw member corrected by the network"
}

// checkMemberProducts checks products of a network that outputs members.
//
// Errors: exit 64 for products that need a distribution.
func checkMemberProducts(m *model.Model, words []string, c config.Coupling) error {
	switch {
	case !m.Spec.PredictsMembers():
		return nil
	case slices.Contains(words, config.EnsembleSpreadProduct):
		return &exit.Error{Code: exit.Usage, What: "the model has no " + config.EnsembleSpreadProduct, At: "products", Why: "its network corrects the input members",
			Fix: "remove it, or train with another model.head than members"}
	case slices.Contains(words, config.ParametersProduct):
		return &exit.Error{Code: exit.Usage, What: "the model has no " + config.ParametersProduct, At: "products", Why: "its network outputs members, not a distribution",
			Fix: "remove them, or train with model.head: distribution"}
	case slices.Contains(words, config.NeighbourhoodProduct), slices.Contains(words, config.NeighbourhoodAnyProduct):
		return &exit.Error{Code: exit.Usage, What: "neighbourhood probabilities need a distribution, but the model outputs members", At: "products", Why: "they are computed from a distribution",
			Fix: "remove them, or train with another model.head than members"}
	case c.Method != "" && c.Method != config.QuantileCoupling:
		return &exit.Error{Code: exit.Usage, What: "coupling does not apply to a model that outputs members", At: "coupling.method", Why: "its members have their own order",
			Fix: "remove coupling"}
	}
	return nil
}

// fillMembers sets the values of a field from the members of a prediction, at some locations.
func (fl *filler) fillMembers(p *product.Product, f *product.Field, target int, at locations) {
	members := fl.out.TargetMembers(target, len(fl.model.Task.TargetWeights), fl.model.Grid.Size())
	if f.Kind == product.Member {
		members = members[slices.Index(fl.coupling.Members(p.Members), f.Member):][:1]
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

// memberStatistic computes at every point a quantile of the members, or the probability of an event as the
// fraction of members in it. The quantile of level q interpolates between sorted members, of which the kth of
// M has the level
//
//	(k − 1/3) / (M + 1/3)
//
// These plotting positions are approximately median-unbiased for any continuous distribution. Beyond the
// outermost members the quantile is theirs.
//
// Shape: members [member][point].
// Missing: a missing member gives NaN.
// Source: Hyndman and Fan 1996, doi:10.2307/2684934 (type 8).
func memberStatistic(members [][]float32, quantile bool, level float64, e ensemble.Event) []float32 {
	out, x := make([]float32, len(members[0])), make([]float64, len(members))
	for p := range out {
		for m, f := range members {
			x[m] = float64(f[p])
		}
		slices.Sort(x) // sorts NaN first
		switch {
		case x[0] != x[0]:
			out[p] = float32(math.NaN())
		case quantile:
			out[p] = float32(quantileOf(x, level))
		default:
			in := 0
			for _, v := range x {
				if e.Occurs(v) {
					in++
				}
			}
			out[p] = float32(in) / float32(len(x))
		}
	}
	return out
}

// quantileOf is the quantile of memberStatistic for sorted values.
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
