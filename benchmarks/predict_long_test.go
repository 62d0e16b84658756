//go:build long

package benchmarks

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/bench/read"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// combination is a way to run pipeline_py.py.
type combination struct{ reader, form string }

// usual is what a user of Python would write; the best is looked for among all.
var usual = combination{"cfgrib", "d3"}

var combinations = []combination{{"eccodes", "fold"}, {"eccodes", "d3"}, {"cfgrib", "fold"}, usual}

// taken is what processes take: wall time in seconds, and resident memory with that of children at the peak in MiB.
type taken struct{ seconds, mib benchstats.Series }

func (t *taken) add(seconds, mib float64) {
	t.seconds, t.mib = append(t.seconds, seconds), append(t.mib, mib)
}

// difference prints the largest difference of the spreads of both sides, over the largest: the network's output is cut off
// at 0 here and goes through a softplus there. Of ours it takes the estimate of the full ensemble's spread.
const difference = `
import glob, sys, netCDF4, numpy as np
def spread(path, words):
    with netCDF4.Dataset(path) as d:
        d.set_auto_mask(False)
        v, = (v for v in d.variables.values() if words in getattr(v, "long_name", "") and "spread" in v.long_name)
        level = d[next(x for x in v.dimensions if d[x].standard_name == "air_pressure")]
        return np.squeeze(v[:])[np.argsort(level[:] * (100 if level.units == "hPa" else 1))]
ours, = glob.glob(sys.argv[1] + "/*/*.nc")
want = np.maximum(0, np.log(np.expm1(spread(sys.argv[2], "from the network").astype("f8"))))
print(np.abs(spread(ours, "full ensemble") - want).max() / want.max())
`

// TestLongPredictBesidePython measures bin/ensemble beside pipeline_py.py, which lies in the folder $ENSEMBLE_PEERS: the same
// GRIB files, maps and weights, from cold process to written file, in turn; both must give the same spread. $ENSEMBLE_TEST_PYTHON
// names a Python with torch, safetensors, dask, eccodes, cfgrib, xarray and netCDF4.
func TestLongPredictBesidePython(t *testing.T) {
	const rounds, threads = 3, 2
	peers := os.Getenv("ENSEMBLE_PEERS")
	if peers == "" {
		t.Skip("skipped: $ENSEMBLE_PEERS names no folder with pipeline_py.py")
	}
	script := filepath.Join(peers, "pipeline_py.py")
	program, err := filepath.Abs("../bin/ensemble")
	if err != nil {
		t.Fatal(err)
	}
	python := testdata.Python(t, "torch", "safetensors", "dask", "eccodes", "cfgrib", "xarray", "netCDF4")
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
				var apart []byte
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
						took, bytes, err := read.RunCold(t.Context(), python, script, "--run", data, "--out", peerOut, "--form", c.form, "--base", fmt.Sprint(base), "--reader", c.reader, "--threads", fmt.Sprint(threads))
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
					apart, err = exec.Command(python, "-c", difference, o.Out, peerOut).CombinedOutput()
					if d, bad := strconv.ParseFloat(strings.TrimSpace(string(apart)), 64); err != nil || bad != nil || !(d <= 1e-5) {
						t.Errorf("the spreads differ by %s of the largest, %v", apart, err)
					}
				}
				b, u := theirs[contenders[0]], theirs[usual]
				t.Logf("%s s and %s MiB; best of Python (%s and %s) %s s, ratio %.2f, and %s MiB, ratio %.2f; cfgrib and d3 %s s, ratio %.2f; spreads differ by %s of the largest", ours.seconds, ours.mib,
					contenders[0].reader, contenders[0].form, b.seconds, b.seconds.Median()/ours.seconds.Median(), b.mib, ours.mib.Median()/b.mib.Median(),
					u.seconds, u.seconds.Median()/ours.seconds.Median(), strings.TrimSpace(string(apart)))
			})
		}
	}
}
