package unet3d

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Calibrated computes, from statistics of a small ensemble, the parameters of a normal distribution
// of the analysis and the spread of the full ensemble. A network (Body) sees the fields. Maps with
// one trained value per grid point and target represent local effects, like a locally connected
// layer of size 1:
//
//	shift  = b₀ + b₁ sin(year) + b₂ cos(year) + b₃ anomaly + u₁
//	sigma  = ( softplus(p) + softplus(q)·s ) · exp(u₂)
//	spread = max( 0, a₀ + a₁ s + k·(u₃ + c) )
//
// Here b, p, q, c are maps, u the outputs of the network, s the standard deviation of the input
// members, and a₀, a₁, k constants of each target. u and b are initialised with 0: an untrained
// network gives the members' mean, with a spread that is affine in s.
//
// With a reference, which is itself a normal distribution, the network corrects the reference:
//
//	shift  = reference's shift + u₁
//	sigma  = reference's sigma · exp(u₂)
//
// The only map is then that of the spread. The reference represents the local effects. It is fitted
// on other dates than those on which the network is trained.
//
// Without maps and without reference, shift and sigma are in units of the members' spread, as in
// ENS-10:
//
//	shift  = s'·u₁,  sigma = s'·exp(u₂),  s' = max(s, 0.01)
//
// Unit: that of the error scale of each target, by which the caller divides and multiplies. A
// target is a variable on a level; variables are channels, levels are depth.
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092 (U-Net, locally connected layers,
// CRPS); Rasp and Lerch 2018, doi:10.1175/MWR-D-18-0187.1 (parameters of a distribution as output).
type Calibrated struct {
	Body Body
	// NoMaps leaves out all maps, for networks whose only information on the location is their
	// input.
	NoMaps bool
	// MapGrid is the grid of the maps, if the fields are a window of it.
	MapGrid MapGrid
	// SpreadAffine [V D][2] holds a₀ and a₁, SpreadScale [V D] holds k.
	SpreadAffine [][2]float64
	SpreadScale  []float64
	// SpreadOnly leaves out shift and sigma.
	SpreadOnly bool
	// SigmaFromSpread, with SpreadOnly, also gives a sigma: SoftFloor the spread before it is clipped
	// at 0.
	SigmaFromSpread bool
	// Extra lists further outputs, for distributions with parameters besides location and scale.
	// Each is a channel of the network plus a map.
	Extra []ExtraOutput
}

// ExtraOutput is an entry of Calibrated.Extra: the name of its map and the map's initial value.
type ExtraOutput struct {
	Name    string
	Initial float64
}

// CalibratedInput holds the inputs of Calibrated.
//
// Shape: Features [N C D H W]; Spread (s) and Anomaly [N V D H W]; Season [N 2 1 1 1], sine and
// cosine of the phase of the year; ReferenceShift and ReferenceSigma (> 0) [N V D H W], if there is
// a reference.
type CalibratedInput struct {
	Features, Spread, Anomaly, Season graph.Value
	ReferenceShift, ReferenceSigma    graph.Value
}

// CalibratedOutput holds the outputs of Calibrated. Shift is the difference of the distribution's
// location from the members' mean. Sigma is the scale of the distribution, > 0. Spread is the
// estimated standard deviation of the full ensemble, ≥ 0. With SpreadOnly there is only Spread, and
// Sigma with SigmaFromSpread. Extra has one value for each entry of Calibrated.Extra.
//
// Shape: [N V D H W] each.
type CalibratedOutput struct {
	Shift, Sigma, Spread graph.Value
	Extra                []graph.Value
}

// MapsPrefix is the prefix of the names of maps. All other parameters belong to the network.
const MapsPrefix = "maps."

// Initial floor and slope of sigma, in units of the error scale and of s. They are typical values
// of a global regression on a small underdispersive ensemble.
const (
	initialFloor = 0.35
	initialSlope = 0.85
)

// sigmaFloor is the smallest sigma of SoftFloor and the smallest spread used as a unit, in units of
// the error scale. sigmaBend is k of SoftFloor.
const (
	sigmaFloor = 0.01
	sigmaBend  = 10
)

// Build extends the graph by the network.
//
// Errors: in the builder: ErrShape if the inputs do not match each other.
func (c Calibrated) Build(b *graph.Builder, in CalibratedInput) CalibratedOutput {
	v, d, h, w := in.Spread.Dim(1), in.Spread.Dim(2), in.Spread.Dim(3), in.Spread.Dim(4)
	if len(c.SpreadAffine) != v*d || len(c.SpreadScale) != v*d || in.Features.Dim(2) != d {
		b.Fail("calibrated", fmt.Errorf("%d affine and %d scale values for %d variables on %d levels, features %v: %w",
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
		return c.MapGrid.fieldMap(b, MapsPrefix+name, graph.Shape{1, v, d, h, w}, graph.Fill(start))
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

// SoftFloor converts x, which may have any sign, to a positive value close to x where x is not small:
//
//	floor + softplus(k·x) / k
//
// with k = 10 and floor = 0.01, in units of the error scale.
func SoftFloor(b *graph.Builder, x graph.Value) graph.Value {
	return op.AddScalar(b, op.Scale(b, op.Softplus(b, op.Scale(b, x, sigmaBend)), 1./sigmaBend), sigmaFloor)
}

// InverseSoftplus is ln(eʸ − 1), the inverse of softplus.
func InverseSoftplus(y float64) float64 { return math.Log(math.Expm1(y)) }
