package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	rundemo "github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

const quickstartPage = "../../docs/quickstart.md"

// smallData are the demo's data with few inits in each period.
func smallData(t *testing.T) string {
	return demoData(t, initSeries{firstDay, 4, 7}, initSeries{time.Date(2003, 10, 6, 0, 0, 0, 0, time.UTC), 2, 7}, initSeries{time.Date(2004, 1, 5, 0, 0, 0, 0, time.UTC), 1, 7})
}

// initSeries are initialisations in steps of days.
type initSeries struct {
	first       time.Time
	inits, days int
}

// demoData makes the demo's data for initialisations, and returns their folder.
func demoData(t *testing.T, all ...initSeries) string {
	t.Helper()
	o := rundemo.Options{Root: t.TempDir(), DataOnly: true}
	for _, s := range all {
		for i := range s.inits {
			o.Data.InitTimes = append(o.Data.InitTimes, s.first.AddDate(0, 0, s.days*i))
		}
	}
	r, err := rundemo.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r.DataDir
}

// TestQuickstart runs the quickstart with the data of few inits and one small network. It skips the first and the
// last step, self-test and the figures of the report, which take eight seconds each. TestLongQuickstart runs the
// unchanged page.
func TestQuickstart(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	wrapper := fmt.Sprintf(`#!/bin/sh
case $1 in
demo) mkdir -p runs && exec cp -r '%[2]s' runs/demo-data ;;
train) exec '%[1]s' "$@" --set model.base=2 --set train.networks=1 --set train.threads=1 --set train.warmup=1 ;;
*) exec '%[1]s' "$@" ;;
esac
`, program, smallData(t))
	if err := os.WriteFile(filepath.Join(programs, "ensemble"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	all := commandBlocks(t, quickstartPage)
	last := len(all) - 1
	if len(all) < 9 || all[0].commands != "ensemble self-test\n" || all[last].commands != "ensemble report runs/quickstart\n" {
		t.Fatalf("%s: %d blocks of commands, the first %q, the last %q", quickstartPage, len(all), all[0].commands, all[last].commands)
	}
	follow(t, quickstartPage, all[1:last], programs, true)
}
