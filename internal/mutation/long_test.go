//go:build long

package mutation

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	update = flag.Bool("update", false, "write testdata/survivors again")
	again  = flag.Bool("again", false, "test only the mutants that testdata/survivors names")
	most   = flag.Int("mutants", 0, "largest number that is drawn of each package; 0: as listed")
	seed   = flag.Uint64("seed", 0, "of the mutants that are drawn; 0: the date")
)

// guarding lists the packages that guard data, with the number of mutants that are drawn of each, and tests that are left out, as they
// take long and use other files. A rate without them is a lower bound. Slow tests are run only on mutants that the others do not notice.
var guarding = []struct {
	pkg     string
	files   []string // nil: all
	mutants int
	skip    string // tests, as Options.Skip
	slow    string // tests, as Options.Slow
}{
	{"internal/atomicfile", nil, 100, "", "Fault49"},
	{"internal/manifest", nil, 60, "", ""},
	{"internal/lease", nil, 60, "", "Simulated|DeadOwner"},
	{"internal/rundir", nil, 60, "", "BothAtOnce|EachOperation|Fault2"},
	{"engine/ckpt", nil, 100, "", "Fault2"},
	{"io/store", []string{"meta.go", "write.go", "shard.go", "replace.go", "storage.go", "layout.go", "folder.go"}, 60, "KilledAtRandom|StartedTogether|Heap", "KilledAtStages|Fault|Interrupted|EachOperation|FullDisk"},
	{"io/product", []string{"publish.go", "manifest.go"}, 30, "GRIB2|Vocabulary|In(GDAL|CDO|NCO|Xarray|Cfgrib)|Statistics|Describe|ReadBack|ZarrAgrees|Recipe", ""},
	{"io/grib", []string{"scan.go"}, 40, "", "SavedIndex|MutatedFiles"},
	{"io/zarr", []string{"meta.go"}, 40, "", "MutatedFiles"},
	{"postproc/score", nil, 100, "", ""},
}

// TestLongMutants draws mutants of the packages that guard data. Nine of ten must be noticed by the tests of their package, but for
// equivalent ones. Results are logged as they come, and survivors written to testdata/survivors by -update, where a reason can be added to each.
func TestLongMutants(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().Unix() / 86400)
	}
	t.Logf("seed %d", *seed)
	for _, g := range guarding {
		t.Run(g.pkg, func(t *testing.T) {
			path := filepath.Join("testdata", "survivors", strings.ReplaceAll(g.pkg, "/", "-")+".txt")
			known, err := ReadSurvivors(path)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Limit: g.mutants, Seed: *seed, Files: g.files, Skip: g.skip, Slow: g.slow, Tested: func(m Mutant, noticed bool) { t.Logf("noticed %v: line %d: %v", noticed, m.Line, m) }}
			if *most > 0 {
				o.Limit = min(o.Limit, *most)
			}
			if *again {
				o.Limit, o.Only = 0, func(m Mutant) bool { return slices.Contains(known.Names, m.String()) }
			}
			r, err := Run(context.Background(), "github.com/ensemble-weather/ensemble/"+g.pkg, o)
			if err != nil {
				t.Fatal(err)
			}
			record := known.With(*seed, r)
			if *again {
				record = known.Again(r)
			}
			t.Logf("%s, %d by the time limit: %v", g.pkg, r.TimedOut, record)
			if record.Rate() < 0.9 {
				t.Errorf("%s: tests noticed %.0f %% of the mutants, want 90 %%", g.pkg, 100*record.Rate())
			}
			if *update {
				if err := os.WriteFile(path, []byte(record.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
