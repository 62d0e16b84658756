package exchange

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// ExportOptions selects the training whose networks are exported. RunDir and Out are
// required; the zero value of all others is the default.
type ExportOptions struct {
	RunDir string // run directory of a finished training
	Out    string // folder for export.json and the weights
	// Overwrite is the policy for an existing export in Out. The default "same" replaces it if it
	// was made from the same training.
	Overwrite product.Overwrite
	Threads   int
	Version   string
}

// ExportResult is the result of an export. Outputs lists the files that were written,
// export.json last.
type ExportResult struct {
	Network  Architecture     `json:"network"`
	Networks int              `json:"networks"` // number of networks that the model averages
	Out      string           `json:"out"`
	Sparsity []model.Sparsity `json:"sparsity,omitempty"` // of each network; empty without pruning
	Outputs  []string         `json:"-"`
}

// ExportFile is the name of the description of an export. A reader opens it first: it
// names all other files.
const ExportFile = "export.json"

// Other files of an export; those with a number exist for each network.
const (
	exportedNetwork = "network-%02d.safetensors"
	exportedMaps    = "maps-%02d.safetensors"
	exportedSpread  = "spread-" // prefix for the networks of the second stage
	exportFormat    = 1
)

// Document is the content of export.json. Its field Format is exportFormat; a program that
// reads it should refuse another number.
type Document struct {
	Format  int          `json:"format"`
	Version string       `json:"version"` // of the program
	Network Architecture `json:"network"`
	Weights []string     `json:"weights"` // files in the same folder, one for each network
	Maps    []string     `json:"maps"`    // the same for maps; empty if the networks have none
	// Spread, SpreadMaps and Bias are the networks of the other stages of a training in stages.
	Spread     []string `json:"spread,omitempty"`
	SpreadMaps []string `json:"spread_maps,omitempty"`
	Bias       string   `json:"bias,omitempty"`
	// Reference is the file of the baseline that the network corrects.
	Reference string   `json:"reference,omitempty"`
	Arrays    string   `json:"arrays"`  // file with the normalisation of the input
	Inputs    []string `json:"inputs"`  // content of each input channel
	Outputs   []string `json:"outputs"` // content of each output channel
	// Model is model.json of the training: members, divisor, period, scales.
	Model  *model.Description `json:"model"`
	Source manifest.File      `json:"source"` // checksum of model.json
}

