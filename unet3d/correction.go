package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Correction is stage B for some targets: what is to be added to the mean of the forecasts,
//
//	shift = u + local( u + anomaly )
//
// with the network's output u, one field a target, the standardised forecasts (anomaly), and a
// locally connected layer, if there is one. Both u and the layer's weights are zero at first, and
// so is the shift. (The published result is that of the layer alone; u learns nothing then until the
// layer has weights.)
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
type Correction struct {
	UNet  BiasUNet // Out is set by Build
	Local int      // side of the windows of the locally connected layer, odd; 0 has none
}

// Build extends the graph by the network. Roughness is that of the layer's weights; it is no
// value of the graph if there is no layer.
//
// Shape: features [N C D H W], anomaly [N V D H W] → shift [N V D H W].
// Errors: in the builder: those of BiasUNet and Local.
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

// LocalLayer is the name of the locally connected layer of a Correction, with which the names
// of its parameters begin.
const LocalLayer = "local"
