package op

// ConvTranspose3D is the transposed convolution: the adjoint of the convolution a by the filter
// w, from its results to an input of shape to. Of the inputs that give a result of this shape
// (one more row or column, where the stride leaves it out) to says which is meant; the points
// that no filter reaches become 0.
//
// Shape: x [N O D' H' W'], w [O C kD kH kW], as torch.nn.ConvTranspose3d has it → to, [N C D H W].
// Gradient: conv3d to x, conv3d_grad_filter to w. Errors: ErrShape.
// Source: torch.nn.ConvTranspose3d, where the difference of shapes is output_padding.
func ConvTranspose3D(b *Builder, x, w Value, a Conv, to Shape) Value {
	return convGradData.add(b, convGrad(a.withDefaults(), to), w, x)
}
