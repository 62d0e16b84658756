//go:build cgo && linux

package cudnn

/*
#include "shim.h"
*/
import "C"

// Numbers that identify tensors in the operation graph and among the pointers of a run.
const (
	idX int64 = iota + 1
	idW
	idY
	idBias
	idProduct // result of the convolution, if more operations follow; it is not stored
	idSum     // sum with the bias, if a ReLU follows; it is not stored
)

func dataType(t Type) C.int {
	return [...]C.int{C.CUDNN_DATA_FLOAT, C.CUDNN_DATA_BFLOAT16, C.CUDNN_DATA_HALF}[t]
}

func ints(x [3]int) []int64 { return []int64{int64(x[0]), int64(x[1]), int64(x[2])} }

// tensor describes [n c size], stored as [n size c], in planes of the given number of
// rows.
func (m *descriptors) tensor(what string, id int64, t C.int, n, c int, size [3]int, rows int, virtual bool) (descriptor, error) {
	dims := append([]int64{int64(n), int64(c)}, ints(size)...)
	w := int64(c)
	h := w * dims[4]
	d := h * max(dims[3], int64(rows))
	return m.make(what, C.CUDNN_BACKEND_TENSOR_DESCRIPTOR,
		values(C.CUDNN_ATTR_TENSOR_UNIQUE_ID, C.CUDNN_TYPE_INT64, id),
		values(C.CUDNN_ATTR_TENSOR_DATA_TYPE, C.CUDNN_TYPE_DATA_TYPE, t),
		values(C.CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, C.CUDNN_TYPE_INT64, int64(Alignment)),
		values(C.CUDNN_ATTR_TENSOR_DIMENSIONS, C.CUDNN_TYPE_INT64, dims...),
		values(C.CUDNN_ATTR_TENSOR_STRIDES, C.CUDNN_TYPE_INT64, d*dims[2], 1, d, h, w),
		values(C.CUDNN_ATTR_TENSOR_IS_VIRTUAL, C.CUDNN_TYPE_BOOLEAN, virtual))
}

// padEnds returns the zero padding at the end of each axis.
func (c *Convolution) padEnds() (p [3]int) {
	for a := range p {
		p[a] = c.Pad[a] + c.ExtraPadEnd[a]
	}
	return p
}

// passAttributes are the attribute names of the operation of a pass.
type passAttributes struct{ kind, conv, x, w, y, alpha, beta C.int }

