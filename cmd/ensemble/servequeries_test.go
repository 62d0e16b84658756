package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// queriedInit is the initialisation of the test.
var queriedInit = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// distributionRun is a training whose model has products of all kinds, and the data of queriedInit.
func distributionRun(t *testing.T) (f *trial, data string) {
	t.Helper()
	testdecoder.Path(t)
	f = &trial{T: t, dir: t.TempDir()}
	f.run = filepath.Join(f.dir, "run")
	data = demoData(t, initSeries{time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), 14, 6}, initSeries{time.Date(2025, 9, 15, 0, 0, 0, 0, time.UTC), 4, 6}, initSeries{queriedInit, 1, 1})
	f.config = f.put("train.yaml", fmt.Appendf(nil, `version: 1
data:
  forecasts: [%[1]s/demo_fc_*.grib2]
  analyses: [%[1]s/demo_an_*.nc]
  members: {use: 5, full: 10}
  leads: [0h, 24h, 48h]
  target_lead: 48h
  levels: [850hPa, 500hPa]
  variables: [t]
  targets: [{variable: t, levels: [850hPa, 500hPa]}]
  split:
    train: {from: 2025-01-01, to: 2025-08-31}
    validation: {from: 2025-09-01, to: 2025-12-25}
    test: {from: 2026-01-01, to: 2026-12-31}
model: {base: 2, stages: 1}
train: {epochs: 1, threads: 1, networks: 1}
`, data))
	f.expect(exit.OK, nil, "train", "-c", f.config, "--run-dir", f.run, "--progress", "none")
	return f, data
}

// TestServeQueries: queries of a service return the values of the files that it issued, and the commands of
// docs/operations.md work as printed.
func TestServeQueries(t *testing.T) {
	f, data := distributionRun(t)
	out := filepath.Join(f.dir, "out")
	file := f.put("serve.yaml", fmt.Appendf(nil, `version: 1
run_dir: %s
input: ["%s"]
out: %s
products: [mean, spread, quantiles, probabilities, members]
quantiles: [0.1, 0.9]
probabilities: ["t<280"]
members: {poll: 0.03s}
serve: {queries: {max_values: 20000, timeout: 1m, concurrent: 1}}
`, f.run, filepath.Join(data, "demo_fc_2026*.grib2"), out))
	s := f.serve("-c", file)
	s.awaitLog(`"msg":"issued"`, 1)

	files, err := filepath.Glob(filepath.Join(out, name(queriedInit), "*.nc"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	opened, err := fio.Open(t.Context(), files, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	collections := map[product.Kind]string{product.Mean: "mean", product.Spread: "spread", product.Quantile: "quantiles", product.Probability: "probabilities", product.Member: "members"}
	entries, seen := opened.Catalogue().Entries, map[string]bool{}
	err = opened.Read(t.Context(), entries, func(i int, field *ensemble.Field) error {
		e := entries[i]
		collection := collections[product.KindOf(e)]
		seen[collection] = true
		for k := i; k < len(field.Values); k += 211 {
			lat, lon := field.Grid.LatAt(k/field.Grid.NX, k%field.Grid.NX), field.Grid.LonAt(k/field.Grid.NX, k%field.Grid.NX)
			d, _ := product.Field{Variable: e.Variable, Kind: product.KindOf(e), Below: e.QuantileProbability, Event: e.Event, Member: e.Member}.Describe()
			if lon > 180 {
				lon -= 360
			}
			path := fmt.Sprintf("/edr/collections/%s/position?coords=%s&z=%g&parameter-name=%s", collection, url.QueryEscape(fmt.Sprintf("POINT(%g %g)", lon, lat)), e.Level.Value/100, d.Name)
			resp, body := s.get(path)
			var answer struct {
				Ranges map[string]struct{ Values []float32 }
			}
			if err := json.Unmarshal(body, &answer); err != nil || resp.StatusCode != 200 || len(answer.Ranges[d.Name].Values) != 1 || answer.Ranges[d.Name].Values[0] != field.Values[k] {
				t.Errorf("%s: %s %s, want %v", path, resp.Status, body, field.Values[k])
			}
		}
		return nil
	})
	if err != nil || len(seen) != len(collections) {
		t.Fatal("collections ", seen, err)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("skipped: no curl in PATH for the commands of the page")
	}
	ran := 0
	for _, b := range blocks(t, operationsPage) {
		if !strings.Contains(b.exempt, "TestServeQueries") {
			continue
		}
		ran++
		cmd := exec.Command("bash", "-euc", strings.ReplaceAll(b.commands, "http://127.0.0.1:8642", s.url))
		cmd.Dir = t.TempDir()
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s\n%s", operationsPage, b.line, err, b.commands, text)
		}
	}
	if ran != 2 {
		t.Errorf("%d blocks of commands were run, want 2", ran)
	}
}
