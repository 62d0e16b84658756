package network

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// distributionOutputs holds the outputs of a network from which a link computes the parameters of a
// distribution.
//
// Shape: [N V D H W] each. Unit: the error scale.
type distributionOutputs struct {
	shift, sigma graph.Value
	centre       graph.Value             // members' mean
	extra        []graph.Value           // outputs in addition to shift and sigma
	edge         func(i int) graph.Value // edge i of the task's histograms
}

// mean is the mean of the distribution.
func (o *distributionOutputs) mean(b *graph.Builder) graph.Value { return op.Add(b, o.centre, o.shift) }

// link computes the parameters of a family from the outputs of a network.
//
// The network for any family has the outputs of the one for a normal distribution, shift and sigma,
// and some more (extra). Parameters are in units of the error scale. Locations are relative to the
// members' mean. An untrained network gives a distribution around this mean, with a standard
// deviation that is affine in the members' standard deviation.
type link struct {
	// extra lists the outputs in addition to shift and sigma; nil for none.
	extra func(f *dist.Family) []unet3d.ExtraOutput
	// parameters computes the parameters of the loss, in the order of ParameterNames.
	parameters func(b *graph.Builder, f *dist.Family, out distributionOutputs) []graph.Value
	// outputs converts them to the outputs of the network; nil if they are the same.
	outputs func(b *graph.Builder, parameters []graph.Value) []graph.Value
	// censored is true if the loss of variables without negative values is that of the distribution
	// censored at 0.
	censored bool
	// free sets the parameters that mean and standard deviation do not determine; nil if there are
	// none.
	free func(par []float64)
}

// links lists the links of families without location and scale, by ID. All others use
// locationScale.
var links = map[string]link{
	dist.LogNormal.ID: {parameters: logNormalLink},
	dist.ZeroNormal.ID: {
		extra:      func(*dist.Family) []unet3d.ExtraOutput { return []unet3d.ExtraOutput{{Name: "p"}} },
		parameters: zeroNormalLink,
	},
	dist.CSGamma.ID: {
		extra: func(*dist.Family) []unet3d.ExtraOutput {
			return []unet3d.ExtraOutput{{Name: "gamma_shift", Initial: unet3d.InverseSoftplus(initialGammaShift)}}
		},
		parameters: gammaLink,
		free:       func(par []float64) { par[1], par[2] = 1, initialGammaShift },
	},
	dist.BernsteinID: {
		extra: func(f *dist.Family) []unet3d.ExtraOutput {
			degree := len(f.Parameters) - 1
			z := dist.NormalCoefficients(degree)
			return numberedOutputs("step", degree, func(i int) float64 { return unet3d.InverseSoftplus(z[i+1] - z[i]) })
		},
		parameters: bernsteinLink,
		censored:   true,
	},
	dist.HistogramID: {
		extra: func(f *dist.Family) []unet3d.ExtraOutput {
			return numberedOutputs("bin", len(f.Parameters)/2, func(int) float64 { return 0 })
		},
		parameters: logits,
		outputs:    probabilities,
	},
}

// linkOf returns the link of a family.
func linkOf(f *dist.Family) link {
	if l, ok := links[f.ID]; ok {
		return l
	}
	return link{parameters: locationScale}
}

// FreeParameters sets the parameters of a distribution that its mean and standard deviation do not
// determine to the values of an untrained network.
func FreeParameters(f *dist.Family, par []float64) {
	if free := linkOf(f).free; free != nil {
		free(par)
	}
}

// numberedOutputs lists n outputs named name_01, name_02 and so on.
func numberedOutputs(name string, n int, start func(i int) float64) (out []unet3d.ExtraOutput) {
	for i := range n {
		out = append(out, unet3d.ExtraOutput{Name: fmt.Sprintf("%s_%02d", name, i+1), Initial: start(i)})
	}
	return out
}

// locationScale is the link of families with location and scale. With mean m and standard deviation
// s of the standard distribution (location 0, scale 1):
//
//	scale = sigma/s     location = shift − scale·m
func locationScale(b *graph.Builder, f *dist.Family, out distributionOutputs) []graph.Value {
	location, scale := out.shift, out.sigma
	if f.StandardMoments.Std != 1 {
		scale = op.Scale(b, scale, 1/f.StandardMoments.Std)
	}
	if f.StandardMoments.Mean != 0 {
		location = op.Add(b, location, op.Scale(b, scale, -f.StandardMoments.Mean))
	}
	return []graph.Value{location, scale}
}

