package jobs

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
)

// Sizes of a small archive: initialisations every seven days from 2001-01-01, leads of 0 and 24 hours.
const (
	archiveInits, archiveLeads, archiveMembers = 24, 2, 4
	archiveNY, archiveNX                       = 8, 16
	archivePoints                              = archiveNY * archiveNX
)

// archive is a small synthetic archive: a target with an error of 0.8 and a spread of members, and another input.
// own archives have one variable outside the vocabulary.
type archive struct {
	own              bool
	forecasts, input [archiveInits][archiveLeads][archiveMembers][archivePoints]float32 // of target and other input
	analyses         [archiveInits][archivePoints]float32
}

// newArchive makes an archive from a seed.
func newArchive(r *rand.Rand, own bool) *archive {
	smooth := func() (f [archivePoints]float64) {
		a, b, c, d := r.NormFloat64(), r.NormFloat64(), 2*math.Pi*r.Float64(), 2*math.Pi*r.Float64()
		for p := range f {
			j, i := p/archiveNX, p%archiveNX
			f[p] = a*math.Sin(2*math.Pi*float64(i)/archiveNX+c) + b*math.Cos(math.Pi*float64(j)/archiveNY+d) + 0.3*r.NormFloat64()
		}
		return f
	}
	x := &archive{own: own}
	for s := range archiveInits {
		weather := smooth()
		for p := range weather {
			weather[p] = 280 + 10*math.Sin(float64(p/archiveNX)) + 3*weather[p]
			x.analyses[s][p] = float32(weather[p])
		}
		for t := range archiveLeads {
			for m := range archiveMembers {
				e := smooth()
				for p, w := range weather {
					x.forecasts[s][t][m][p] = float32(w + 0.8*float64(t) + 0.8*e[p])
					x.input[s][t][m][p] = float32(0.8*w + 40 + 0.3*e[p])
				}
			}
		}
	}
	return x
}

// zarrArray is an array of a Zarr store of version 2, in one chunk.
type zarrArray struct {
	shape  []int
	dims   []string
	values []float32
	attrs  map[string]any
}

// writeZarr writes arrays as a Zarr store.
func writeZarr(t *testing.T, dir string, arrays map[string]zarrArray) {
	t.Helper()
	put := func(path string, v any) {
		text, ok := v.([]byte)
		if !ok {
			var err error
			text, err = json.Marshal(v)
			runtest.Must(t, err)
		}
		runtest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		runtest.Must(t, os.WriteFile(path, text, 0o644))
	}
	put(filepath.Join(dir, ".zgroup"), map[string]any{"zarr_format": 2})
	for name, a := range arrays {
		chunk := ""
		for i := range a.shape {
			if i > 0 {
				chunk += "."
			}
			chunk += "0"
		}
		a.attrs["_ARRAY_DIMENSIONS"] = a.dims
		put(filepath.Join(dir, name, ".zarray"), map[string]any{"zarr_format": 2, "shape": a.shape, "chunks": a.shape, "dtype": "<f4", "order": "C", "compressor": nil, "filters": nil, "fill_value": "NaN"})
		put(filepath.Join(dir, name, ".zattrs"), a.attrs)
		var bytes []byte
		for _, v := range a.values {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
		}
		put(filepath.Join(dir, name, chunk), bytes)
	}
}

// numbers returns n numbers from first in steps.
func numbers(n int, first, step float32) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = first + step*float32(i)
	}
	return out
}

