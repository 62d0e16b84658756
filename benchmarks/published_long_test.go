//go:build long

package benchmarks

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// The task of pipeline_py.py: its axes in order, and the part of the grid of 0.5 degrees
// that five poolings divide.
var (
	leads     = []int{0, 24, 48} // hours
	variables = []string{"t", "q", "w", "u", "v", "z", "d"}
	levels    = []ensemble.Level{ensemble.PressureLevel(500), ensemble.PressureLevel(850)}
	part      = ensemble.Window{Rows: [2]int{4, 356}, Cols: [2]int{8, 712}}
)

const (
	gridRows, gridCols = 361, 720
	usedMembers        = 5
)

// maps makes safetensors of what norm.nc holds.
const maps = `
import sys, netCDF4, safetensors.numpy, numpy
with netCDF4.Dataset(sys.argv[1]) as d:
    d.set_auto_mask(False)
    safetensors.numpy.save_file({k: numpy.ascontiguousarray(d[k][:]) for k in ("mean", "std")}, sys.argv[2])
`

// makeRun makes the run directory of a finished training whose network has the weights of
// pipeline_py.py and standardises with its maps.
func makeRun(t *testing.T, python, data string, base int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	path := filepath.Join(t.TempDir(), "norm.safetensors")
	if out, err := exec.Command(python, "-c", maps, filepath.Join(data, "norm.nc"), path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	norm, weights := tensors(t, path), tensors(t, filepath.Join(data, fmt.Sprintf("weights_b%d.safetensors", base)))
	grid := globe().Subgrid(part)
	n := grid.Size()
	task := task.Task{Targets: []task.Target{{Variable: "t", Lead: hours(leads[len(leads)-1])}}, FullMembers: 2 * usedMembers}
	for m := range usedMembers {
		task.UsedMembers = append(task.UsedMembers, ensemble.Member(m+1))
	}
	f := &task.Features
	f.Aggregates = []ensemble.Aggregate{ensemble.UsedSpread, ensemble.FirstMember}
	f.Axes = ensemble.Axes{Variables: variables, Levels: levels}
	for _, lead := range leads {
		f.Axes.Leads = append(f.Axes.Leads, hours(lead))
		for v := range variables {
			for l := range levels {
				at := func(name string) []float64 {
					whole := norm[name].Data.([]float32)[(v*len(levels)+l)*gridRows*gridCols:][:gridRows*gridCols]
					out := make([]float64, 0, n)
					for _, x := range ensemble.CropField(whole, globe(), part) {
						out = append(out, float64(x))
					}
					return out
				}
				scale := at("std")
				f.Fields = append(f.Fields, &ensemble.Normaliser{Kind: ensemble.LAS, Mean: at("mean"), Scale: scale})
				f.Spreads = append(f.Spreads, scale[0]) // the maps of it are constant
			}
		}
	}
	for range levels {
		task.TargetWeights, task.ErrorScale, task.SpreadScale = append(task.TargetWeights, 1), append(task.ErrorScale, 1), append(task.SpreadScale, 1)
		task.SpreadAffine = append(task.SpreadAffine, [2]float64{}) // nothing but the network
		task.Centre, task.Width = append(task.Centre, make([]float32, n)), append(task.Width, slices.Repeat([]float32{1}, n))
	}
	task.SpreadRange = 1
	m := model.Model{Spec: network.Spec{BodySpec: network.BodySpec{Kind: "unet3d", Base: base, Stages: 5}, Head: network.HeadSpec{Distribution: &network.DistributionSpec{Family: "normal", Rule: "crps"}}}, Task: task, Networks: []model.Weights{published(weights, grid)},
		Metadata: model.Metadata{Version: "benchmark", Control: "exclude", Grid: grid,
			Trained: ensemble.Period{From: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)}}}
	if err := m.Save(filepath.Join(dir, "model")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "model", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range files {
		if files[i], err = filepath.Rel(dir, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := rundir.View(dir).WriteManifest(rundir.Manifest{Record: manifest.Record{Status: manifest.OK}, Command: "benchmark"}, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

func hours(n int) ensemble.Lead { return ensemble.Lead(time.Duration(n) * time.Hour) }

// globe is the grid of the forecasts.
func globe() *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: gridCols, NY: gridRows}
	for j := range gridRows {
		g.Lat = append(g.Lat, 90-float64(j)*0.5)
	}
	for i := range gridCols {
		g.Lon = append(g.Lon, float64(i)*0.5)
	}
	return g
}

// tensors reads a file of tensors by name.
func tensors(t *testing.T, path string) map[string]ckpt.Tensor {
	t.Helper()
	list, _, err := ckpt.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]ckpt.Tensor{}
	for _, x := range list {
		out[x.Name] = x
	}
	return out
}

var layer = regexp.MustCompile(`^(enc|dec)(\d\w?)\.(weight|bias)$`)

// published gives the weights the names of the program and a head of three outputs: shift
// and the logarithm of sigma are 0, the spread is the network's output.
func published(given map[string]ckpt.Tensor, grid *ensemble.Grid) (out model.Weights) {
	for name, t := range given {
		t.Name = layer.ReplaceAllString(name, "${1}_conv$2.$3")
		if x, ok := t.Data.([]float32); ok && (name == "dec0.weight" || name == "dec0.bias") {
			t.Shape = slices.Clone(t.Shape)
			t.Shape[0] = 3
			t.Data = slices.Concat(make([]float32, 2*len(x)), x)
		}
		out = append(out, t)
	}
	for _, name := range []string{"shift", "shift_sin", "shift_cos", "shift_anomaly", "spread", "sigma_floor", "sigma_slope"} {
		out = append(out, ckpt.Tensor{Name: "maps." + name, Shape: []int{1, 1, len(levels), grid.NY, grid.NX}, Data: make([]float32, len(levels)*grid.Size())})
	}
	return out
}
