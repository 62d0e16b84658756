package cuda

import "github.com/ensemble-weather/ensemble/engine/backend"

// prepare makes the kernel of a request; one that does not serve it gives a Kernel without
// Run and Place, and the next is asked.
type prepare func(b *Backend, q backend.Request) (backend.Kernel, error)

// table names the kernels of each operation, preferred ones first. Operations with a
// scalar formula, and chains of them, are made by chain.go from the formulas of
// kernels/formulas.cuh.
var table = map[string][]prepare{
	"reorder": {reorder},
	// channels.go
	"bias":                      {bias},
	"channel_sum":               {channelSum},
	"channel_moments":           {channelMoments},
	"channel_moments_grad":      {momentsGrad},
	"channel_norm":              {channelNorm(false)},
	"channel_norm_sums":         {channelNormSums},
	"channel_norm_grad":         {channelNormGrad},
	"channel_norm_moments_grad": {normMomentsGrad},
	"channel_norm_fused":        {channelNorm(true)},
	"channel_norm_fused_sums":   {channelNormSums},
	"channel_norm_fused_grad":   {normFusedGrad},
	// windows.go
	"max_pool":      {pool(false)},
	"max_pool_grad": {maxPoolGrad},
	"avg_pool":      {pool(true)},
	"avg_pool_grad": {avgPoolGrad},
	"upsample":      {upsample},
	"upsample_grad": {upsampleGrad},
	// copies.go
	"concat":        {concat},
	"slice":         {slice},
	"embed":         {embed},
	"set_repeat":    {setRepeat},
	"set_swap":      {setSwap},
	"set_transpose": {setTranspose},
	"reshape":       {copied},
	"stop_gradient": {copied},
	// sums.go, dropout.go
	"sum":     {sum},
	"dropout": {dropout},
	// points.go
	"point_norm":      {pointNorm},
	"point_norm_grad": {pointNorm},
	"point_norm_sums": {pointNormSums},
	"softmax":         {softmax},
	"softmax_grad":    {softmax},
	// sets.go
	"set_pool":         {setPool},
	"set_std_grad":     {setPoolGrad},
	"set_extreme_grad": {setPoolGrad},
	"set_crps":         {setCRPS},
	"set_crps_grad":    {setCRPS},
	"set_dot":          {setDot},
	"set_mix":          {setMix},
	// axis.go
	"axis_attention":           {axisAttention(axis.result)},
	"axis_attention_grad":      {axisAttention(axis.grad)},
	"axis_attention_grad_bias": {axisAttention(axis.gradBias)},
	// scores.go
	"distribution_score":      {distribution("values")},
	"distribution_score_grad": {distribution("grads")},
	"distribution_score_dy":   {distribution("dys")},
	// combine.go
	"combine":                   {combine},
	"combine_grad_store":        {combineGradStore},
	"combine_grad_coefficients": {combineGradCoefficients},
	// conv.go, convfilter.go, localconv.go
	"conv3d":                   {convForward},
	"conv3d_fused":             {convForward},
	"conv3d_grad_data":         {convData},
	"conv3d_fused_grad_data":   {convData},
	"conv3d_grad_filter":       {filterGradient},
	"conv3d_fused_grad_filter": {filterGradient},
	"local_conv":               {localForward},
	"local_conv_grad_data":     {localData},
	"local_conv_grad_filter":   {localFilter},
}

// channelsLastRules names the ways of operations that take or give fields with their channels last.
var channelsLastRules = map[string]layoutRule{
	// channels.go
	"bias":                    channelMapLayouts,
	"channel_sum":             fieldLayouts,
	"channel_moments":         fieldLayouts,
	"channel_moments_grad":    channelMapLayouts,
	"channel_norm":            channelMapLayouts,
	"channel_norm_sums":       fieldLayouts,
	"channel_norm_grad":       channelMapLayouts,
	"channel_norm_fused":      channelMapLayouts,
	"channel_norm_fused_sums": fieldLayouts,
	"channel_norm_fused_grad": fieldLayouts,
	// windows.go
	"max_pool":      fieldLayouts,
	"max_pool_grad": fieldLayouts,
	"avg_pool":      fieldLayouts,
	"avg_pool_grad": fieldLayouts,
	"upsample":      fieldLayouts,
	"upsample_grad": fieldLayouts,
	// copies.go
	"concat":        fieldLayouts,
	"slice":         fieldLayouts,
	"embed":         fieldLayouts,
	"set_repeat":    fieldLayouts,
	"set_swap":      fieldLayouts,
	"set_transpose": fieldLayouts,
	// dropout.go
	"dropout": fieldLayouts,
	// conv.go, convfilter.go
	"conv3d":                   convForwardLayouts,
	"conv3d_fused":             convForwardLayouts,
	"conv3d_grad_data":         convDataLayouts,
	"conv3d_fused_grad_data":   convDataLayouts,
	"conv3d_grad_filter":       convFilterLayouts,
	"conv3d_fused_grad_filter": convFilterLayouts,
}
