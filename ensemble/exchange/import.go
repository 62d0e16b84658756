// Package exchange imports and exports the weights of networks as safetensors files, under the
// names of the published PyTorch models.
//
//	a, err := exchange.Import(ctx, exchange.ImportOptions{Weights: "unet3d.safetensors", Out: "imported"})
//	e, err := exchange.Export(ctx, exchange.ExportOptions{RunDir: "runs/gcm", Out: "exported"})
//
// A file may contain golden.input and golden.output: an input and the output that the network must
// compute from it. Import verifies them, Export writes them.
package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// ImportOptions selects the weights to import and a test input. Weights and Out are
// required.
type ImportOptions struct {
	Weights string // safetensors file with the published names
	Out     string // folder for network.json and weights.safetensors
	// Reinject is the input channel that a ResNet re-injects, which its weights do not reveal; nil
	// means the published channel.
	Reinject *int
	Periodic bool   // longitudes are periodic; false for the published networks
	Apply    string // safetensors file with a tensor "input" for which the output is computed; "" for none
	To       string // file for the tensor "output"
	// Overwrite is the policy for an existing network in Out. The default "same" replaces it if it
	// was imported from the same weights.
	Overwrite product.Overwrite
	Threads   int
	Version   string
}

// ImportResult is the result of an import. Outputs lists the files that were written.
type ImportResult struct {
	Network Architecture `json:"network"`
	Out     string       `json:"out"`
	// Difference is the largest difference from golden.output, relative to its largest value; nil
	// if the file has no golden.input and golden.output.
	Difference *float64 `json:"golden_difference,omitempty"`
	Outputs    []string `json:"-"`
}

// Files of an imported network.
const (
	networkFile    = "network.json"
	networkWeights = "weights.safetensors"
	networkFormat  = 1
)

// goldenTolerance is the largest accepted relative difference from golden.output. Sums of
// float32 numbers in another order differ by less.
const goldenTolerance = 1e-4

// networkJSON is the content of network.json. Source names the imported file without its
// folder.
type networkJSON struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of the program
	Architecture
	Weights string        `json:"weights"` // file in the same folder
	Source  manifest.File `json:"source"`  // imported file
}

// Import imports the weights of a published network. It recognises the network, verifies that all
// weights match it, compares its output for golden.input with golden.output if the file has them,
// and writes the weights with a description. On request it computes the output for another input.
//
// A network that fits in shape may still be another one, such as one with another activation:
// only golden.output shows that.
//
// Memory: the weights twice, and the activations of one sample.
// Errors: exit 65, naming the first tensor that does not match, or for a pickle, a zip archive
// or a damaged file; exit 65 if the output differs from golden.output; exit 64 if Reinject is
// required or does not apply; exit 66, 73 and 74 for files.
func Import(ctx context.Context, o ImportOptions) (*ImportResult, error) {
	tensors, _, err := ckpt.ReadFile(o.Weights)
	if err != nil {
		return nil, err
	}
	w := SelectWeights(tensors)
	a, err := recognise(o.Weights, w)
	if err != nil {
		return nil, err
	}
	a.Periodic = o.Periodic
	if err := a.chooseChannel(o); err != nil {
		return nil, err
	}
	if err := a.verify(o.Weights, w); err != nil {
		return nil, err
	}
	res := &ImportResult{Network: *a, Out: o.Out}
	if res.Difference, err = a.checkGolden(ctx, o, tensors, w); err != nil {
		return nil, err
	}
	if o.Apply != "" {
		if err := a.apply(ctx, o, w); err != nil {
			return nil, err
		}
		res.Outputs = append(res.Outputs, o.To)
	}
	if err := a.save(o, w); err != nil {
		return nil, err
	}
	res.Outputs = append(res.Outputs, filepath.Join(o.Out, networkFile), filepath.Join(o.Out, networkWeights))
	return res, nil
}