// Export writes the networks of a training for other programs: weights under the published names,
// with golden.input and golden.output of the published network; maps; and, last, a description of
// channels and scales.
//
// The description is written last: a folder with export.json is complete. Parameter sharing is
// resolved before, so the weights are plain filters.
//
// Errors: exit 66 if there is no model, exit 65 if it is damaged; exit 64 for networks that
// read members; exit 73 if the folder contains the export of another training; exit 74.
// Source: docs/formats/network.md; the weights are safetensors (package ckpt).
func Export(ctx context.Context, o ExportOptions) (*ExportResult, error) {
	dir := filepath.Join(o.RunDir, "model")
	m, err := model.Load(dir, false)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if m.Spec.ReadsMembers() || m.Spec.HasLeadRows() {
		return nil, &exit.Error{Code: exit.Usage, What: "a network that reads members cannot be exported", At: filepath.Join(dir, model.File), Why: "there is no common format for its input",
			Fix: "export a model that reads statistics of members (model.members: statistics, model.head: distribution or spread)"}
	}
	_, f, err := model.LoadDescription(dir)
	if err != nil {
		return nil, err
	}
	f.ClearSharing()
	doc := Document{Format: exportFormat, Version: o.Version, Arrays: model.ArraysFile, Model: f}
	if doc.Source, err = manifest.SumFile(filepath.Join(dir, model.File)); err != nil {
		return nil, err
	}
	doc.Source.Path = model.File
	if err := checkReplaceable(filepath.Join(o.Out, ExportFile), doc.Source, o.Overwrite, "an export"); err != nil {
		return nil, err
	}
	if err := filesystem.MkdirAll(o.Out, 0o755); err != nil {
		return nil, exit.CreateError(o.Out, err)
	}
	doc.Inputs = inputNames(m)
	if m.Task.Reference() != nil {
		doc.Reference = task.ReferenceFile
		if err := m.Task.Reference().Save(filepath.Join(o.Out, task.ReferenceFile)); err != nil {
			return nil, err
		}
	}
	for i, w := range m.Networks {
		if err := exportNetwork(ctx, m, o, w, &doc.Network, "", i, &doc.Weights, &doc.Maps); err != nil {
			return nil, err
		}
	}
	for i, w := range m.Spreads {
		if err := exportNetwork(ctx, m, o, w, &doc.Network, exportedSpread, i, &doc.Spread, &doc.SpreadMaps); err != nil {
			return nil, err
		}
	}
	if m.Bias != nil {
		doc.Bias = model.BiasFile
		if err := ckpt.WriteFile(filepath.Join(o.Out, model.BiasFile), m.Bias, nil); err != nil {
			return nil, err
		}
	}
	doc.Outputs = outputNames(m, doc.Network.Outputs)
	res := &ExportResult{Network: doc.Network, Networks: len(m.Networks), Out: o.Out, Sparsity: m.Sparsity}
	arrays, _, err := ckpt.ReadFile(filepath.Join(dir, model.ArraysFile))
	if err != nil {
		return nil, err
	}
	if err := ckpt.WriteFile(filepath.Join(o.Out, model.ArraysFile), arrays, nil); err != nil {
		return nil, err
	}
	for _, file := range slices.Concat(doc.Weights, doc.Maps, doc.Spread, doc.SpreadMaps, []string{doc.Bias, doc.Reference, model.ArraysFile, ExportFile}) {
		if file == "" {
			continue
		}
		res.Outputs = append(res.Outputs, filepath.Join(o.Out, file))
	}
	return res, jsonfile.Write(filepath.Join(o.Out, ExportFile), doc)
}

// splitMaps separates the maps from the weights with published names. Maps are values for each
// grid point that the published networks do not have; without them the rest is such a network.
func splitMaps(w model.Weights) (net, maps model.Weights) {
	for _, t := range w {
		if strings.HasPrefix(t.Name, unet3d.MapsPrefix) {
			maps = append(maps, t)
		} else {
			net = append(net, t)
		}
	}
	return net, maps
}

// exportNetwork writes network i and its maps under names with a prefix, describes the network in
// a, and appends the file names to networks and all.
//
// Errors: those of testTensors; exit 73 or 74 for files.
func exportNetwork(ctx context.Context, m *model.Model, o ExportOptions, w model.Weights, a *Architecture, prefix string, i int, networks, all *[]string) error {
	net, maps := splitMaps(w)
	is, golden, err := testTensors(ctx, m, o, net)
	if err != nil {
		return err
	}
	*a = *is
	file := prefix + fmt.Sprintf(exportedNetwork, i)
	if err := ckpt.WriteFile(filepath.Join(o.Out, file), append(net, golden...), nil); err != nil {
		return err
	}
	*networks = append(*networks, file)
	if len(maps) > 0 {
		file := prefix + fmt.Sprintf(exportedMaps, i)
		*all = append(*all, file)
		return ckpt.WriteFile(filepath.Join(o.Out, file), maps, nil)
	}
	return nil
}

