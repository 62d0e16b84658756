package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// contents reads all files of a folder, except the record.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != optimumRecord {
			out[e.Name()] = string(text)
		}
	}
	return out
}

// Complete years are kept, incomplete ones are written again to the same bytes, those of another version are replaced;
// the cost is shown before work begins, and not if there is none.
func TestOptimumIsResumed(t *testing.T) {
	testdecoder.Path(t)
	dir := filepath.Join(t.TempDir(), "data")
	var notices []string
	o := OptimumOptions{Version: "1", Notice: func(s string) { notices = append(notices, s) },
		Data: demo.Optimum{Years: 2, TestYears: 1, Interval: 366 * 24 * time.Hour, Members: 2, OracleMembers: 2, Leads: []ensemble.Lead{0}, Threads: 1}}
	run := func(version string) (shown string) {
		t.Helper()
		notices, o.Version = nil, version
		if err := Optimum(t.Context(), o, dir); err != nil {
			t.Fatal(err)
		}
		return strings.Join(notices, "\n")
	}
	if s := run("1"); !strings.Contains(s, "2 years (2 initialisations, 1 with an oracle of 2 members)") {
		t.Errorf("shown: %s", s)
	}
	first := contents(t, dir)
	if len(first) != 2+1+2 {
		t.Fatalf("%d files", len(first))
	}
	if s := run("1"); s != "" {
		t.Errorf("complete data are generated again: %s", s)
	}
	if err := os.Remove(filepath.Join(dir, "optimum_or_2002010200.grib2")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "optimum_fc_2001010100.grib2"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Data.Threads = 2
	if s := run("1"); !strings.Contains(s, "1 year (1 initialisation, 1 with") {
		t.Errorf("shown after a file was lost: %s", s)
	}
	again := contents(t, dir)
	for name, text := range first {
		if name == "optimum_fc_2001010100.grib2" {
			text = "kept"
		}
		if again[name] != text {
			t.Errorf("%s: other bytes", name)
		}
	}
	o.Data.Years = 1
	if run("2"); len(contents(t, dir)) != 1+1+1 {
		t.Errorf("files of other settings are left: %d", len(contents(t, dir)))
	}
}

func TestOptimumRefuses(t *testing.T) {
	o := OptimumOptions{Data: demo.Optimum{Interval: 24 * time.Hour}}
	if err := Optimum(t.Context(), o, t.TempDir()); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "different analyses of one time") {
		t.Errorf("got %v", err)
	}
	testdecoder.Path(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Optimum(ctx, OptimumOptions{}, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
