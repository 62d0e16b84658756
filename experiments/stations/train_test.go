package stations

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// sets writes the sets as NetCDF.
func sets(t *testing.T) string {
	t.Helper()
	testdata.Dir(t, "stations")
	testdecoder.Path(t)
	out := t.TempDir()
	if text, err := exec.Command(testdata.Python(t, "netCDF4"), "make_netcdf.py", testdata.Dir(t, "."), out).CombinedOutput(); err != nil {
		t.Fatalf("make_netcdf.py: %v\n%s", err, text)
	}
	return out
}

func load(t *testing.T, file, dir string, set ...string) *config.TrainConfig {
	t.Helper()
	c, err := config.LoadTrain(config.Sources{Files: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(string(c.Data.Forecasts[0])), "_fc.nc")
	set = append(set, "data.forecasts=["+filepath.Join(dir, name+"_fc.nc")+"]", "data.analyses=["+filepath.Join(dir, name+"_an.nc")+"]")
	if c, err = config.LoadTrain(config.Sources{Files: []string{file}, Set: set}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLaterDates trains on earlier and tests on later inits, for one or two epochs. The network, which starts as
// EMOS, must then have a lower CRPS than the raw ensemble and the baselines, with an interval that excludes zero. The 16
// dates of Washington, whose errors last for weeks, decide only on the raw ensemble.
func TestLaterDates(t *testing.T) {
	dir := sets(t)
	for file, better := range map[string][]string{
		"tmin.yaml": {"raw11", "emos", "emos_point", "climatology"}, "washington.yaml": {"raw8", "emos", "mbm", "climatology"},
	} {
		c := load(t, file, dir, "train.networks=1", "train.epochs=2", "train.batch_size=32")
		r, err := train.Run(context.Background(), train.Options{Config: c, RunDir: t.TempDir(), Version: "test"})
		if err != nil {
			t.Fatal(file, err)
		}
		for _, over := range better {
			found := false
			for _, g := range r.Scores.Comparisons {
				if g.ID == "crps_gauss" && g.ReferenceID == "crps_gauss" && g.System == "network" && g.Reference == over {
					found = true
					if !(g.SkillScore > 0) || (file != "washington.yaml" || over == "raw8") && !(g.CILow > 0) {
						t.Errorf("%s: skill score relative to %s %.4f, %.4f to %.4f", file, over, g.SkillScore, g.CILow, g.CIHigh)
					}
				}
			}
			if !found {
				t.Errorf("%s: no skill score relative to %s", file, over)
			}
		}
	}
	// Consecutive stations in the list are not neighbours in space.
	c := load(t, "washington.yaml", dir, "model.kind=unet3d", "model.reference=none", "train.epochs=1")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: t.TempDir(), Version: "test"}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "single points") {
		t.Errorf("a 3-D U-Net on a list of places: %v", err)
	}
}
