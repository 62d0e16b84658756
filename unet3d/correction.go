package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Correction is stage B, the correction of the mean of the forecasts:
//
//	shift = u + local( u + anomaly )
//
// u is the output of a BiasUNet with one channel per target, anomaly the standardised forecast, and
// local a locally connected layer, which is optional. u and the weights of the layer are
// initialised with 0, so the initial shift is 0. (The published result is that of the layer alone.
// Then u gets no gradient until the layer has nonzero weights.)
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
type Correction struct {
	UNet  BiasUNet // Build sets Out
	Local int      // window size of the locally connected layer, odd; 0 means no layer
}

// Build extends the graph by the network. roughness is that of the layer's weights, and an invalid
// value without the layer.
//
// Shape: features [N C D H W], anomaly [N V D H W] → shift [N V D H W].
// Errors: in the builder: those of BiasUNet and LocallyConnected.
func (c Correction) Build(b *graph.Builder, features, anomaly graph.Value) (shift, roughness graph.Value) {
	net := c.UNet
	net.Out = anomaly.Dim(1)
	shift = net.Build(b, features)
	if c.Local == 0 {
		return shift, roughness
	}
	local, roughness := LocallyConnected{Out: net.Out, Size: c.Local, Periodic: net.Periodic}.Build(b, LocalLayer, op.Add(b, shift, anomaly))
	return op.Add(b, shift, local), roughness
}

// LocalLayer is the name of the locally connected layer of a Correction, the prefix of the names of
// its parameters.
const LocalLayer = "local"
