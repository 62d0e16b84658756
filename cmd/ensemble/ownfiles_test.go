package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/internal/testnetcdf"
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
	typeLines(t, dir, []typedLine{
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
	})
}

// typedLine is a command as a user types it, with its exit code and words of its output.
type typedLine struct {
	line string
	code exit.Code
	want string
}

// typeLines types lines one after the other in a folder.
func typeLines(t *testing.T, dir string, lines []typedLine) {
	t.Helper()
	for _, s := range lines {
		code, message := typeLine(t, dir, s.line)
		if code != s.code || !strings.Contains(message, s.want) {
			t.Errorf("%s: exit %d, want %d with %q:\n%s", s.line, code, s.code, s.want, message)
		}
	}
}

// TestLeadsOfFiles: each command that finds no lead in a file prints the line and the flag that state it, and both work as
// printed; the model stores the lead.
func TestLeadsOfFiles(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	dir := t.TempDir()
	t.Chdir(dir)
	makeMistakeData(t, dir)
	path := filepath.Join(dir, "fc", "forecasts.nc")
	withLead := append(testnetcdf.Coordinates(mistakeInits, 8, 8, 24), ownForecast("t2m", "K", 274))
	testnetcdf.Write(t, path, append(withLead[:3:3], withLead[4])...)
	writeAnalyses(t, filepath.Join(dir, "an", "analyses.nc"), ownAnalysis("t2m", "K", 273))
	const fix = "`file_leads: 24h` under `data:` of train.yaml, and by `--file-leads 24h`"
	typeLines(t, dir, []typedLine{
		{"ensemble inspect -q fc", exit.BadData, fix},
		{"ensemble check -q fc", exit.BadData, fix},
		{"ensemble init -q fc an", exit.BadData, fix},
		{"ensemble inspect -q --file-leads 24h fc", exit.OK, ""},
		{"ensemble check -q --file-leads 24h fc", exit.OK, ""},
		{"ensemble init -q --file-leads 24h fc an > train.yaml", exit.OK, ""},
		{"sed -n '/file_leads/!w without.yaml' train.yaml", exit.OK, ""},
		{"ensemble check -q -c without.yaml", exit.BadData, fix},
		{"ensemble train -q -c without.yaml --run-dir runs/a", exit.BadData, fix},
		{"ensemble data prepare -q -c without.yaml --out store", exit.BadData, fix},
		{"ensemble check -q -c train.yaml", exit.OK, ""},
		{"ensemble train -q -c train.yaml --run-dir runs/a --set train.epochs=1 --set model.base=2", exit.OK, ""},
		{"ensemble predict -q --run-dir runs/a --input fc --out products", exit.OK, ""},
		{"ensemble verify -q --forecast 'products/*' --analysis an --members fc", exit.OK, ""},
		{"ensemble inspect --file-leads 24h an", exit.Usage, "which no file needs"},
		{"ensemble inspect --file-leads other.nc=24h fc", exit.Usage, "which no file needs"},
		{"ensemble inspect --file-leads 24 fc", exit.Usage, "--file-leads 24h"},
	})
	config, err := os.ReadFile("train.yaml")
	if err != nil || !strings.Contains(string(config), "\n  file_leads: 24h ") {
		t.Errorf("init writes no lead: %v\n%s", err, config)
	}
}
