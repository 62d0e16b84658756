package network

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// A head of any family has the same outputs as that of a normal distribution, shift and sigma, and
// some more. Links make the parameters of them, in units of the error scale; those that say where
// the distribution lies count from the members' mean. An untrained network gives a distribution
// around that mean, with a standard deviation that is affine in the members' one.

// distributionOutputs are what a network gives of a distribution.
//
// Shape: [N V D H W] each.
type distributionOutputs struct {
	shift, sigma graph.Value
	centre       graph.Value             // the members' mean
	extra        []graph.Value           // what the link has beside shift and sigma
	edge         func(i int) graph.Value // edge i of the task's histograms, in units of the error scale
}

// mean is that of the distribution in units of the error scale.
func (o *distributionOutputs) mean(b *graph.Builder) graph.Value { return op.Add(b, o.centre, o.shift) }

// link is how the parameters of a family come out of a network.
type link struct {
	// extra are the outputs beside shift and sigma; nil is none.
	extra func(f *dist.Family) []unet3d.ExtraOutput
	// parameters makes those of which the loss is computed, in the order of ParameterNames.
	parameters func(b *graph.Builder, f *dist.Family, out distributionOutputs) []graph.Value
	// outputs makes what comes out of them; nil is the same.
	outputs func(b *graph.Builder, parameters []graph.Value) []graph.Value
	// censored says that the loss is that of the distribution censored at 0, of variables without values below.
	censored bool
	// free sets the parameters that a mean and a standard deviation do not tell; nil if there are none.
	free func(par []float64)
}

// links are those of families that are not given by a location and a scale, by their names.
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

// linkOf is the link of a family.
func linkOf(f *dist.Family) link {
	if l, ok := links[f.ID]; ok {
		return l
	}
	return link{parameters: locationScale}
}

// FreeParameters sets those parameters of a distribution that its mean and standard deviation do not tell to what an untrained network has.
func FreeParameters(f *dist.Family, par []float64) {
	if free := linkOf(f).free; free != nil {
		free(par)
	}
}

// numberedOutputs are n outputs of one name.
func numberedOutputs(name string, n int, start func(i int) float64) (out []unet3d.ExtraOutput) {
	for i := range n {
		out = append(out, unet3d.ExtraOutput{Name: fmt.Sprintf("%s_%02d", name, i+1), Initial: start(i)})
	}
	return out
}

// locationScale is the link of all families with a location and a scale, by the moments of what has location 0 and scale 1.
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

// logNormalLink has the moments of the network.
func logNormalLink(b *graph.Builder, _ *dist.Family, out distributionOutputs) []graph.Value {
	m := unet3d.SoftFloor(b, out.mean(b))
	v := op.Log(b, op.AddScalar(b, op.Square(b, op.Div(b, out.sigma, m)), 1))
	return []graph.Value{op.Sub(b, op.Log(b, m), op.Scale(b, v, 0.5)), op.Sqrt(b, v)}
}

// logisticScale brings the logistic distribution function near that of the normal distribution.
//
// Source: Haley 1952, Stanford Applied Mathematics and Statistics Laboratory, technical report 15.
const logisticScale = 1.702

// zeroNormalLink is near the censored normal distribution.
func zeroNormalLink(b *graph.Builder, _ *dist.Family, out distributionOutputs) []graph.Value {
	logit := op.Scale(b, op.Div(b, out.mean(b), out.sigma), -logisticScale)
	return []graph.Value{op.Sigmoid(b, op.Add(b, logit, out.extra[0])), out.shift, out.sigma}
}

// initialGammaShift is how far left a gamma distribution is shifted at first, in units of the error
// scale. Where all members have no rain, zero has then a probability of about 0.6.
const initialGammaShift = 0.35

// gammaLink has the moments of the gamma distribution before it is shifted back.
func gammaLink(b *graph.Builder, _ *dist.Family, out distributionOutputs) []graph.Value {
	left := op.Softplus(b, out.extra[0])
	m := unet3d.SoftFloor(b, op.Add(b, out.mean(b), left))
	scale := op.Div(b, op.Square(b, out.sigma), m)
	return []graph.Value{op.Div(b, m, scale), scale, left}
}

// bernsteinLink has coefficients that ascend.
func bernsteinLink(b *graph.Builder, f *dist.Family, out distributionOutputs) []graph.Value {
	level := b.Scalar(dist.NormalCoefficients(len(f.Parameters) - 1)[0])
	a := []graph.Value{op.Add(b, out.shift, op.Mul(b, out.sigma, level))}
	for _, step := range out.extra {
		a = append(a, op.Add(b, a[len(a)-1], op.Mul(b, out.sigma, op.Softplus(b, step))))
	}
	return a
}

// minProbability is that of a bin of an untrained histogram, in which no observation may lie.
const minProbability = 1e-6

// logits are the logarithms of the probabilities of the bins, but for a constant: under a logistic distribution of the
// network's mean and standard deviation, and what the network adds to each.
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

// probabilities are the softmax of logits.
func probabilities(b *graph.Builder, logits []graph.Value) []graph.Value {
	total := logits[0] // log Σ exp: log(eˣ+eʸ) = x + softplus(y−x), which never overflows
	for _, l := range logits[1:] {
		total = op.Add(b, total, op.Softplus(b, op.Sub(b, l, total)))
	}
	out := make([]graph.Value, len(logits))
	for i, l := range logits {
		out[i] = op.Exp(b, op.Sub(b, l, total))
	}
	return out
}
