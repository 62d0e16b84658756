package op

// ConvTranspose3D is the transposed convolution: the adjoint of the convolution
// a with the filter w, from its results x to an input of shape to. Several
// input sizes may give results of the shape of x, if the stride leaves out a
// row or column; to selects one. Points that no filter reaches are 0.
//
// Shape: x [N O D' H' W'], w [O C kD kH kW] (as torch.nn.ConvTranspose3d) → to,
// [N C D H W].
// Gradient: conv3d to x, conv3d_grad_filter to w.
// Errors: ErrShape if the convolution of shape to does not give the shape of x.
// Source: torch.nn.ConvTranspose3d, where output_padding selects the size.
func ConvTranspose3D(b *Builder, x, w Value, a Conv, to Shape) Value {
	return convGradData.add(b, convGrad(a.withDefaults(), to), w, x)
}
