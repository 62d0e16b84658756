package op

// L1 is the mean of |x − y| over all elements.
//
// Shape: x, y of one shape → scalar. Gradient: sign(x − y)/n. Errors: ErrShape.
func L1(b *Builder, x, y Value) Value { return Mean(b, Abs(b, sameShape(b, "l1", x, y))) }

// MSE is the mean of (x − y)² over all elements.
//
// Shape: x, y of one shape → scalar. Gradient: 2(x − y)/n. Errors: ErrShape.
func MSE(b *Builder, x, y Value) Value { return Mean(b, Square(b, sameShape(b, "mse", x, y))) }

// WeightedL1 is the mean of |x − y| with weights that broadcast (area weights,
// a mask); see WeightedMean.
func WeightedL1(b *Builder, x, y, w Value) Value {
	return WeightedMean(b, Abs(b, sameShape(b, "weighted_l1", x, y)), w)
}

// WeightedMSE is the mean of (x − y)² with weights that broadcast; see
// WeightedMean.
func WeightedMSE(b *Builder, x, y, w Value) Value {
	return WeightedMean(b, Square(b, sameShape(b, "weighted_mse", x, y)), w)
}

// sameShape is x − y for equal shapes: a loss that broadcasts hides mistakes.
func sameShape(b *Builder, what string, x, y Value) Value {
	if x.Valid() && y.Valid() && !x.Shape().Equal(y.Shape()) {
		return b.Fail(what, shapeError("%v against %v", x.Shape(), y.Shape()))
	}
	return Sub(b, x, y)
}