// chooseChannel sets the channel that a ResNet re-injects.
//
// Errors: exit 64 for a channel that the network does not have, or for another kind of
// network.
func (a *Architecture) chooseChannel(o ImportOptions) error {
	if a.Kind != unet3d.ResNetKind.Name {
		if o.Reinject != nil {
			return &exit.Error{Code: exit.Usage, What: "--reinject does not apply to " + a.Kind, At: "--reinject", Fix: "omit --reinject"}
		}
		return nil
	}
	channel := unet3d.PublishedReinject
	if o.Reinject != nil {
		channel = *o.Reinject
	}
	if channel < 0 || channel >= a.Channels {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("channel %d to re-inject does not exist", channel), At: o.Weights,
			Why: fmt.Sprintf("the network has input channels 0 to %d; the published one re-injects channel %d", a.Channels-1, unet3d.PublishedReinject),
			Fix: "set --reinject to the channel of the forecast's spread at the target lead"}
	}
	a.Reinject = &channel
	return nil
}

// run computes the output of the network, one sample after the other.
//
// Shape: x [N C D H W], or [N C H W] for one level; the output likewise.
// Errors: exit 65 for an input that does not match the network; path is named in the error.
// Cost: the network is compiled for the size of the input at each call.
func (a *Architecture) run(ctx context.Context, w model.Weights, x ckpt.Tensor, path string, threads int) (ckpt.Tensor, error) {
	bad := func(why string) (ckpt.Tensor, error) {
		return ckpt.Tensor{}, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("tensor %q does not match the input of the network", x.Name), At: path, Why: why,
			Fix: fmt.Sprintf("give [N %d D H W], or [N %d H W] for one level", a.Channels, a.Channels)}
	}
	values, err := x.Float32()
	if err != nil {
		return bad(err.Error())
	}
	shape := slices.Clone(x.Shape)
	if len(shape) == 4 {
		shape = slices.Insert(shape, 2, 1)
	}
	if len(shape) != 5 || shape[1] != a.Channels || len(values) == 0 {
		return bad(fmt.Sprintf("shape %v, want %d channels", x.Shape, a.Channels))
	}
	g, err := a.graph(shape[2], shape[3], shape[4])
	if errors.Is(err, graph.ErrShape) {
		return bad(err.Error())
	} else if err != nil {
		return ckpt.Tensor{}, err
	}
	eo := network.Options(threads, "")
	eo.Store, eo.Mode = engine.NewStore(), engine.Infer
	plan, err := engine.Compile(g, eo)
	if err != nil {
		return ckpt.Tensor{}, err
	}
	defer plan.Close()
	if err := model.Fill(eo.Store, w); err != nil {
		return ckpt.Tensor{}, err
	}
	in, out := plan.Input("input"), plan.Output("output")
	y := make([]float32, 0, shape[0]*len(out))
	for i := range shape[0] {
		copy(in, values[i*len(in):(i+1)*len(in)])
		if err := plan.Run(ctx, 0); err != nil {
			return ckpt.Tensor{}, err
		}
		y = append(y, out...)
	}
	answer := slices.Clone(x.Shape)
	answer[1] = a.Outputs
	return ckpt.Tensor{Name: "output", Shape: answer, Data: y}, nil
}