// logNormalLink matches the moments of the network, m = SoftFloor(centre + shift) > 0 and sigma:
//
//	v = ln(1 + (sigma/m)²)     μ = ln m − v/2     σ = √v
//
// v is softplus(2 ln(sigma/m)): in float32, 1 + (sigma/m)² would have few digits of a small spread, or
// none, where √v has no gradient.
func logNormalLink(b *graph.Builder, _ *dist.Family, out distributionOutputs) []graph.Value {
	m := unet3d.SoftFloor(b, out.mean(b))
	v := op.Softplus(b, op.Scale(b, op.Log(b, op.Div(b, out.sigma, m)), 2))
	return []graph.Value{op.Sub(b, op.Log(b, m), op.Scale(b, v, 0.5)), op.Sqrt(b, v)}
}

// logisticScale scales the logit such that the logistic function approximates the normal
// distribution function: Φ(z) ≈ 1/(1 + exp(−1.702 z)).
//
// Source: Haley 1952, Stanford Applied Mathematics and Statistics Laboratory, technical report 15.
const logisticScale = 1.702

// zeroNormalLink starts close to the censored normal distribution: the probability of zero is that
// of the normal distribution below 0, with a correction extra₀ of its logit,
//
//	p = logistic(−1.702·mean/sigma + extra₀)
func zeroNormalLink(b *graph.Builder, _ *dist.Family, out distributionOutputs) []graph.Value {
	logit := op.Scale(b, op.Div(b, out.mean(b), out.sigma), -logisticScale)
	return []graph.Value{op.Sigmoid(b, op.Add(b, logit, out.extra[0])), out.shift, out.sigma}
}

// initialGammaShift is the initial shift of the gamma distribution to the left, in units of the error
// scale. If all members are dry, the probability of zero is then about 0.6.
const initialGammaShift = 0.35

// gammaLink matches the moments of the gamma distribution before it is shifted to the left by δ =
// softplus(extra₀):
//
//	m = SoftFloor(centre + shift + δ)     scale = sigma²/m     shape = m/scale
func gammaLink(b *graph.Builder, _ *dist.Family, out distributionOutputs) []graph.Value {
	left := op.Softplus(b, out.extra[0])
	m := unet3d.SoftFloor(b, op.Add(b, out.mean(b), left))
	scale := op.Div(b, op.Square(b, out.sigma), m)
	return []graph.Value{op.Div(b, m, scale), scale, left}
}

// bernsteinLink has ascending coefficients, so that the quantile function ascends:
//
//	a₀ = shift + sigma·z₀     aᵢ = aᵢ₋₁ + sigma·softplus(extraᵢ)
//
// with the coefficients z of the normal quantile function. extra is initialised such that the
// distribution is approximately normal.
func bernsteinLink(b *graph.Builder, f *dist.Family, out distributionOutputs) []graph.Value {
	level := b.Scalar(dist.NormalCoefficients(len(f.Parameters) - 1)[0])
	a := []graph.Value{op.Add(b, out.shift, op.Mul(b, out.sigma, level))}
	for _, step := range out.extra {
		a = append(a, op.Add(b, a[len(a)-1], op.Mul(b, out.sigma, op.Softplus(b, step))))
	}
	return a
}

// minProbability is added to the initial probability of a bin, so that its logarithm is finite
// where the distribution has no mass.
const minProbability = 1e-6

// logits are the logarithms of the probabilities of the bins, up to a constant. Bin i between the
// edges eᵢ and eᵢ₊₁ has
//
//	lᵢ = ln( F(eᵢ₊₁) − F(eᵢ) + 10⁻⁶ ) + extraᵢ
//
// with F the logistic distribution function with the network's mean and standard deviation. The
// first and last bin are open.
func logits(b *graph.Builder, _ *dist.Family, out distributionOutputs) []graph.Value {
	width := op.Scale(b, out.sigma, 1/dist.LogisticStd)
	bins := len(out.extra)
	var below, logits []graph.Value // below the upper edge of each bin but the last
	for i := range bins - 1 {
		z := op.Div(b, op.Sub(b, out.edge(i+1), out.shift), width)
		below = append(below, op.Sigmoid(b, z))
	}
	for i, extra := range out.extra {
		var p graph.Value
		switch i {
		case 0:
			p = below[0]
		case bins - 1:
			p = op.AddScalar(b, op.Scale(b, below[i-1], -1), 1)
		default:
			p = op.Sub(b, below[i], below[i-1])
		}
		logits = append(logits, op.Add(b, op.Log(b, op.AddScalar(b, p, minProbability)), extra))
	}
	return logits
}

// probabilities is the softmax of logits.
func probabilities(b *graph.Builder, logits []graph.Value) []graph.Value {
	total := logits[0] // log Σ exp, by log(eˣ + eʸ) = x + softplus(y − x), which does not overflow
	for _, l := range logits[1:] {
		total = op.Add(b, total, op.Softplus(b, op.Sub(b, l, total)))
	}
	out := make([]graph.Value, len(logits))
	for i, l := range logits {
		out[i] = op.Exp(b, op.Sub(b, l, total))
	}
	return out
}
