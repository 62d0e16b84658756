package exchange

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// Architecture describes a network as recognised from the names and shapes of its weights.
// It is enough to build the network (build); Spec of package network also has what a model
// needs.
type Architecture struct {
	Kind     string `json:"kind"`
	Channels int    `json:"channels"` // of the input
	Outputs  int    `json:"outputs"`  // channels of the output
	// Base and Stages belong to a U-Net, Widths and Reinject to a ResNet.
	Base     int   `json:"base,omitempty"`
	Stages   int   `json:"stages,omitempty"`
	Widths   []int `json:"widths,omitempty"`
	Reinject *int  `json:"reinject,omitempty"`
	Periodic bool  `json:"periodic"` // longitudes are periodic; the published networks pad with zeros
	// Parameters is the number of trained values.
	Parameters int `json:"parameters"`
}

// build extends a graph by the network.
//
// Source: unet3d.UNet and unet3d.ResNet2D, with the names of their published PyTorch models.
func (a *Architecture) build(b *graph.Builder, x graph.Value) graph.Value {
	if a.Kind == unet3d.ResNetKind.Name {
		return unet3d.ResNet2D{Widths: a.Widths, Reinject: *a.Reinject, Periodic: a.Periodic}.Build(b, x)
	}
	return unet3d.UNet{Out: a.Outputs, Base: a.Base, Stages: a.Stages, Periodic: a.Periodic}.Build(b, x)
}

// graph builds the network for one sample of depth × height × width.
//
// Errors: graph.ErrShape for a size that the stages do not divide.
func (a *Architecture) graph(depth, height, width int) (*graph.Graph, error) {
	b := graph.New(1)
	b.Output("output", a.build(b, b.Input("input", graph.Shape{1, a.Channels, depth, height, width})))
	return b.Build()
}

// Names in a file of weights that do not denote weights.
const (
	goldenInput    = "golden.input"         // test input
	goldenOutput   = "golden.output"        // output of the network for golden.input
	batchCounter   = ".num_batches_tracked" // counter of PyTorch's BatchNorm
	parallelPrefix = "module."              // prefix of all names with PyTorch's DataParallel
)

// SelectWeights selects the weights among the tensors of a file. It drops other tensors, and
// removes the prefix of PyTorch's DataParallel. The prefix is removed only if all names have
// it. Counters of batch normalisation are dropped, since inference does not use them.
//
// Source: torch.nn.DataParallel and torch.nn.BatchNorm3d, names in state_dict.
func SelectWeights(tensors []ckpt.Tensor) model.Weights {
	all := true
	for _, t := range tensors {
		all = all && strings.HasPrefix(t.Name, parallelPrefix)
	}
	var out model.Weights
	for _, t := range tensors {
		if all {
			t.Name = strings.TrimPrefix(t.Name, parallelPrefix)
		}
		if t.Name != goldenInput && t.Name != goldenOutput && !strings.HasSuffix(t.Name, batchCounter) {
			out = append(out, t)
		}
	}
	return out
}

// recognise determines the network that weights belong to, from the names of layers and the first
// two dimensions of some filters. fit then verifies all weights.
//
// Nothing is taken from the metadata of a file, which other programs do not write. A dimension
// is at most the number of bytes of the file, so the graph that verify builds has a bounded
// size.
//
// Errors: exit 65, naming the tensor, for an unknown network or a missing tensor.
func recognise(path string, w model.Weights) (*Architecture, error) {
	shapes := map[string][]int{}
	for _, t := range w {
		shapes[t.Name] = t.Shape
	}
	side := func(name string, ndim, axis int) (int, error) {
		s, ok := shapes[name]
		if !ok {
			return 0, unfitError(path, name, "it is missing")
		}
		if len(s) != ndim || slices.Min(s) < 1 { // dimensions are then bounded by the size of the file
			return 0, unfitError(path, name, fmt.Sprintf("shape %v, want %d dimensions of at least 1", s, ndim))
		}
		return s[axis], nil
	}
	if _, ok := shapes["enc_conv0.weight"]; ok {
		return recogniseUNet(path, shapes, side)
	}
	if _, ok := shapes["convBR0.conv.weight"]; ok {
		return recogniseResNet(side)
	}
	first := "the file has no tensor"
	if len(w) > 0 {
		first = fmt.Sprintf("its first tensor is %q", w[0].Name)
	}
	return nil, &exit.Error{Code: exit.BadData, What: "the weights do not belong to a known network", At: path,
		Why: first + "; a 3-D U-Net has enc_conv0.weight, resnet2d_simple has convBR0.conv.weight",
		Fix: "export the state_dict of one of these networks under the published names"}
}

