//go:build long

package benchmarks

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench/read"
	"github.com/ensemble-weather/ensemble/internal/measure"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// combination is a way to run pipeline_py.py.
type combination struct{ reader, form string }

// usual is what a user of Python would write; the best is looked for among all.
var usual = combination{"cfgrib", "d3"}

var combinations = []combination{{"eccodes", "fold"}, {"eccodes", "d3"}, {"cfgrib", "fold"}, usual}

// taken is what processes take: wall time in seconds, and resident memory with that of children at the peak in MiB.
type taken struct{ seconds, mib measure.Series }

func (t *taken) add(seconds, mib float64) {
	t.seconds, t.mib = append(t.seconds, seconds), append(t.mib, mib)
}

// TestLongPredictBesidePython measures bin/ensemble beside pipeline_py.py, which lies in the folder $ENSEMBLE_PEERS: the same
// GRIB files, maps and weights, from cold process to written file, in turn; both must give the same spread. $ENSEMBLE_PEERS_PYTHON
// names a Python with torch, safetensors, dask, eccodes, cfgrib, xarray and netCDF4.
func TestLongPredictBesidePython(t *testing.T) {
	const rounds, threads = 3, 2
	peers, python := os.Getenv("ENSEMBLE_PEERS"), cmp.Or(os.Getenv("ENSEMBLE_PEERS_PYTHON"), "../build/venv/bin/python")
	if peers == "" {
		t.Skip("skipped: $ENSEMBLE_PEERS names no folder with pipeline_py.py")
	}
	script := filepath.Join(peers, "pipeline_py.py")
	program, err := filepath.Abs("../bin/ensemble")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "-c", "import torch, safetensors, dask, eccodes, cfgrib, xarray, netCDF4").CombinedOutput(); err != nil {
		t.Skipf("skipped: %s lacks something: %s", python, out)
	}
	t.Setenv("OMP_WAIT_POLICY", "passive")
	t.Setenv("PYTHONWARNINGS", "ignore")
	for _, packing := range []string{"simple", "ccsds"} {
		data := t.TempDir()
		if out, err := exec.Command(python, script, "--make", data, "--packing", packing).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var files []string
		for _, lead := range leads {
			files = append(files, filepath.Join(data, fmt.Sprintf("lead%03d.grib2", lead)))
		}
		for _, base := range []int{8, 32} {
			t.Run(fmt.Sprintf("%s/base=%d", packing, base), func(t *testing.T) {
				o := read.Options{Files: files, Rounds: 1, RunDir: makeRun(t, python, data, base), Out: filepath.Join(t.TempDir(), "products"), Threads: threads, Program: []string{program}}
				peerOut := filepath.Join(t.TempDir(), "out.nc")
				ours, theirs, contenders := &taken{}, map[combination]*taken{}, slices.Clone(combinations)
				for round := range rounds {
					r, err := read.Run(t.Context(), o)
					if err != nil {
						t.Fatal(err)
					}
					ours.add(r.Prediction.MS.Median/1e3, r.Prediction.PeakMiB)
					for _, c := range contenders {
						if theirs[c] == nil {
							theirs[c] = &taken{}
						}
						took, bytes, err := read.Cold(t.Context(), python, script, "--run", data, "--out", peerOut, "--form", c.form, "--base", fmt.Sprint(base), "--reader", c.reader, "--threads", fmt.Sprint(threads))
						if err != nil {
							t.Fatal(err)
						}
						theirs[c].add(took.Seconds(), float64(bytes)/(1<<20))
					}
					if round > 0 {
						continue
					}
					best := slices.MinFunc(combinations, func(a, b combination) int { return cmp.Compare(theirs[a].seconds[0], theirs[b].seconds[0]) })
					contenders = slices.Compact([]combination{best, usual})
					if d, err := differ(t.Context(), o.Out, peerOut); err != nil || d > 1e-5 {
						t.Errorf("the spreads differ by %g of the largest, %v", d, err)
					}
				}
				b, u := theirs[contenders[0]], theirs[usual]
				t.Logf("%s s and %s MiB; best of Python (%s and %s) %s s, ratio %.2f, and %s MiB, ratio %.2f; cfgrib and d3 %s s, ratio %.2f", ours.seconds, ours.mib,
					contenders[0].reader, contenders[0].form, b.seconds, b.seconds.Median()/ours.seconds.Median(), b.mib, ours.mib.Median()/b.mib.Median(),
					u.seconds, u.seconds.Median()/ours.seconds.Median())
			})
		}
	}
}

// differ gives the largest difference of the spreads of both sides, over the largest: the
// network's output is cut off at 0 here and goes through a softplus there.
func differ(ctx context.Context, products, peer string) (float64, error) {
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	files, err := filepath.Glob(filepath.Join(products, "*", "*.nc"))
	if err != nil {
		return 0, err
	}
	spreads := func(paths []string) (map[ensemble.Level][]float32, error) {
		in, err := fio.Open(ctx, paths, fio.Options{Pool: pool})
		if err != nil {
			return nil, err
		}
		defer in.Close()
		out := map[ensemble.Level][]float32{}
		// Of ours the estimate of the full ensemble's spread, not that of the distribution.
		// Long names tell them apart.
		entries := in.Catalogue().Select(func(e ensemble.Entry) bool {
			return e.Variable == "t" && e.Product == ensemble.Spread && (strings.Contains(e.LongName, "full ensemble") || strings.Contains(e.LongName, "from the network"))
		})
		for _, e := range entries {
			f, err := in.ReadOne(ctx, e)
			if err != nil {
				return nil, err
			}
			out[e.Level] = f.Values
		}
		return out, nil
	}
	ours, err := spreads(files)
	if err != nil {
		return 0, err
	}
	theirs, err := spreads([]string{peer})
	if err != nil {
		return 0, err
	}
	var largest, difference float64
	for level, want := range theirs {
		have := ours[level]
		if len(have) != len(want) {
			return 0, fmt.Errorf("%s: %d values in %v, %d in %s", level, len(have), files, len(want), peer)
		}
		for i, y := range want {
			u := max(0, math.Log(math.Expm1(float64(y))))
			difference, largest = max(difference, math.Abs(u-float64(have[i]))), max(largest, u)
		}
	}
	if largest == 0 || len(theirs) == 0 {
		return 0, fmt.Errorf("nothing to compare in %s", peer)
	}
	return difference / largest, nil
}