// testTensors recognises a network by its weights, as an import does, and returns golden.input
// and golden.output. Both are nil for networks that an import does not recognise.
//
// Shape: golden.input [1 C 16 24] for a ResNet, else [1 C D H W] with H = 2^stages and
// W = 2H.
// Cost: one forward pass of a small field.
func testTensors(ctx context.Context, m *model.Model, o ExportOptions, w model.Weights) (*Architecture, []ckpt.Tensor, error) {
	// Import does not recognise baselines. Networks with removed channels have no published widths;
	// the lists of kept channels are in the description of the model.
	if m.Spec.NetworkKind().Baseline || len(m.Spec.Kept) > 0 {
		a := &Architecture{Kind: m.Spec.Kind, Channels: len(inputNames(m)), Outputs: (3 + len(m.Spec.ExtraOutputs())) * len(m.Task.Targets), Base: m.Spec.Base, Periodic: m.Spec.Periodic && m.Grid.Periodic()}
		if m.Spec.Head.Spread != nil {
			a.Outputs = len(m.Task.Targets)
		}
		for _, t := range w {
			if !strings.Contains(t.Name, ".running_") {
				a.Parameters += graph.Shape(t.Shape).Size()
			}
		}
		return a, nil, nil
	}
	a, err := recognise(o.RunDir, w)
	if err != nil {
		return nil, nil, err
	}
	shape := []int{1, a.Channels, 16, 24}
	if a.Kind == unet3d.ResNetKind.Name {
		c := m.Task.Features.Channel(m.Task.Targets[0].Lead, ensemble.UsedSpread, m.Task.Targets[0].Variable)
		a.Reinject = &c
	} else {
		shape = []int{1, a.Channels, min(2, len(m.Task.Features.Axes.Levels)), 1 << a.Stages, 2 << a.Stages}
	}
	if err := a.verify(o.RunDir, w); err != nil {
		return nil, nil, err
	}
	in := ckpt.Tensor{Name: goldenInput, Shape: shape, Data: normalSamples(graph.Shape(shape).Size())}
	y, err := a.run(ctx, w, in, o.RunDir, o.Threads)
	if err != nil {
		return nil, nil, err
	}
	y.Name = goldenOutput // of the published network, whose longitudes are not periodic
	a.Periodic = m.Spec.Periodic && m.Grid.Periodic()
	return a, []ckpt.Tensor{in, y}, nil
}

// normalSamples returns n normally distributed test values, the same at every call. Two
// exports of one training have equal bytes therefore.
func normalSamples(n int) []float32 {
	x, random := make([]float32, n), rand.New(rand.NewPCG(1, 0))
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

// inputNames describes the content of each input channel. The order is that of the filter's
// axis: statistics and fixed fields, mean and spread of the baseline, learnt values.
//
// Their number is that of Architecture.Channels, so a test of another program can count
// them.
func inputNames(m *model.Model) (names []string) {
	for c := range m.Task.Features.Channels() {
		names = append(names, m.Task.Features.ChannelName(c))
	}
	if m.Spec.Reference != "" {
		for _, part := range []string{network.OutShift, network.OutSigma} {
			for _, v := range m.Task.Targets {
				names = append(names, fmt.Sprintf("%s of %s by %s", part, m.Task.ChannelName(v), m.Spec.Reference))
			}
		}
	}
	for i := range m.Spec.Embedding {
		names = append(names, fmt.Sprintf("%s %d", unet3d.EmbeddingName, i))
	}
	return names
}

// outputNames describes the content of each output channel. Parts are the outer axis, targets
// the inner one: shift of all targets, then the logarithm of sigma of all, and so on. Units
// are error scales (Document.Model).
func outputNames(m *model.Model, outputs int) (names []string) {
	parts := []string{network.OutSpread}
	switch {
	case m.Spec.Staged():
		parts = []string{network.OutSigma}
	case m.Spec.Head.Distribution != nil:
		parts = []string{network.OutShift, "log(sigma)"}
		for _, e := range m.Spec.ExtraOutputs() {
			parts = append(parts, e.Name)
		}
		parts = append(parts, network.OutSpread)
		if m.Spec.Reference != "" {
			parts = []string{"change of " + network.OutShift, "log of the factor of " + network.OutSigma, network.OutSpread}
		}
	}
	for _, part := range parts {
		for _, v := range m.Task.Targets {
			names = append(names, fmt.Sprintf("%s of %s", part, m.Task.ChannelName(v)))
		}
	}
	return names[:outputs]
}