// write writes forecasts and analyses as stores of a folder.
func (x *archive) write(t *testing.T, dir string) {
	t.Helper()
	axis := func(name, standard, units string, values []float32) zarrArray {
		a := zarrArray{shape: []int{len(values)}, dims: []string{name}, values: values, attrs: map[string]any{"standard_name": standard}}
		if units != "" {
			a.attrs["units"] = units
		}
		return a
	}
	grid := func() map[string]zarrArray {
		return map[string]zarrArray{
			"lat": axis("lat", "latitude", "degrees_north", numbers(archiveNY, 70, -20)),
			"lon": axis("lon", "longitude", "degrees_east", numbers(archiveNX, 0, 22.5)),
		}
	}
	name, attrs := "t2m", func() map[string]any { return map[string]any{"units": "K", "standard_name": "air_temperature"} }
	if x.own {
		name, attrs = "foo", func() map[string]any { return map[string]any{"units": "1"} }
	}
	fc := grid()
	fc["time"] = axis("time", "forecast_reference_time", "days since 2001-01-01 00:00", numbers(archiveInits, 0, 7))
	fc["step"] = axis("step", "forecast_period", "hours", numbers(archiveLeads, 0, 24))
	fc["number"] = axis("number", "realization", "", numbers(archiveMembers, 0, 1))
	field := func(values *[archiveInits][archiveLeads][archiveMembers][archivePoints]float32, attrs map[string]any) zarrArray {
		a := zarrArray{shape: []int{archiveInits, archiveLeads, archiveMembers, archiveNY, archiveNX}, dims: []string{"time", "step", "number", "lat", "lon"}, attrs: attrs}
		for s := range values {
			for t := range values[s] {
				for m := range values[s][t] {
					a.values = append(a.values, values[s][t][m][:]...)
				}
			}
		}
		return a
	}
	fc[name] = field(&x.forecasts, attrs())
	if !x.own {
		fc["d2m"] = field(&x.input, map[string]any{"units": "K", "standard_name": "dew_point_temperature"})
	}
	writeZarr(t, filepath.Join(dir, "fc.zarr"), fc)
	an := grid()
	an["time"] = axis("time", "time", "hours since 2001-01-01 00:00", numbers(archiveInits, 24, 7*24))
	a := zarrArray{shape: []int{archiveInits, archiveNY, archiveNX}, dims: []string{"time", "lat", "lon"}, attrs: attrs()}
	for s := range x.analyses {
		a.values = append(a.values, x.analyses[s][:]...)
	}
	an[name] = a
	writeZarr(t, filepath.Join(dir, "an.zarr"), an)
}

// damages are the kinds of damage, on the initialisations from first to end.
var damages = []struct {
	name string
	do   func(x *archive, r *rand.Rand, first, end int)
}{
	{"nothing", func(*archive, *rand.Rand, int, int) {}},
	{"one value of the target", func(x *archive, r *rand.Rand, first, end int) {
		x.forecasts[first+r.IntN(end-first)][r.IntN(archiveLeads)][r.IntN(archiveMembers)][r.IntN(archivePoints)] = absurdValue(r)
	}},
	{"one value of the other input", func(x *archive, r *rand.Rand, first, end int) {
		x.input[first+r.IntN(end-first)][r.IntN(archiveLeads)][r.IntN(archiveMembers)][r.IntN(archivePoints)] = absurdValue(r)
	}},
	{"one analysed value", func(x *archive, r *rand.Rand, first, end int) {
		x.analyses[first+r.IntN(end-first)][r.IntN(archivePoints)] = absurdValue(r)
	}},
	{"a constant input", func(x *archive, _ *rand.Rand, first, end int) {
		x.eachInput(first, end, func(v float32) float32 { return 273.15 })
	}},
	{"an input constant but for its last bit", func(x *archive, r *rand.Rand, first, end int) {
		x.eachInput(0, archiveInits, func(float32) float32 {
			if r.IntN(5) == 0 {
				return math.Nextafter32(273.15, 300)
			}
			return 273.15
		})
		x.eachInput(first, end, func(v float32) float32 { return v + 0.05*float32(r.IntN(3)) })
	}},
	{"missing values", func(x *archive, r *rand.Rand, first, end int) {
		for range 200 {
			s := first + r.IntN(end-first)
			x.forecasts[s][r.IntN(archiveLeads)][r.IntN(archiveMembers)][r.IntN(archivePoints)] = float32(math.NaN())
			x.analyses[s][r.IntN(archivePoints)] = float32(math.NaN())
		}
	}},
	{"a missing member", func(x *archive, r *rand.Rand, first, end int) {
		f := &x.forecasts[first+r.IntN(end-first)][1][r.IntN(archiveMembers)]
		for p := range f {
			f[p] = float32(math.NaN())
		}
	}},
	{"shifted columns", func(x *archive, _ *rand.Rand, first, end int) {
		for s := first; s < end; s++ {
			for m := range archiveMembers {
				f := x.forecasts[s][1][m][:]
				moved := append(slices.Clone(f[5:]), f[:5]...)
				copy(f, moved)
			}
		}
	}},
	{"a bias of 15", func(x *archive, _ *rand.Rand, first, end int) {
		x.eachForecast(first, end, func(v float32) float32 { return v + 15 })
	}},
	{"tiny values", func(x *archive, _ *rand.Rand, first, end int) {
		x.eachForecast(first, end, func(v float32) float32 { return v * 1e-30 })
	}},
	{"huge values", func(x *archive, _ *rand.Rand, first, end int) {
		x.eachForecast(first, end, func(v float32) float32 { return v * 1e30 })
	}},
	{"all tiny", func(x *archive, _ *rand.Rand, _, _ int) {
		x.eachForecast(0, archiveInits, func(v float32) float32 { return v * 1e-30 })
		x.eachAnalysis(func(v float32) float32 { return v * 1e-30 })
	}},
	{"all huge", func(x *archive, _ *rand.Rand, _, _ int) {
		x.eachForecast(0, archiveInits, func(v float32) float32 { return v * 1e30 })
		x.eachAnalysis(func(v float32) float32 { return v * 1e30 })
	}},
	{"another unit", func(x *archive, _ *rand.Rand, first, end int) {
		x.eachForecast(first, end, func(v float32) float32 { return v - 273.15 })
	}},
	{"variables exchanged", func(x *archive, _ *rand.Rand, first, end int) {
		for s := first; s < end; s++ {
			x.forecasts[s], x.input[s] = x.input[s], x.forecasts[s]
		}
	}},
	{"members that are copies", func(x *archive, _ *rand.Rand, first, end int) {
		for s := first; s < end; s++ {
			for t := range archiveLeads {
				for m := range archiveMembers {
					x.forecasts[s][t][m] = x.forecasts[s][t][0]
				}
			}
		}
	}},
	{"hardly any spread", func(x *archive, _ *rand.Rand, first, end int) {
		for s := first; s < end; s++ {
			for t := range archiveLeads {
				for m := range archiveMembers {
					for p, v := range x.forecasts[s][t][0] {
						x.forecasts[s][t][m][p] = v + 1e-4*float32(m)
					}
				}
			}
		}
	}},
}

