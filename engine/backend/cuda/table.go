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
	"axis_attention":         {axisAttention(axis.result)},
	"axis_attention_grad":    {axisAttention(axis.grad)},
	"axis_attention_offsets": {axisAttention(axis.offsetsGrad)},
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

// lasts names the ways of operations that take or give fields with their channels last.
var lasts = map[string]wayRule{
	// channels.go
	"bias":                    channelMapWay,
	"channel_sum":             fieldsWay,
	"channel_moments":         fieldsWay,
	"channel_moments_grad":    channelMapWay,
	"channel_norm":            channelMapWay,
	"channel_norm_sums":       fieldsWay,
	"channel_norm_grad":       channelMapWay,
	"channel_norm_fused":      channelMapWay,
	"channel_norm_fused_sums": fieldsWay,
	"channel_norm_fused_grad": fieldsWay,
	// windows.go
	"max_pool":      fieldsWay,
	"max_pool_grad": fieldsWay,
	"avg_pool":      fieldsWay,
	"avg_pool_grad": fieldsWay,
	"upsample":      fieldsWay,
	"upsample_grad": fieldsWay,
	// copies.go
	"concat":        fieldsWay,
	"slice":         fieldsWay,
	"embed":         fieldsWay,
	"set_repeat":    fieldsWay,
	"set_swap":      fieldsWay,
	"set_transpose": fieldsWay,
	// dropout.go
	"dropout": fieldsWay,
	// conv.go, convfilter.go
	"conv3d":                   convForwardWay,
	"conv3d_fused":             convForwardWay,
	"conv3d_grad_data":         convDataWay,
	"conv3d_fused_grad_data":   convDataWay,
	"conv3d_grad_filter":       convFilterWay,
	"conv3d_fused_grad_filter": convFilterWay,
}
