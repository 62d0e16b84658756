package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testnetcdf"
)

// checkIt is what a user types to see whether a training would work.
const checkIt = "ensemble check -q -c train.yaml"

// onlyForecast replaces the forecasts by a file with one variable.
func onlyForecast(v testnetcdf.Variable) func(*testing.T, string) {
	return func(t *testing.T, dir string) { writeForecasts(t, filepath.Join(dir, "fc", "forecasts.nc"), v) }
}

// onlyAnalysis replaces the analyses by a file with one variable.
func onlyAnalysis(v testnetcdf.Variable) func(*testing.T, string) {
	return func(t *testing.T, dir string) { writeAnalyses(t, filepath.Join(dir, "an", "analyses.nc"), v) }
}

// crlf gives train.yaml line ends of Windows.
func crlf(t *testing.T, dir string) {
	path := filepath.Join(dir, "train.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, path, strings.ReplaceAll(string(text), "\n", "\r\n"))
}

// mistakes are forty of a first user.
var mistakes = []mistake{
	{name: "misspelled key", edit: [2]string{"epochs: 1", "epoch: 1"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "write `epochs: 1`"},
	{name: "misspelled section", edit: [2]string{"model:", "modell:"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "write `model: {"},
	{name: "key of another section", edit: [2]string{"baselines: [emos]", "epochs: 2"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "under `train:` write `epochs: 2`"},
	{name: "misspelled value", edit: [2]string{"kind: unet3d", "kind: unet"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "unet3d"},
	{name: "misspelled item", edit: [2]string{"[emos]", "[emoss]"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "emos"},
	{name: "wrong indentation", edit: [2]string{"  analyses: [an]", "   analyses: [an]"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "write line 4 as `  analyses: [an]`"},
	{name: "tabs", edit: [2]string{"  forecasts: [fc]\n  analyses: [an]", "\tforecasts: [fc]\n\tanalyses: [an]"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "sed"},
	{name: "no blank after the colon", edit: [2]string{"  target_lead: 24h", "  target_lead:24h"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "write line 8 as `  target_lead: 24h`"},
	{name: "pattern without quotes", edit: [2]string{"[fc]", "[*.nc]"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "`  forecasts: [\"*.nc\"]`"},
	{name: "quotes around a number", edit: [2]string{"epochs: 1", "epochs: \"1\""}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "write `epochs: 1`"},
	{name: "list for a scalar", edit: [2]string{"target_lead: 24h", "target_lead: [24h]"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "write `target_lead: 24h`"},
	{name: "scalar for a list", edit: [2]string{"variables: [2t]", "variables: 2t"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "`variables: [2t]`"},
	{name: "lead without unit", edit: [2]string{"target_lead: 24h", "target_lead: 24"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "write `target_lead: 24h`"},
	{name: "tilde in a path", edit: [2]string{"[fc]", "[~/fc]"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "${HOME}/fc"},
	{name: "missing key", edit: [2]string{"  target_lead: 24h\n", ""}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "`target_lead: "},
	{name: "line ends of Windows and a tab", edit: [2]string{"  analyses: [an]", "\tanalyses: [an]"}, make: crlf, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "analyses: [an]"},
	{name: "upper-case variable", edit: [2]string{"variables: [2t]\n", "variables: [2T]\n"}, args: checkIt, code: exit.Usage, fix: "2t"},
	{name: "missing variable", edit: [2]string{"variables: [2t]\n", "variables: [2t, 2d]\n"}, args: checkIt, code: exit.No, fix: "`variables: [2t]`"},
	{name: "level for a variable of one level", edit: [2]string{"levels: [single]\n  leads", "levels: [2m]\n  leads"}, args: checkIt, code: exit.Usage, fix: "write `levels: [single]`"},
	{name: "missing level", edit: [2]string{"  variables: [2t]\n  levels: [single]\n  leads: [24h]\n  target_lead: 24h\n  targets: [{variable: 2t, levels: [single]}]",
		"  variables: [t]\n  levels: [850hPa]\n  leads: [24h]\n  target_lead: 24h\n  targets: [{variable: t, levels: [850hPa]}]"},
		make: func(t *testing.T, dir string) {
			onlyForecast(ownForecast("t500", "degC", 1))(t, dir)
			onlyAnalysis(ownAnalysis("t500", "degC", 0))(t, dir)
		}, args: checkIt, code: exit.No, fix: "500hPa"},
	{name: "missing lead", edit: [2]string{"  leads: [24h]\n  target_lead: 24h", "  leads: [48h]\n  target_lead: 48h"}, args: checkIt, code: exit.No, fix: "24h"},
	{name: "no unit in the forecasts", make: onlyForecast(ownForecast("t2m", "", 274.15)), args: checkIt, code: exit.No, fix: "`units: {forecasts:t2m: K}`"},
	{name: "no unit in the analyses, which are degC", make: onlyAnalysis(ownAnalysis("t2m", "", 0)), args: checkIt, code: exit.No, fix: "`units: {"},
	{name: "wrong unit", make: onlyForecast(ownForecast("t2m", "K", 1)), args: checkIt, code: exit.No, fix: "`units: {"},
	{name: "unit that is none", make: onlyForecast(ownForecast("t2m", "centigrades", 274.15)), args: checkIt, code: exit.No, fix: "`units: {forecasts:t2m: K}`"},
	{name: "own name of the analyses", make: onlyAnalysis(ownAnalysis("temp_at_station_height", "degC", 0)), args: "ensemble init -q fc an", code: exit.BadData, fix: "--names temp_at_station_height=2t"},
	{name: "own name of the forecasts", make: onlyForecast(ownForecast("warmth", "degC", 1)), args: checkIt, code: exit.No, fix: "`names: {warmth: 2t}`"},
	{name: "own name of the analyses of a training", make: onlyAnalysis(ownAnalysis("warmth", "degC", 0)), args: checkIt, code: exit.No, fix: "`names: {warmth: 2t}`"},
	{name: "misspelled own name", edit: [2]string{"  members:", "  names: {t2mm: 2t}\n  members:"}, args: checkIt, code: exit.Usage, fix: "t2m"},
	{name: "pattern that matches nothing", edit: [2]string{"[fc]", "[\"fc/*.grib\"]"}, args: checkIt, code: exit.NotYet, fix: "fc/*.nc"},
	{name: "misspelled folder", edit: [2]string{"[fc]", "[fcc]"}, args: checkIt, code: exit.NotYet, fix: "fc"},
	{name: "folder for a configuration", args: "ensemble check -q -c .", code: exit.Usage, fix: "train.yaml"},
	{name: "more members than there are", edit: [2]string{"{use: 3, full: 5}", "{use: 3, full: 10}"}, args: checkIt, code: exit.No, fix: "5"},
	{name: "five of three members", edit: [2]string{"{use: 3, full: 5}", "{use: 5, full: 3}"}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "write `use: 3`"},
	{name: "forgotten analyses", edit: [2]string{"  analyses: [an]\n", ""}, args: "ensemble config check -c train.yaml", code: exit.Usage, fix: "analyses"},
	{name: "test dates among the training dates", edit: [2]string{"from: 2024-01-19", "from: 2024-01-10"}, args: "ensemble train -q -c train.yaml --run-dir runs/a", code: exit.Usage, fix: "`split: {train: {from: "},
	{name: "dates outside of the archive", edit: [2]string{"train: {from: 2024-01-01, to: 2024-01-12}", "train: {from: 2023-01-01, to: 2023-12-12}"}, args: "ensemble train -q -c train.yaml --run-dir runs/a", code: exit.Usage, fix: "`split: {train: {from: "},
	{name: "misspelled command", args: "ensemble trian -q -c train.yaml --run-dir runs/a", code: exit.Usage, fix: "type `ensemble train -q -c train.yaml --run-dir runs/a`"},
	{name: "flag of another program", args: "ensemble train -q -c train.yaml --output runs/a", code: exit.Usage, fix: "type `ensemble train -q -c train.yaml --run-dir runs/a`"},
	{name: "key as a flag", args: "ensemble train -q -c train.yaml --epochs 1 --run-dir runs/a", code: exit.Usage, fix: "--set train.epochs=1"},
	{name: "flag of another command", args: "ensemble check -q -c train.yaml --run-dir runs/a", code: exit.Usage, fix: "type `ensemble check -q -c train.yaml`"},
	{name: "init with --out", args: "ensemble init -q --out train.yaml fc an", code: exit.Usage, fix: "> train.yaml"},
	{name: "one member only", make: func(t *testing.T, dir string) {
		testnetcdf.Write(t, filepath.Join(dir, "fc", "forecasts.nc"), append(testnetcdf.Coordinates(mistakeInits, 8, 8, 24),
			testnetcdf.Variable{Name: "t2m", Dimensions: []string{"init:24", "lat:8", "lon:8"}, Attributes: attributesOf("degC"), Values: ownValues(mistakeInits, 1, 8, 8, 1)})...)
	}, args: "ensemble init -q fc an", code: exit.BadData, fix: "give forecasts of all members", unfixed: "the other members must be given"},
	{name: "analyses on another grid", make: func(t *testing.T, dir string) {
		c := testnetcdf.Coordinates(mistakeInits, 12, 12, 0)[:2]
		time := testnetcdf.Variable{Name: "time", Dimensions: []string{"time:24"}, Attributes: map[string]string{"units": "hours since 2024-01-01", "standard_name": "time"}, Values: testnetcdf.Range(24, 24, mistakeInits)}
		testnetcdf.Write(t, filepath.Join(dir, "an", "analyses.nc"), append(append(c, time),
			testnetcdf.Variable{Name: "t2m", Dimensions: []string{"time:24", "lat:12", "lon:12"}, Attributes: attributesOf("degC"), Values: ownValues(mistakeInits, 1, 12, 12, 0)})...)
	}, args: "ensemble train -q -c train.yaml --run-dir runs/a", code: exit.BadData, fix: "grid"},
	{name: "predict before training", args: "ensemble predict -q --run-dir runs/a --input fc --out products", code: exit.NotYet, fix: "ensemble train"},
	{name: "wrong run directory", make: func(t *testing.T, dir string) {
		if code, message := typeLine(t, dir, "ensemble train -q -c train.yaml --run-dir runs/first"); code != exit.OK {
			t.Fatal(message)
		}
	}, args: "ensemble predict -q --run-dir runs/frist --input fc --out products", code: exit.NotYet, fix: "runs/first"},
	{name: "verify before predict", args: "ensemble verify -q --forecast products --analysis an", code: exit.NotYet, fix: "correct the path", unfixed: "the run directory and the forecasts must be named"},
	{name: "report of what was never trained", args: "ensemble report runs/a", code: exit.NotYet, fix: "ensemble train"},
	{name: "misspelled configuration", args: "ensemble check -q -c trian.yaml", code: exit.Usage, fix: "type `ensemble check -q -c train.yaml`"},
	{name: "an option as the command", args: "ensemble fit -q -c train.yaml --run-dir runs/a", code: exit.Usage, fix: "type `ensemble train -q -c train.yaml --run-dir runs/a`"},
	{name: "configuration of another command", make: func(t *testing.T, dir string) {
		if code, message := typeLine(t, dir, "ensemble train -q -c train.yaml --run-dir runs/a"); code != exit.OK {
			t.Fatal(message)
		}
	}, args: "ensemble predict -q -c train.yaml --run-dir runs/a --input fc --out products", code: exit.Usage, fix: "type `ensemble predict -q --run-dir runs/a --input fc --out products`"},
}
