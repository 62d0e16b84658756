package exchange

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// ExportOptions says which training's networks to write, and where.
type ExportOptions struct {
	RunDir string // of a finished training
	Out    string // folder that gets export.json and the weights
	// Overwrite says whether what is in Out may be replaced; "same", the default:
	// only if it came from the same training.
	Overwrite product.Overwrite
	Threads   int
	Version   string
}

// ExportResult says what was written.
type ExportResult struct {
	Network  Architecture     `json:"network"`
	Networks int              `json:"networks"` // that the training averages
	Out      string           `json:"out"`
	Sparsity []model.Sparsity `json:"sparsity,omitempty"` // of the networks; none if nothing was pruned
	Outputs  []string         `json:"-"`
}

// ExportFile describes an export.
const ExportFile = "export.json"

// The other files of an export; those with a number are one of each network.
const (
	exportedNetwork = "network-%02d.safetensors"
	exportedMaps    = "maps-%02d.safetensors"
	exportedSpread  = "spread-" // before the names of the networks of a second stage
	exportFormat    = 1
)

// Document is export.json.
type Document struct {
	Format  int          `json:"format"`
	Version string       `json:"version"` // of the program
	Network Architecture `json:"network"`
	Weights []string     `json:"weights"` // files beside this one, a network each
	Maps    []string     `json:"maps"`    // the same; empty if the networks have none
	// Spread, SpreadMaps and Bias are the other networks of a training in stages.
	Spread     []string `json:"spread,omitempty"`
	SpreadMaps []string `json:"spread_maps,omitempty"`
	Bias       string   `json:"bias,omitempty"`
	// Reference is the file of the baseline whose distribution the network corrects.
	Reference string   `json:"reference,omitempty"`
	Arrays    string   `json:"arrays"`  // file of what standardises the input
	Inputs    []string `json:"inputs"`  // what the channels of the network's input hold
	Outputs   []string `json:"outputs"` // and those of its output
	// Model is model.json of the training: members, divisor, period, scales.
	Model  *model.Description `json:"model"`
	Source manifest.File      `json:"source"` // model.json
}

// Export writes the networks of a training for other programs: their weights under
// the published names, with an input and what the published network makes of it, the maps
// beside the network, and a description of channels and scales, last.
//
// Errors: 66 if there is no model, 65 if it is damaged; 73 if the folder holds the export
// of another training; 74.
func Export(ctx context.Context, o ExportOptions) (*ExportResult, error) {
	dir := filepath.Join(o.RunDir, "model")
	m, err := model.Load(dir, false)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if m.Spec.ReadsMembers() || m.Spec.HasLeadRows() {
		return nil, &exit.Error{Code: exit.Usage, What: "a network that reads members cannot be exported", At: filepath.Join(dir, model.File), Why: "others have no format for its input",
			Fix: "export a model of statistics (model.members: statistics, model.head: distribution or spread)"}
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
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
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

// splitMaps parts the weights of a network of published layers from the maps beside it.
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

// exportNetwork writes network i and its maps under names with a prefix, describes it in a,
// and adds the files to lists.
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

// testTensors recognises one network by its weights, as an import would, and gives the
// tensors that let others test what they loaded.
func testTensors(ctx context.Context, m *model.Model, o ExportOptions, w model.Weights) (*Architecture, []ckpt.Tensor, error) {
	// The layers of these are not looked for in imported files; those of which channels were removed have
	// no published widths, and the lists of what is left stand with the model.
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
	y.Name = goldenOutput // of the published network, which does not wrap around
	a.Periodic = m.Spec.Periodic && m.Grid.Periodic()
	return a, []ckpt.Tensor{in, y}, nil
}

// normalSamples are numbers to try a network on, always the same.
func normalSamples(n int) []float32 {
	x, random := make([]float32, n), rand.New(rand.NewPCG(1, 0))
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

// inputNames says what the channels of the network's input hold.
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

// outputNames says what the channels of the network's output hold.
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
