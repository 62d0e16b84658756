package cuda

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

var scoring = kernels.Program("scores.cu")

// scored are the families whose closed forms scores.cu has, in its order. The others need incomplete gamma and
// beta functions, or have as many parameters as one likes: they run on the processor.
var scored = []*dist.Family{dist.Normal, dist.TruncatedNormal, dist.CensoredNormal, dist.ZeroNormal, dist.LogNormal, dist.Logistic, dist.TruncatedLogistic,
	dist.CensoredLogistic}

// scoreKernels are the kernels of the parts of a score, of a family and of a histogram.
var scoreKernels = map[string][2]string{
	"distribution_score":      {"score_values", "entropy_values"},
	"distribution_score_grad": {"score_grads", "entropy_grads"},
	"distribution_score_dy":   {"score_dys", ""},
}

// distribution serves the scores of distributions.
func distribution(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.Scored), q.In[0].Shape
	family := slices.IndexFunc(scored, func(f *dist.Family) bool { return f.ID == a.Family })
	n := int64(q.In[1].Shape.Size())
	args := append(addresses(q), n, int64(s[2:].Size()), int32(s[1]))
	name := scoreKernels[q.Op.Name][0]
	switch {
	case a.Rule == op.CrossEntropyRule:
		name = scoreKernels[q.Op.Name][1]
	case a.Rule == op.CRPSRule && family >= 0:
		args = append(args, int32(family))
	default:
		return backend.Kernel{}, nil
	}
	w := &work{b: b}
	w.call(scoring, name, over(n), args...)
	return w.kernel(name)
}
