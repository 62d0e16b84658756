package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestNamesAndUnits: names and units of a training are stored in its model, and predict and verify use them; flags override
// them, and names of no variable are refused with the nearest one.
func TestNamesAndUnits(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	dir := t.TempDir()
	t.Chdir(dir)
	makeMistakeData(t, dir)
	writeForecasts(t, filepath.Join(dir, "fc", "forecasts.nc"), ownForecast("warmth", "", 1))
	writeAnalyses(t, filepath.Join(dir, "an", "analyses.nc"), ownAnalysis("warmth", "K", 0)) // misstated: it is degC
	for _, s := range []struct {
		line string
		code exit.Code
		want string
	}{
		{"ensemble init -q fc an", exit.OK, ""}, // an own variable, without conversion
		{"ensemble init -q --names warmth=2t --units warmth=degC fc an > train.yaml", exit.OK, ""},
		{"ensemble check -q -c train.yaml", exit.OK, ""},
		{"ensemble train -q -c train.yaml --run-dir runs/a --set train.epochs=1 --set model.base=2", exit.OK, ""},
		{"ensemble predict -q --run-dir runs/a --input fc --out products", exit.OK, ""},
		{"ensemble verify -q --forecast 'products/*' --analysis an --members fc", exit.OK, ""},
		{"ensemble predict -q --run-dir runs/a --input fc --out other --units warmth=K", exit.BadData, "2t"},
		{"ensemble predict -q --run-dir runs/a --input fc --out other --units warmht=K", exit.Usage, "did you mean `warmth`?"},
		{"ensemble verify -q --forecast 'products/*' --analysis an --names warmht=2t", exit.Usage, "did you mean `warmth`?"},
		{"ensemble inspect -q --units warmth=degree_of_warmth fc", exit.Usage, "is not a unit"},
		{"ensemble init --names warmth=2t fc an", exit.OK, "`units: {forecasts:warmth: K}`; on the command line `--units warmth=K`"},
		{"ensemble check -q --names warmth=2t fc", exit.No, "`units: {forecasts:warmth: K}`; on the command line `--units warmth=K`"},
		{"ensemble init -q --target 2t --target t@850hPa --names warmth=2t fc an", exit.Usage, "no ensemble forecast of t@850hPa"},
		{"ensemble train -q -c train.yaml --run-dir runs/b --set data.names={warmht:2t}", exit.Usage, "a mapping"},
	} {
		code, message := typeLine(t, dir, s.line)
		if code != s.code || !strings.Contains(message, s.want) {
			t.Errorf("%s: exit %d, want %d with %q:\n%s", s.line, code, s.code, s.want, message)
		}
	}
}
