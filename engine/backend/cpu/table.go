//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// table lists the kernels of each operation on plain tensors, preferred ones first.
//
// A prepare function that does not support a request returns a Kernel without Run; then
// the next row is tried. After the last row follow the elementwise kernels, the loop
// over the scalar formula and the reference kernel (Backend.prepare).
var table = []struct {
	op      string
	prepare prepareRule
}{
	{"conv3d", convForward},
	{"conv3d_fused", convForward},
	{"conv3d_grad_data", convData},
	{"conv3d_grad_filter", convFilter},
	{"conv3d_fused_grad_data", convData},
	{"conv3d_fused_grad_filter", convFilter},
	{"patch_gram", patchGram},
	{"local_conv", localConv},
	{"local_conv_grad_data", localConvGradData},
	{"local_conv_grad_filter", localConvGradFilter},
	{"bias", bias},
	{"channel_sum", channelSum},
	{"combine", combine},
	{"combine_grad_store", combineGradStore},
	{"combine_grad_coefficients", combineGradCoefficients},
	{"max_pool", maxPool},
	{"max_pool_grad", maxPoolGrad},
	{"avg_pool", avgPool},
	{"avg_pool_grad", avgPoolGrad},
	{"upsample", upsample},
	{"upsample_grad", upsampleGrad},
	{"concat", concat},
	{"slice", slice},
	{"embed", embed},
	{"broadcast", broadcast},
	{"sum", sum},
	{"channel_moments", channelMoments},
	{"channel_moments_grad", channelMomentsGrad},
	{"channel_norm", channelNorm},
	{"channel_norm_sums", channelNormSums},
	{"channel_norm_grad", channelNormGrad},
	{"channel_norm_moments_grad", normMomentsGrad},
	{"channel_norm_fused", normFused},
	{"channel_norm_fused_sums", normFusedSums},
	{"channel_norm_fused_grad", normFusedGrad},
	{"point_norm", pointNorm},
	{"point_norm_grad", pointNormGrad},
	{"point_norm_sums", pointNormSums},
	{"dropout", dropout},
	{"set_pool", setPool},
	{"set_std_grad", setPoolGrad},
	{"set_extreme_grad", setPoolGrad},
	{"set_repeat", setRepeat},
	{"set_swap", setSwap},
	{"set_transpose", setTranspose},
	{"set_crps", setCRPS},
	{"set_crps_grad", setCRPSGrad},
	{"set_dot", setDot},
	{"set_mix", setMix},
	{"axis_attention", axisAttention(kern.AxisResult)},
	{"axis_attention_grad", axisAttention(kern.AxisGrad)},
	{"axis_attention_grad_bias", axisAttention(kern.AxisGradBias)},
	{"softmax", softmax},
	{"softmax_grad", softmaxGrad},
	{"elementwise_chain", chain},
	{"distribution_score", distribution(op.ScoreValue)},
	{"distribution_score_grad", distribution(op.ScoreGrad)},
	{"distribution_score_dy", distribution(op.ScoreDy)},
}

// kernel returns a kernel whose Run calls run and never fails.
func kernel(name string, run func()) (backend.Kernel, error) {
	return backend.Kernel{Name: name, Run: func() error {
		run()
		return nil
	}}, nil
}
