package cuda

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// The families whose CRPS has a kernel, with their numbers in its program: closed
// forms, and those that need incomplete gamma or beta functions.
var (
	closedForms = map[string]int{dist.Normal.ID: 0, dist.TruncatedNormal.ID: 1, dist.CensoredNormal.ID: 2, dist.ZeroNormal.ID: 3, dist.LogNormal.ID: 4,
		dist.Logistic.ID: 5, dist.TruncatedLogistic.ID: 6, dist.CensoredLogistic.ID: 7}
	gammaForms = map[string]int{dist.Student.ID: 0, dist.CSGamma.ID: 1}
)

// Their programs, and that of Bernstein quantile functions.
var (
	closedFormProgram = func(family int) device.Program { return kernels.Program("scores.cu", define("FAMILY", family)) }
	gammaProgram      = func(family int) device.Program { return kernels.Program("gammas.cu", define("FAMILY", family)) }
	bernsteinProgram  = kernels.Program("bernstein.cu")
)

// maxCoefficients is the largest number of coefficients in bernstein.cu.
const maxCoefficients = 64

// distribution returns the rule of a score of predictive distributions; ending is the
// last part of the names of its kernels. Families without kernel, and polynomials of
// higher degree, run the reference kernel.
func distribution(ending string) prepare {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) { return distributionKernel(b, q, ending) }
}

// distributionKernel prepares a score: CRPS, cross entropy or pinball loss.
//
// Shape: parameters [N P D H W] and observations [N 1 D H W]; one thread per
// observation.
// Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12, for closed forms of
// the CRPS; formulas in package postproc/dist.
func distributionKernel(b *Backend, q backend.Request, ending string) (backend.Kernel, error) {
	a, s := q.Attrs.(op.ScoreSpec), q.In[0].Shape
	n, points, count := int64(q.In[1].Shape.Size()), int64(s[2:].Size()), int32(s[1])
	kernel := func(p device.Program, name string, more ...any) (backend.Kernel, error) {
		w := &work{b: b}
		name += "_" + ending
		w.call(p, name, gridFor(n), append(append(addresses(q), n, points), more...)...)
		return w.kernel(name)
	}
	// Families of positive variables are censored at 0.
	censored := int32(0)
	if f := dist.FamilyByID(a.Family, a.Parameters); f != nil && f.Positive {
		censored = 1
	}
	closed, inClosed := closedForms[a.Family]
	gamma, inGammas := gammaForms[a.Family]
	row, _ := dist.RowByID(a.Family)
	switch {
	case a.Rule == dist.CrossEntropyRule:
		return kernel(closedFormProgram(0), "entropy", count)
	case inClosed:
		return kernel(closedFormProgram(closed), "score", count)
	case inGammas:
		return kernel(gammaProgram(gamma), "score")
	case row.Size != dist.Degree || count > maxCoefficients:
		return backend.Kernel{}, nil // the reference kernel // the reference kernel
	case a.Rule == dist.CRPSRule:
		return kernel(bernsteinProgram, "bernstein", count, censored)
	}
	basis, release, err := b.table(bernsteinTable(a.Parameters))
	if err != nil {
		return backend.Kernel{}, err
	}
	k, err := kernel(bernsteinProgram, "pinball", count, censored, basis, int32(op.PinballLevels))
	if err != nil {
		release()
		return backend.Kernel{}, err
	}
	k.Close = release
	return k, nil
}

// bernsteinTable returns the Bernstein basis polynomials of n coefficients at the
// levels of the pinball loss, as bits of float32:
//
//	B_j(τ) = C(n−1, j)·τ^j·(1−τ)^(n−1−j),  τ = (i+1)/(PinballLevels+1)
func bernsteinTable(count int) []int32 {
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