// absurdValue draws a value that a field cannot have.
func absurdValue(r *rand.Rand) float32 {
	values := []float64{1e30, -1e30, 1e10, 2000, -5000, 9.96921e36, math.Inf(1), math.Inf(-1), 0, 1e-30, 400}
	return float32(values[r.IntN(len(values))])
}

// eachForecast changes the forecasts of the target.
func (x *archive) eachForecast(first, end int, change func(v float32) float32) {
	eachValue(&x.forecasts, first, end, change)
}

// eachInput changes the other input.
func (x *archive) eachInput(first, end int, change func(v float32) float32) {
	eachValue(&x.input, first, end, change)
}

// eachValue changes the values of some initialisations.
func eachValue(of *[archiveInits][archiveLeads][archiveMembers][archivePoints]float32, first, end int, change func(v float32) float32) {
	for s := first; s < end; s++ {
		for t := range of[s] {
			for m := range of[s][t] {
				for p, v := range of[s][t][m] {
					of[s][t][m][p] = change(v)
				}
			}
		}
	}
}

// eachAnalysis changes the analyses.
func (x *archive) eachAnalysis(change func(v float32) float32) {
	for s := range x.analyses {
		for p, v := range x.analyses[s] {
			x.analyses[s][p] = change(v)
		}
	}
}

// ensembleMean is the mean of the first members at the target's lead, and their standard deviation.
func (x *archive) ensembleMean(init, members, p int) (mean, std float64) {
	for m := range members {
		mean += float64(x.forecasts[init][1][m][p]) / float64(members)
	}
	for m := range members {
		d := float64(x.forecasts[init][1][m][p]) - mean
		std += d * d / float64(members-1)
	}
	return mean, math.Sqrt(std)
}

// config is the text of a configuration for the archive in a folder.
func (x *archive) config(dir string) string {
	variables, target, level := "[2t, 2d]", "2t", "2m"
	if x.own {
		variables, target, level = "[foo]", "foo", "surface"
	}
	return fmt.Sprintf(`version: 1
baselines: [climatology, emos]
data:
  forecasts: [%[1]s/fc.zarr]
  analyses: [%[1]s/an.zarr]
  members: {use: 3, full: 4, control: include}
  leads: [0h, 24h]
  target_lead: 24h
  levels: [%[4]s]
  variables: %[2]s
  targets: [{variable: %[3]s, levels: [%[4]s]}]
  split:
    train: {from: 2001-01-01, to: 2001-04-15}
    validation: {from: 2001-04-16, to: 2001-05-15}
    test: {from: 2001-05-16, to: 2001-07-30}
model: {base: 2, stages: 1}
train: {epochs: 2, batch_size: 4, learning_rate: 0.003, threads: 1, loss: {kind: crps, spread: 1}}
`, dir, variables, target, level)
}
