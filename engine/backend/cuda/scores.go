package cuda

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Programs of scores: of closed forms, of those with incomplete gamma and beta functions, and of polynomials.
var (
	scoring      = func(family int) device.Program { return kernels.Program("scores.cu", define("FAMILY", family)) }
	studentScore = kernels.Program("gammas.cu", define("FAMILY", 0))
	gammaScore   = kernels.Program("gammas.cu", define("FAMILY", 1))
	bernsteins   = kernels.Program("bernstein.cu")
)

// scored are the families whose closed forms scores.cu has, in its order.
var scored = []*dist.Family{dist.Normal, dist.TruncatedNormal, dist.CensoredNormal, dist.ZeroNormal, dist.LogNormal, dist.Logistic, dist.TruncatedLogistic,
	dist.CensoredLogistic}

// mostCoefficients is the number of coefficients that bernstein.cu holds.
const mostCoefficients = 64

// distribution serves the scores of distributions by kernels whose names end so; the reference kernel those of polynomials of a
// higher degree.
func distribution(ending string) prepare {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) { return distributionPart(b, q, ending) }
}

func distributionPart(b *Backend, q backend.Request, ending string) (backend.Kernel, error) {
	a, s := q.Attrs.(op.Scored), q.In[0].Shape
	n, points, count := int64(q.In[1].Shape.Size()), int64(s[2:].Size()), int32(s[1])
	kernel := func(p device.Program, name string, more ...any) (backend.Kernel, error) {
		w := &work{b: b}
		name += "_" + ending
		w.call(p, name, over(n), append(append(addresses(q), n, points), more...)...)
		return w.kernel(name)
	}
	family := slices.IndexFunc(scored, func(f *dist.Family) bool { return f.ID == a.Family })
	censored := int32(0)
	if f := dist.FamilyOf(a.Family, a.Parameters); f != nil && f.Positive {
		censored = 1
	}
	switch {
	case a.Rule == op.CrossEntropyRule:
		return kernel(scoring(0), "entropy", count)
	case family >= 0:
		return kernel(scoring(family), "score", count)
	case a.Family == dist.Student.ID:
		return kernel(studentScore, "score")
	case a.Family == dist.CSGamma.ID:
		return kernel(gammaScore, "score")
	case count > mostCoefficients:
		return backend.Kernel{}, nil
	case a.Rule == op.CRPSRule:
		return kernel(bernsteins, "bernstein", count, censored)
	}
	basis, release, err := b.table(polynomials(a.Parameters))
	if err != nil {
		return backend.Kernel{}, err
	}
	k, err := kernel(bernsteins, "pinball", count, censored, basis, int32(op.PinballLevels))
	if err != nil {
		release()
		return backend.Kernel{}, err
	}
	k.Close = release
	return k, nil
}

// polynomials are the bits of the Bernstein polynomials of so many coefficients at the levels of the pinball loss.
func polynomials(count int) []int32 {
	var bits []int32
	for i := range op.PinballLevels {
		for j := range count {
			one := make([]float64, count)
			one[j] = 1
			v := dist.BernsteinQuantile(one, float64(i+1)/(op.PinballLevels+1))
			bits = append(bits, int32(math.Float32bits(float32(v))))
		}
	}
	return bits
}
