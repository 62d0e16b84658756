package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Table lists all operations. A new operation needs one line here; a test fails
// for operations that are not listed.
var Table = []*graph.Op{
	// convolution
	conv3D.Op,
	convGradData.Op,
	convGradFilter.Op,
	convFused.Op,
	convFusedGradData.Op,
	convFusedGradFilter.Op,
	withHalo.Op,
	convInt8.Op,
	quantise.Op,
	upsampleInt8.Op,
	localConv.Op,
	localConvGradData.Op,
	localConvGradFilter.Op,
	bias.Op,
	channelSum.Op,
	// weights shared by layers
	combine.Op,
	combineGradStore.Op,
	combineGradCoefficients.Op,
	// pooling and resampling
	maxPool.Op,
	maxPoolGrad.Op,
	avgPool.Op,
	avgPoolGrad.Op,
	upsample.Op,
	upsampleGrad.Op,
	// shape
	reorder.Op,
	offloadStart.Op,
	offloadDone.Op,
	fetchStart.Op,
	fetchDone.Op,
	concat.Op,
	slice.Op,
	embed.Op,
	reshape.Op,
	broadcast.Op,
	// reduction and normalisation
	sum.Op,
	channelMoments.Op,
	channelMomentsGrad.Op,
	channelNorm.Op,
	channelNormSums.Op,
	channelNormGrad.Op,
	channelNormMomentsGrad.Op,
	normFused.Op,
	normFusedSums.Op,
	normFusedGrad.Op,
	pointNorm.Op,
	pointNormGrad.Op,
	pointNormSums.Op,
	dropout.Op,
	stopGradient.Op,
	// sets of rows: members of an ensemble, leads of a trajectory
	setPool.Op,
	setStdGrad.Op,
	setExtremeGrad.Op,
	setRepeat.Op,
	setSwap.Op,
	setTranspose.Op,
	setCRPS.Op,
	setCRPSGrad.Op,
	setDot.Op,
	setMix.Op,
	axisAttention.Op,
	axisAttentionGrad.Op,
	axisAttentionGradBias.Op,
	softmax.Op,
	softmaxGrad.Op,
	// elementwise, two and three operands
	add.Op,
	sub.Op,
	mul.Op,
	div.Op,
	safeDiv.Op,
	gaussianCRPS.Op,
	gaussianCRPSdMu.Op,
	gaussianCRPSdSigma.Op,
	distributionScore.Op,
	distributionScoreGrad.Op,
	distributionScoreDy.Op,
	pinball.Op,
	pinballSlope.Op,
	atLeast.Op,
	elementwiseChain.Op,
	// elementwise, one operand, and derivatives
	relu.op.Op, relu.grad.Op,
	exp.op.Op, exp.grad.Op,
	log.op.Op, log.grad.Op,
	sqrt.op.Op, sqrt.grad.Op,
	square.op.Op, square.grad.Op,
	abs.op.Op, abs.grad.Op,
	softplus.op.Op, softplus.grad.Op,
	sigmoid.op.Op, sigmoid.grad.Op,
	tanh.op.Op, tanh.grad.Op,
	erf.op.Op, erf.grad.Op,
	pow.op.Op, pow.grad.Op,
	addScalar.Op,
	scale.Op,
	// curvature of layers
	patchGram.Op,
}

// Find returns the operation of that name, or nil.
func Find(name string) *graph.Op {
	for _, o := range Table {
		if o.Name == name {
			return o
		}
	}
	return nil
}
