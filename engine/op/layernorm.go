package op

// LayerNorm normalises every batch item by its mean and variance over all
// channels and points, then scales and shifts it:
//
//	y = (x − mean)/√(variance + eps) · gamma + beta
//
// Shape: x [N C …]; gamma and beta broadcast to it. [1 C 1 1 1] is one number
// per channel, [1 C D H W] one per channel and point, as published. eps 0 means
// PyTorch's 1e-5.
// Gradient: by composition, through mean and variance.
// Window: the whole batch item.
// Errors: ErrShape.
// Source: Ba et al. 2016, arXiv:1607.06450; torch.nn.LayerNorm.
func LayerNorm(b *Builder, x, gamma, beta Value, eps float64) Value {
	if eps == 0 {
		eps = 1e-5
	}
	var axes []int
	for i := range x.Shape() {
		if i > 0 {
			axes = append(axes, i)
		}
	}
	if x.Valid() && len(axes) == 0 {
		return b.Fail("layer_norm", shapeError("x is %v, want [N C …]", x.Shape()))
	}
	d := Sub(b, x, Mean(b, x, axes...))
	sd := Sqrt(b, AddScalar(b, Mean(b, Square(b, d), axes...), eps))
	return Add(b, Mul(b, Div(b, d, sd), gamma), beta)
}
