// Package exchange reads and writes weights of networks for other programs, under the published names.
package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// ImportOptions says which weights to take in and what to try them on.
type ImportOptions struct {
	Weights string // safetensors file under the published names
	Out     string // folder that gets network.json and weights.safetensors
	// Reinject is the input channel that a ResNet feeds in again; its weights do
	// not tell. nil means the published channel.
	Reinject *int
	Periodic bool   // longitudes wrap around, as they do not in the published networks
	Apply    string // safetensors file with a tensor "input" to run the network on; "" does not
	To       string // file that gets the tensor "output"
	// Overwrite says whether what is in Out may be replaced; "same", the default:
	// only if it came from the same weights.
	Overwrite product.Overwrite
	Threads   int
	Version   string
}

// ImportResult says what was taken in.
type ImportResult struct {
	Network Architecture `json:"network"`
	Out     string       `json:"out"`
	// Difference is the largest distance of the network's answer from that of the
	// file itself, relative to the largest value, if the file brings input and
	// output along.
	Difference *float64 `json:"golden_difference,omitempty"`
	Outputs    []string `json:"-"`
}

// networkFile and networkWeights are the files of an imported network.
const (
	networkFile    = "network.json"
	networkWeights = "weights.safetensors"
	networkFormat  = 1
)

// goldenTolerance is how far the network may be from an output that comes with
// its weights, relative to its largest value: what sums of 32-bit numbers in
// another order may differ by, with room.
const goldenTolerance = 1e-4

// networkJSON is network.json.
type networkJSON struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of the program
	Architecture
	Weights string        `json:"weights"` // file beside this one
	Source  manifest.File `json:"source"`
}

// Import takes in the weights of a published network: it recognises which
// one they belong to, verifies that all of them fit, tries them on the input and
// output that may lie with them as golden.input and golden.output, and writes
// them with a description. It runs the network on other input if asked to.
//
// Errors: 65, naming the first tensor that does not fit, or if the file is a pickle,
// a zip archive or damaged; 65 if the answer to golden.input is another; 64 if the
// channel to feed in again must be given; 66, 73 and 74 for files.
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

// chooseChannel settles the channel that a ResNet feeds in again.
func (a *Architecture) chooseChannel(o ImportOptions) error {
	if a.Kind != unet3d.ResNetKind.Name {
		if o.Reinject != nil {
			return &exit.Error{Code: exit.Usage, What: "a " + a.Kind + " feeds no channel in again", At: "--reinject", Fix: "leave it out"}
		}
		return nil
	}
	channel := unet3d.PublishedReinject
	if o.Reinject != nil {
		channel = *o.Reinject
	}
	if channel < 0 || channel >= a.Channels {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("there is no channel %d to feed in again", channel), At: o.Weights,
			Why: fmt.Sprintf("the network has the input channels 0 to %d; the published one feeds in channel %d", a.Channels-1, unet3d.PublishedReinject),
			Fix: "give --reinject, the channel of the forecast's own spread at the target lead"}
	}
	a.Reinject = &channel
	return nil
}

// run answers fields. Samples are computed one by one.
//
// Shape: x [N C D H W], or [N C H W] for one level; the output likewise.
func (a *Architecture) run(ctx context.Context, w model.Weights, x ckpt.Tensor, path string, threads int) (ckpt.Tensor, error) {
	bad := func(why string) (ckpt.Tensor, error) {
		return ckpt.Tensor{}, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("tensor %q is no input for the network", x.Name), At: path, Why: why,
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
		return bad(fmt.Sprintf("it has shape %v, the network %d channels", x.Shape, a.Channels))
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

// checkGolden compares the network's answer with the one that comes with the weights;
// nil if none does.
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
		return nil, &exit.Error{Code: exit.BadData, What: fmt.Sprintf("tensor %q is no output of the network", goldenOutput), At: o.Weights,
			Why: fmt.Sprintf("it has shape %v, the answer to %s %v", tensors[out].Shape, goldenInput, y.Shape), Fix: "make the file again, or remove the tensor from it"}
	}
	var diff, size float64
	for i, v := range y.Data.([]float32) {
		diff = max(diff, math.Abs(float64(v)-float64(want[i]))) // max keeps NaN
		size = max(size, math.Abs(float64(want[i])))
	}
	diff /= size
	if !(diff <= goldenTolerance) {
		return nil, &exit.Error{Code: exit.BadData, What: "the network does not give the output that comes with its weights", At: o.Weights,
			Why: fmt.Sprintf("the relative difference is %.2g, at most %g is rounding", diff, goldenTolerance),
			Fix: "check that weights and output are of one network in evaluation mode, and --reinject and --periodic"}
	}
	return &diff, nil
}

// apply runs the network on the tensor "input" of a file and writes "output".
func (a *Architecture) apply(ctx context.Context, o ImportOptions, w model.Weights) error {
	tensors, _, err := ckpt.ReadFile(o.Apply)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(tensors, func(t ckpt.Tensor) bool { return t.Name == "input" })
	if at < 0 {
		return &exit.Error{Code: exit.BadData, What: `no tensor "input"`, At: o.Apply, Why: "the network needs one to run on", Fix: "save it under that name"}
	}
	y, err := a.run(ctx, w, tensors[at], o.Apply, o.Threads)
	if err != nil {
		return err
	}
	return ckpt.WriteFile(o.To, []ckpt.Tensor{y}, nil)
}

// checkReplaceable verifies that a description of what was made from a source may be written.
//
// Errors: exit 73 if there is one of another source, unless the policy lets it go.
func checkReplaceable(path string, source manifest.File, policy product.Overwrite, what string) error {
	text, err := os.ReadFile(path)
	var have struct {
		Source manifest.File `json:"source"`
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return exit.ReadError(path, err)
	case policy == product.OverwriteAlways:
	case policy == product.OverwriteNever, json.Unmarshal(text, &have) != nil, have.Source.SHA256 != source.SHA256:
		return &exit.Error{Code: exit.CannotWrite, What: what + " is in the folder", At: path, Why: "it is not to be replaced by what comes from elsewhere",
			Fix: "choose another --out, or add --overwrite always"}
	}
	return nil
}

// save writes the weights and then their description.
//
// Errors: exit 73 if the folder holds another network.
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
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
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