// checkGolden compares the network's output for golden.input with golden.output. It returns the
// relative difference; nil if the file does not have both.
//
// The difference is max|y − golden|/max|golden|. NaN counts as a difference.
//
// Errors: exit 65 for tensors of another shape, and above goldenTolerance.
func (a *Architecture) checkGolden(ctx context.Context, o ImportOptions, tensors []ckpt.Tensor, w model.Weights) (*float64, error) {
	in := slices.IndexFunc(tensors, func(t ckpt.Tensor) bool { return t.Name == goldenInput })
	out := slices.IndexFunc(tensors, func(t ckpt.Tensor) bool { return t.Name == goldenOutput })
	if in < 0 || out < 0 {
		return nil, nil
	}
	y, err := a.run(ctx, w, tensors[in], o.Weights, o.Threads)
	if err != nil {
		return nil, err
	}
	want, err := tensors[out].Float32()
	if err != nil || !slices.Equal(tensors[out].Shape, y.Shape) {
		return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("tensor %q does not match the output of the network", goldenOutput), At: o.Weights,
			Why: fmt.Sprintf("shape %v, want %v for %s", tensors[out].Shape, y.Shape, goldenInput), Fix: "write the file again, or remove the tensor from it"}
	}
	var diff, size float64
	for i, v := range y.Data.([]float32) {
		diff = max(diff, math.Abs(float64(v)-float64(want[i]))) // max keeps NaN
		size = max(size, math.Abs(float64(want[i])))
	}
	diff /= size
	if !(diff <= goldenTolerance) {
		return nil, &exit.Error{Code: exit.BadData, What: "the output of the network differs from golden.output", At: o.Weights,
			Why: fmt.Sprintf("relative difference %.2g, at most %g is allowed for rounding", diff, goldenTolerance),
			Fix: "check that weights and output belong to the same network in evaluation mode, and check --reinject and --periodic"}
	}
	return &diff, nil
}

// apply computes the output for the tensor "input" of a file and writes it as "output".
//
// Errors: exit 65 without such a tensor or with another shape; exit 66, 73 and 74 for files.
func (a *Architecture) apply(ctx context.Context, o ImportOptions, w model.Weights) error {
	tensors, _, err := ckpt.ReadFile(o.Apply)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(tensors, func(t ckpt.Tensor) bool { return t.Name == "input" })
	if at < 0 {
		return &exit.Error{Code: exit.BadData, What: `no tensor "input"`, At: o.Apply, Why: "the input of the network must have this name", Fix: "save the input under this name"}
	}
	y, err := a.run(ctx, w, tensors[at], o.Apply, o.Threads)
	if err != nil {
		return err
	}
	return ckpt.WriteFile(o.To, []ckpt.Tensor{y}, nil)
}

// checkReplaceable checks whether a description may be written to path, for what was made from
// source. Sources are compared by checksum, so the same weights under another name count as
// the same. A description that cannot be parsed is not replaced.
//
// Errors: exit 73 if the file exists with another source and the policy does not allow to
// replace it.
func checkReplaceable(path string, source manifest.File, policy product.Overwrite, what string) error {
	text, err := filesystem.ReadFile(path)
	var have struct {
		Source manifest.File `json:"source"`
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return exit.ReadError(path, err)
	case policy == product.OverwriteAlways:
	case policy == product.OverwriteNever, json.Unmarshal(text, &have) != nil, have.Source.SHA256 != source.SHA256:
		return &exit.Error{Code: exit.CannotWrite, What: "the folder contains " + what + " already", At: path, Why: "it was made from another source",
			Fix: "choose another --out, or add --overwrite always"}
	}
	return nil
}

// save writes the weights and then the description. All weights are stored as float32, float16
// and bfloat16 ones without loss.
//
// Errors: exit 73 if the folder contains another network.
func (a *Architecture) save(o ImportOptions, w model.Weights) error {
	source, err := manifest.SumFile(o.Weights)
	if err != nil {
		return err
	}
	source.Path = filepath.Base(source.Path)
	path := filepath.Join(o.Out, networkFile)
	if err := checkReplaceable(path, source, o.Overwrite, "a network"); err != nil {
		return err
	}
	if err := filesystem.MkdirAll(o.Out, 0o755); err != nil {
		return exit.CreateError(o.Out, err)
	}
	tensors := make([]ckpt.Tensor, len(w))
	for i, t := range w {
		v, err := t.Float32()
		if err != nil {
			return err
		}
		tensors[i] = ckpt.Tensor{Name: t.Name, Shape: t.Shape, Data: v}
	}
	if err := ckpt.WriteFile(filepath.Join(o.Out, networkWeights), tensors, nil); err != nil {
		return err
	}
	return jsonfile.Write(path, networkJSON{Format: networkFormat, Version: o.Version, Architecture: *a, Weights: networkWeights, Source: source})
}