// unfitError makes the error of a tensor that does not match the network. It is exit 65.
func unfitError(path, name, why string) error {
	return &exit.Error{Code: exit.BadData, What: fmt.Sprintf("tensor %q does not match the network", name), At: path, Why: why,
		Fix: "give the complete, unchanged weights of a published network"}
}

// recogniseUNet determines the sizes of a U-Net. The first layer has twice as many filters as
// the base width, and its second dimension is the number of input channels; the last layer has
// the outputs.
//
// Source: unet3d.UNet.
func recogniseUNet(path string, shapes map[string][]int, side func(string, int, int) (int, error)) (*Architecture, error) {
	a := &Architecture{Kind: unet3d.UNetKind.Name}
	first, err := side("enc_conv0.weight", 5, 0)
	if err != nil {
		return nil, err
	}
	if first%2 != 0 {
		return nil, unfitError(path, "enc_conv0.weight", fmt.Sprintf("%d filters, want an even number (twice the base width)", first))
	}
	a.Base = first / 2
	if a.Channels, err = side("enc_conv0.weight", 5, 1); err != nil {
		return nil, err
	}
	if a.Outputs, err = side("dec_conv0.weight", 5, 0); err != nil {
		return nil, err
	}
	// The deepest stage with any tensor. fit reports tensors that this stage lacks.
	for stage := 1; stage <= unet3d.MaxStages; stage++ {
		for name := range shapes {
			if strings.HasPrefix(name, fmt.Sprintf("enc_conv%d.", stage)) || strings.HasPrefix(name, fmt.Sprintf("dec_conv%d", stage)) {
				a.Stages = stage
			}
		}
	}
	if a.Stages == 0 {
		return nil, unfitError(path, "enc_conv1.weight", "it is missing")
	}
	return a, nil
}

// recogniseResNet determines the widths of a ResNet. An inception block concatenates four
// branches, and its conv3 is one of them, with a quarter of the width.
//
// Source: unet3d.ResNet2D.
func recogniseResNet(side func(string, int, int) (int, error)) (*Architecture, error) {
	a := &Architecture{Kind: unet3d.ResNetKind.Name, Outputs: 1}
	var err error
	if a.Channels, err = side("convBR0.conv.weight", 4, 1); err != nil {
		return nil, err
	}
	for _, layer := range []struct {
		name    string
		quarter int // factor from the layer's filters to the width of its block
	}{{"convBR0.conv", 1}, {"convBR1.conv", 1}, {"inc1.conv3", 4}, {"inc2.conv3", 4}, {"inc3.conv3", 4}} {
		n, err := side(layer.name+".weight", 4, 0)
		if err != nil {
			return nil, err
		}
		a.Widths = append(a.Widths, layer.quarter*n)
	}
	return a, nil
}

// verify verifies that the weights are exactly those of the network, in number, name and
// shape, and counts the trained values. The size of the field does not matter for parameters,
// so the smallest one is built.
//
// Errors: exit 65 naming the first tensor, in the network's order, that is missing or has
// another shape; or the first one in the file that the network does not have.
func (a *Architecture) verify(path string, w model.Weights) error {
	side := 1 << a.Stages
	g, err := a.graph(1, side, side)
	if err != nil {
		return err
	}
	given := map[string]ckpt.Tensor{}
	for _, t := range w {
		given[t.Name] = t
	}
	a.Parameters = 0
	known := map[string]bool{}
	for _, n := range g.Nodes {
		if n.Kind != graph.KindParam && n.Kind != graph.KindState {
			continue
		}
		known[n.Name] = true
		t, ok := given[n.Name]
		if !ok {
			return unfitError(path, n.Name, "it is missing")
		}
		if !slices.Equal(t.Shape, []int(n.Shape)) {
			return unfitError(path, n.Name, fmt.Sprintf("shape %v, want %v for the recognised %s", t.Shape, n.Shape, a))
		}
		if _, err := t.Float32(); err != nil {
			return unfitError(path, n.Name, err.Error())
		}
		if n.Kind == graph.KindParam {
			a.Parameters += n.Shape.Size()
		}
	}
	for _, t := range w {
		if !known[t.Name] {
			return unfitError(path, t.Name, fmt.Sprintf("the recognised %s has no such tensor", a))
		}
	}
	return nil
}

// String describes the network in one line.
func (a *Architecture) String() string {
	if a.Kind == unet3d.ResNetKind.Name {
		return fmt.Sprintf("%s with widths %v, %d channels in, %d out", a.Kind, a.Widths, a.Channels, a.Outputs)
	}
	return fmt.Sprintf("%s of base %d and %d stages, %d channels in, %d out", a.Kind, a.Base, a.Stages, a.Channels, a.Outputs)
}
