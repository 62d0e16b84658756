package unet3d

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Calibrated turns the statistics of a few members into a normal distribution
// and into the spread that all members would have. A 3-D U-Net sees the fields;
// maps with one value per grid point and target hold what is local (like a
// locally connected layer of size 1):
//
//	shift  = b₀ + b₁ sin(year) + b₂ cos(year) + b₃ anomaly + u₁
//	sigma  = ( softplus(p) + softplus(q)·s ) · exp(u₂)
//	spread = max( 0, a₀ + a₁ s + k·(u₃ + c) )
//
// with maps b, p, q, c, the U-Net's outputs u, the standard deviation s of the
// used members, and fixed numbers a₀, a₁, k per target. u and b start at zero:
// an untrained network is the members' mean with an affine spread.
//
// With a reference, a forecast that is a normal distribution already, the network corrects that:
//
//	shift  = reference's shift + u₁
//	sigma  = reference's sigma · exp(u₂)
//
// Only the map of the spread is left then: what is local of the distribution is the reference's,
// which is fitted on dates other than those that the network learns from.
//
// Without maps, and without a reference, sigma and shift are in units of the members' spread, as
// in ENS-10:
//
//	shift  = s'·u₁,  sigma = s'·exp(u₂),  s' = max(s, 0.01)
//
// Everything is in units of an error scale per target that the caller divides
// by and multiplies with again. A target is a variable at a level; variables are
// channels, levels are depth.
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092 (U-Net, locally
// connected layers, CRPS); Rasp and Lerch 2018, doi:10.1175/MWR-D-18-0187.1
// (distribution parameters as output).
type Calibrated struct {
	Body Body
	// NoMaps leaves all maps out, for networks that are to know of places what their input tells.
	NoMaps bool
	// SpreadAffine [V D][2] are a₀ and a₁, SpreadScale [V D] is k.
	SpreadAffine [][2]float64
	SpreadScale  []float64
	// SpreadOnly leaves shift and sigma out.
	SpreadOnly bool
	// SigmaFromSpread gives, with SpreadOnly, the sigma of SoftFloor the spread before it is cut
	// off at 0.
	SigmaFromSpread bool
	// Extra are further outputs, of which a distribution has parameters beside its location and
	// scale: a channel of the U-Net each, and a map.
	Extra []ExtraOutput
}

// ExtraOutput is one of Calibrated.Extra: the name of its map, and that map's start.
type ExtraOutput struct {
	Name    string
	Initial float64
}

// CalibratedInput are the values that enter.
//
// Shape: Features [N C D H W]; Spread (s) and Anomaly [N V D H W]; Season
// [N 2 1 1 1] sine and cosine of the phase of the year; ReferenceShift and ReferenceSigma (> 0)
// [N V D H W] are those of the reference, if there is one.
type CalibratedInput struct {
	Features, Spread, Anomaly, Season graph.Value
	ReferenceShift, ReferenceSigma    graph.Value
}

// CalibratedOutput are the values that leave.
//
// Shape: [N V D H W] each. Shift is added to the members' mean; Sigma is the
// standard deviation of the distribution, > 0; Spread is the estimate of the
// full ensemble's standard deviation, ≥ 0. SpreadOnly gives only the last, and Sigma if
// that is asked for. Extra is one of each of Calibrated.Extra.
type CalibratedOutput struct {
	Shift, Sigma, Spread graph.Value
	Extra                []graph.Value
}

// MapsPrefix begins the names of the maps among a network's parameters; all others are
// those of the U-Net.
const MapsPrefix = "maps."

// The start of sigma, in units of the error scale: floor and slope as a global
// regression on a few under-dispersive members typically has them.
const (
	initialFloor = 0.35
	initialSlope = 0.85
)

// Sigma that goes on from a spread, and the members' spread as a unit: the smallest value, in units of the error scale, and how
// sharply it bends towards it.
const (
	sigmaFloor = 0.01
	sigmaBend  = 10
)

// Build extends the graph by the network.
//
// Errors: in the builder: ErrShape where inputs do not fit each other.
func (c Calibrated) Build(b *graph.Builder, in CalibratedInput) CalibratedOutput {
	v, d, h, w := in.Spread.Dim(1), in.Spread.Dim(2), in.Spread.Dim(3), in.Spread.Dim(4)
	if len(c.SpreadAffine) != v*d || len(c.SpreadScale) != v*d || in.Features.Dim(2) != d {
		b.Fail("calibrated", fmt.Errorf("%d affine and %d scale values for %d variables at %d levels, features %v: %w",
			len(c.SpreadAffine), len(c.SpreadScale), v, d, in.Features.Shape(), graph.ErrShape))
		return CalibratedOutput{}
	}
	outputs := 3 + len(c.Extra)
	if c.SpreadOnly {
		outputs = 1
	}
	u := c.Body(b, in.Features, outputs*v)
	part := func(k int) graph.Value { return op.Slice(b, u, 1, k*v, (k+1)*v) }
	mapOf := func(name string, start float64) graph.Value {
		return b.Param(MapsPrefix+name, graph.Shape{1, v, d, h, w}, graph.Fill(start))
	}
	perTarget := func(get func(int) float64) graph.Value {
		x := make([]float32, v*d)
		for i := range x {
			x[i] = float32(get(i))
		}
		return b.Const("", graph.Shape{1, v, d, 1, 1}, x)
	}

	base := op.Add(b, op.Mul(b, in.Spread, perTarget(func(i int) float64 { return c.SpreadAffine[i][1] })),
		perTarget(func(i int) float64 { return c.SpreadAffine[i][0] }))
	change := part(outputs - 1)
	if !c.NoMaps {
		change = op.Add(b, change, mapOf("spread", 0))
	}
	change = op.Mul(b, change, perTarget(func(i int) float64 { return c.SpreadScale[i] }))
	estimate := op.Add(b, base, change)
	out := CalibratedOutput{Spread: op.ReLU(b, estimate)}
	if c.SpreadOnly {
		if c.SigmaFromSpread {
			out.Sigma = SoftFloor(b, estimate)
		}
		return out
	}

	for i, e := range c.Extra {
		x := op.AddScalar(b, part(2+i), e.Initial)
		if !c.NoMaps {
			x = op.Add(b, part(2+i), mapOf(e.Name, e.Initial))
		}
		out.Extra = append(out.Extra, x)
	}
	if in.ReferenceSigma.Valid() {
		out.Shift = op.Add(b, in.ReferenceShift, part(0))
		out.Sigma = op.Mul(b, in.ReferenceSigma, op.Exp(b, part(1)))
		return out
	}
	if c.NoMaps {
		s := op.AddScalar(b, op.ReLU(b, op.AddScalar(b, in.Spread, -sigmaFloor)), sigmaFloor)
		out.Shift = op.Mul(b, s, part(0))
		out.Sigma = op.Mul(b, s, op.Exp(b, part(1)))
		return out
	}
	out.Shift = op.Add(b, part(0), mapOf("shift", 0))
	for i, name := range []string{"shift_sin", "shift_cos"} {
		out.Shift = op.Add(b, out.Shift, op.Mul(b, mapOf(name, 0), op.Slice(b, in.Season, 1, i, i+1)))
	}
	out.Shift = op.Add(b, out.Shift, op.Mul(b, mapOf("shift_anomaly", 0), in.Anomaly))

	floor := op.Softplus(b, mapOf("sigma_floor", InverseSoftplus(initialFloor)))
	slope := op.Softplus(b, mapOf("sigma_slope", InverseSoftplus(initialSlope)))
	out.Sigma = op.Mul(b, op.Add(b, op.Mul(b, in.Spread, slope), floor), op.Exp(b, part(1)))
	return out
}

// SoftFloor is a sigma that goes on from a spread x, whose network may have any sign,
//
//	floor + softplus(k·x) / k
//
// with k = 10, in units of the error scale: positive, and x itself where x is not small.
func SoftFloor(b *graph.Builder, x graph.Value) graph.Value {
	return op.AddScalar(b, op.Scale(b, op.Softplus(b, op.Scale(b, x, sigmaBend)), 1./sigmaBend), sigmaFloor)
}

// InverseSoftplus is ln(eʸ - 1).
func InverseSoftplus(y float64) float64 { return math.Log(math.Expm1(y)) }