var passes = [...]passAttributes{
	Forward: {C.CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, C.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
		C.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, C.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, C.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
		C.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, C.CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
	DataGrad: {C.CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
		C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
		C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
	FilterGrad: {C.CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
		C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
		C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, C.CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
}

// graph describes a convolution, with bias and ReLU if it is fused.
//
// The graph is x, w → conv → + bias → ReLU → y; intermediate results are virtual tensors
// of float32 that no memory holds. alpha is 1, and beta is 1 if the result is added to
// the values in memory.
//
// Errors: *CallError of the first descriptor that cuDNN rejects; later ones are then not
// made.
// Source: NVIDIA, cuDNN Backend API, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR.
func (h *Handle) graph(m *descriptors, c *Convolution, fused bool) (descriptor, error) {
	var first error
	keep := func(d descriptor, err error) descriptor {
		if first == nil {
			first = err
		}
		return d
	}
	tensor := func(what string, id int64, t C.int, n, channels int, size [3]int, rows int, virtual bool) descriptor {
		if first != nil {
			return descriptor{}
		}
		return keep(m.tensor("tensor "+what, id, t, n, channels, size, rows, virtual))
	}
	part := func(what string, kind C.int, attributes ...attribute) descriptor {
		if first != nil {
			return descriptor{}
		}
		return keep(m.make(what, kind, attributes...))
	}
	ref := func(name C.int, d ...descriptor) attribute {
		return values(name, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, d...)
	}

	stored, filter := dataType(c.Type), filterType(c)
	stride, dilation := c.stridesAndDilations()
	out := c.Result()
	x := tensor("x", idX, stored, c.N, c.In, c.Size, c.PlaneRowsX, false)
	w := tensor("w", idW, filter, c.Out, c.In, c.Filter, 0, false)
	y := tensor("y", idY, stored, c.N, c.Out, out, c.PlaneRowsY, false)
	conv := part("the convolution", C.CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
		values(C.CUDNN_ATTR_CONVOLUTION_COMP_TYPE, C.CUDNN_TYPE_DATA_TYPE, C.int(C.CUDNN_DATA_FLOAT)),
		values(C.CUDNN_ATTR_CONVOLUTION_CONV_MODE, C.CUDNN_TYPE_CONVOLUTION_MODE, C.int(C.CUDNN_CROSS_CORRELATION)),
		values(C.CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, C.CUDNN_TYPE_INT64, int64(3)),
		values(C.CUDNN_ATTR_CONVOLUTION_DILATIONS, C.CUDNN_TYPE_INT64, ints(dilation)...),
		values(C.CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, C.CUDNN_TYPE_INT64, ints(stride)...),
		values(C.CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, C.CUDNN_TYPE_INT64, ints(c.Pad)...),
		values(C.CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, C.CUDNN_TYPE_INT64, ints(c.padEnds())...))

	// Operations after the convolution: each reads the result of the previous one, and
	// the last writes y.
	var after []func(from, to descriptor) descriptor
	if fused && c.Bias {
		after = append(after, func(from, to descriptor) descriptor {
			kind := stored
			if c.BiasFloat32 {
				kind = C.CUDNN_DATA_FLOAT
			}
			bias := tensor("bias", idBias, kind, 1, c.Out, [3]int{1, 1, 1}, 0, false)
			add := part("the sum with the bias", C.CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
				values(C.CUDNN_ATTR_POINTWISE_MODE, C.CUDNN_TYPE_POINTWISE_MODE, C.int(C.CUDNN_POINTWISE_ADD)),
				values(C.CUDNN_ATTR_POINTWISE_MATH_PREC, C.CUDNN_TYPE_DATA_TYPE, C.int(C.CUDNN_DATA_FLOAT)))
			return part("the operation of the bias", C.CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
				ref(C.CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add), ref(C.CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from),
				ref(C.CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias), ref(C.CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to))
		})
	}
	if fused && c.ReLU {
		after = append(after, func(from, to descriptor) descriptor {
			// ReLU keeps NaN, so that training detects it.
			relu := part("ReLU", C.CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
				values(C.CUDNN_ATTR_POINTWISE_MODE, C.CUDNN_TYPE_POINTWISE_MODE, C.int(C.CUDNN_POINTWISE_RELU_FWD)),
				values(C.CUDNN_ATTR_POINTWISE_MATH_PREC, C.CUDNN_TYPE_DATA_TYPE, C.int(C.CUDNN_DATA_FLOAT)),
				values(C.CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, C.CUDNN_TYPE_NAN_PROPOGATION, C.int(C.CUDNN_PROPAGATE_NAN)))
			return part("the operation of ReLU", C.CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
				ref(C.CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, relu), ref(C.CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from),
				ref(C.CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to))
		})
	}
	between := func(k int) descriptor { // result of step k; step 0 is the convolution
		if k == len(after) {
			return y
		}
		return tensor("between operations", idProduct+int64(k), C.CUDNN_DATA_FLOAT, c.N, c.Out, out, c.PlaneRowsY, true)
	}
	p := passes[c.Pass]
	beta := float32(0)
	if c.Add {
		beta = 1
	}
	to := between(0)
	operations := []descriptor{part("the operation of the convolution", p.kind, ref(p.conv, conv), ref(p.x, x), ref(p.w, w), ref(p.y, to),
		values(p.alpha, C.CUDNN_TYPE_FLOAT, float32(1)), values(p.beta, C.CUDNN_TYPE_FLOAT, beta))}
	for k, f := range after {
		from := to
		to = between(k + 1)
		operations = append(operations, f(from, to))
	}
	attributes := []attribute{ref(C.CUDNN_ATTR_OPERATIONGRAPH_OPS, operations...)}
	if h.handle != nil {
		attributes = append(attributes, values(C.CUDNN_ATTR_OPERATIONGRAPH_HANDLE, C.CUDNN_TYPE_HANDLE, h.handle))
	}
	g := part("the operation graph", C.CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, attributes...)
	return g, first
}

// filterType returns the type of a filter or its gradient.
func filterType(c *Convolution) C.int {
	if c.FilterGradFloat32 {
		return C.CUDNN_DATA_FLOAT
	}
	return dataType(c.Type)
}
