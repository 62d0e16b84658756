package op

import "math"

// L1 is the mean absolute error: the mean of |x − y| over all elements.
//
// Shape: x, y of one shape → scalar.
// Unit: that of x. Better: lower.
// Gradient: sign(x − y)/n to x.
// Errors: ErrShape.
func L1(b *Builder, x, y Value) Value { return Mean(b, Abs(b, sameShape(b, "l1", x, y))) }

// MSE is the mean squared error: the mean of (x − y)² over all elements.
//
// Shape: x, y of one shape → scalar.
// Unit: that of x, squared. Better: lower.
// Gradient: 2(x − y)/n to x.
// Errors: ErrShape.
func MSE(b *Builder, x, y Value) Value { return Mean(b, Square(b, sameShape(b, "mse", x, y))) }

// WeightedL1 is the mean of |x − y| with weights w that broadcast: area
// weights, or a mask. See WeightedMean.
func WeightedL1(b *Builder, x, y, w Value) Value {
	return WeightedMean(b, Abs(b, sameShape(b, "weighted_l1", x, y)), w)
}

// WeightedMSE is the mean of (x − y)² with weights w that broadcast: area
// weights, or a mask. See WeightedMean.
func WeightedMSE(b *Builder, x, y, w Value) Value {
	return WeightedMean(b, Square(b, sameShape(b, "weighted_mse", x, y)), w)
}

// sameShape is x − y for equal shapes. Losses reject broadcasting, since it
// hides mistakes.
func sameShape(b *Builder, what string, x, y Value) Value {
	if x.Valid() && y.Valid() && !x.Shape().Equal(y.Shape()) {
		return b.Fail(what, shapeError("x is %v, y is %v; want equal shapes", x.Shape(), y.Shape()))
	}
	return Sub(b, x, y)
}

// NormalCramer is the Cramér distance of the normal distributions (mu, sigma)
// and (mu2, sigma2), point by point: the integral of the squared difference of
// their distribution functions. It is the excess of the expected CRPS of the
// first over that of the second, for observations from the second.
//
// With the CRPS of a normal distribution, s = √(σ² + σ₂²):
//
//	CRPS(N(μ, s), μ₂) + (s − σ − σ₂)/√π
//
// Shape: all of one shape → the same.
// Unit: that of mu. Better: lower.
// Gradient: closed form, by that of gaussian_crps.
// Errors: ErrShape.
// Source: postproc/dist.NormalCramer documents the formula and its source.
func NormalCramer(b *Builder, mu, sigma, mu2, sigma2 Value) Value {
	s := Sqrt(b, Add(b, Square(b, sigma), Square(b, sigma2)))
	rest := Sub(b, s, Add(b, sigma, sigma2))
	return Add(b, GaussianCRPS(b, mu, s, mu2), Scale(b, rest, 1/math.Sqrt(math.Pi)))
}
