package exchange

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// golden lists the files with PyTorch's weights, input and output.
var golden = []struct {
	file string
	want Architecture
}{
	{"unet3d_base2.safetensors", Architecture{Kind: unet3d.UNetKind.Name, Channels: 3, Outputs: 1, Base: 2, Stages: 5, Parameters: 67343}},
	{"resnet2d_simple_div8.safetensors", Architecture{Kind: unet3d.ResNetKind.Name, Channels: 42, Outputs: 1, Widths: []int{8, 12, 16, 20, 28}, Reinject: new(28), Parameters: 62078}},
}

func goldenPath(file string) string { return filepath.Join("..", "..", "unet3d", "testdata", file) }

func readTensors(t *testing.T, path string) []ckpt.Tensor {
	t.Helper()
	tensors, _, err := ckpt.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return tensors
}

func writeTensors(t *testing.T, path string, tensors ...ckpt.Tensor) string {
	t.Helper()
	if err := ckpt.WriteFile(path, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// takeOut removes the tensors of golden files that are not weights.
func takeOut(tensors []ckpt.Tensor) (weights []ckpt.Tensor, input, output ckpt.Tensor) {
	for _, x := range tensors {
		switch x.Name {
		case goldenInput:
			input = x
		case goldenOutput:
			output = x
		default:
			weights = append(weights, x)
		}
	}
	return weights, input, output
}

// TestImportedNetworkAnswersAsPyTorch: weights from PyTorch are recognised, and the output for the
// input of another file is PyTorch's, to 1e-4 of its largest value.
func TestImportedNetworkAnswersAsPyTorch(t *testing.T) {
	for _, g := range golden {
		t.Run(g.want.Kind, func(t *testing.T) {
			dir := t.TempDir()
			weights, input, output := takeOut(readTensors(t, goldenPath(g.file)))
			// As a model trained on several devices has them.
			for i := range weights {
				weights[i].Name = parallelPrefix + weights[i].Name
			}
			input.Name = "input"
			o := ImportOptions{Weights: writeTensors(t, filepath.Join(dir, "w.safetensors"), weights...), Out: filepath.Join(dir, "out"),
				Apply: writeTensors(t, filepath.Join(dir, "in.safetensors"), input), To: filepath.Join(dir, "y.safetensors"), Threads: 1}
			r, err := Import(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r.Network, g.want) {
				t.Errorf("recognised %+v, want %+v", r.Network, g.want)
			}
			y := readTensors(t, o.To)
			if len(y) != 1 || y[0].Name != "output" || !slices.Equal(y[0].Shape, output.Shape) {
				t.Fatalf("wrote %v, want output %v", y, output.Shape)
			}
			var diff, size float64
			for i, v := range output.Data.([]float32) {
				diff = max(diff, math.Abs(float64(y[0].Data.([]float32)[i]-v)))
				size = max(size, math.Abs(float64(v)))
			}
			if !(diff < 1e-4*size) {
				t.Errorf("relative difference %.2g from PyTorch", diff/size)
			}
			// What was written is taken in again.
			o2 := ImportOptions{Weights: filepath.Join(o.Out, networkWeights), Out: filepath.Join(dir, "again"), Threads: 1}
			if r, err = Import(context.Background(), o2); err != nil || !reflect.DeepEqual(r.Network, g.want) {
				t.Errorf("imported again: %+v, %v", r, err)
			}
			if r, err = Import(context.Background(), ImportOptions{Weights: goldenPath(g.file), Out: filepath.Join(dir, "golden"), Threads: 1}); err != nil || r.Difference == nil || *r.Difference >= 1e-4 {
				t.Errorf("file with golden output: %+v, %v", r, err)
			}
		})
	}
}

// TestImportRefuses: the error names what does not match, and nothing is written.
func TestImportRefuses(t *testing.T) {
	unet, resnet := goldenPath(golden[0].file), goldenPath(golden[1].file)
	without := func(name string) func([]ckpt.Tensor) []ckpt.Tensor {
		return func(w []ckpt.Tensor) []ckpt.Tensor {
			return slices.DeleteFunc(w, func(x ckpt.Tensor) bool { return x.Name == name })
		}
	}
	change := func(name string, do func(*ckpt.Tensor)) func([]ckpt.Tensor) []ckpt.Tensor {
		return func(w []ckpt.Tensor) []ckpt.Tensor {
			do(&w[slices.IndexFunc(w, func(x ckpt.Tensor) bool { return x.Name == name })])
			return w
		}
	}
	short := func(x *ckpt.Tensor) { x.Shape, x.Data = []int{1}, []float32{0} }
	for _, c := range []struct {
		name, from string
		change     func([]ckpt.Tensor) []ckpt.Tensor
		want       string
	}{
		{"a bias is missing", unet, without("enc_conv3.bias"), `"enc_conv3.bias"`},
		{"the last layer is missing", unet, without("dec_conv0.weight"), `"dec_conv0.weight"`},
		{"another shape", unet, change("dec_conv2a.bias", short), `"dec_conv2a.bias"`},
		{"a stage is missing", unet, without("enc_conv4.weight"), `"enc_conv4.weight"`},
		{"too much", unet, func(w []ckpt.Tensor) []ckpt.Tensor {
			return append(w, ckpt.Tensor{Name: "extra", Shape: []int{1}, Data: []float32{0}})
		}, `"extra"`},
		{"integers", unet, change("enc_conv0.bias", func(x *ckpt.Tensor) { x.Data = make([]int32, len(x.Data.([]float32))) }), `"enc_conv0.bias"`},
		{"nothing known", unet, func(w []ckpt.Tensor) []ckpt.Tensor {
			return []ckpt.Tensor{{Name: "fc1.weight", Shape: []int{1}, Data: []float32{0}}}
		}, `"fc1.weight"`},
		{"empty", unet, func([]ckpt.Tensor) []ckpt.Tensor { return nil }, "no tensor"},
		{"absurd width", unet, change("enc_conv0.weight", func(x *ckpt.Tensor) { x.Shape, x.Data = []int{1 << 40, 3, 3, 3, 0}, []float32{} }), `"enc_conv0.weight"`},
		{"absurd channels", resnet, change("convBR0.conv.weight", func(x *ckpt.Tensor) { x.Shape, x.Data = []int{8, 1 << 50, 3, 0}, []float32{} }), `"convBR0.conv.weight"`},
		{"a block is missing", resnet, without("inc3.conv3.weight"), `"inc3.conv3.weight"`},
		{"a statistic is missing", resnet, without("inc2.bnr.running_var"), `"inc2.bnr.running_var"`},
		{"another answer", unet, change(goldenOutput, func(x *ckpt.Tensor) { x.Data.([]float32)[7] += 1 }), "relative difference"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := writeTensors(t, filepath.Join(dir, "w.safetensors"), c.change(readTensors(t, c.from))...)
			refused(t, ImportOptions{Weights: path, Out: filepath.Join(dir, "out"), Threads: 1}, exit.BadData, c.want, path)
		})
	}
	dir := t.TempDir()
	pickle := filepath.Join(dir, "model.safetensors")
	if err := os.WriteFile(pickle, []byte("\x80\x02}q\x00X\x01\x00\x00\x00aK\x01s."), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	refused(t, ImportOptions{Weights: pickle, Out: out}, exit.BadData, "st.save_file", pickle)
	refused(t, ImportOptions{Weights: filepath.Join(dir, "none"), Out: out}, exit.NotYet, "none", dir)
	refused(t, ImportOptions{Weights: resnet, Out: out, Reinject: new(42)}, exit.Usage, "0 to 41", resnet)
	refused(t, ImportOptions{Weights: resnet, Out: out, Reinject: new(3)}, exit.BadData, "relative difference", resnet)
	wrong := writeTensors(t, filepath.Join(dir, "in.safetensors"), ckpt.Tensor{Name: "input", Shape: []int{1, 3, 1, 30, 32}, Data: make([]float32, 3*30*32)})
	refused(t, ImportOptions{Weights: unet, Out: out, Apply: wrong, To: filepath.Join(dir, "y"), Threads: 1}, exit.BadData, "want multiples of 32", wrong)

	// A folder with one network does not silently become that of another.
	if _, err := Import(context.Background(), ImportOptions{Weights: unet, Out: out, Threads: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(context.Background(), ImportOptions{Weights: unet, Out: out, Threads: 1}); err != nil {
		t.Errorf("the same weights again: %v", err)
	}
	_, err := Import(context.Background(), ImportOptions{Weights: resnet, Out: out, Threads: 1})
	if exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("another network in the folder: %v", err)
	}
	if _, err := Import(context.Background(), ImportOptions{Weights: resnet, Out: out, Overwrite: "always", Threads: 1}); err != nil {
		t.Error(err)
	}
}

// refused expects an error with exit code and location, and no output.
func refused(t *testing.T, o ImportOptions, code exit.Code, want, at string) {
	t.Helper()
	_, err := Import(context.Background(), o)
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(e.At, at) || e.Fix == "" {
		t.Errorf("exit %d, %v; want exit %d, %q at %s", exit.CodeOf(err), err, code, want, at)
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("something was written")
	}
}
