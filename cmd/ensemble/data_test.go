package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo"
	rundemo "github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// archive is a small archive of 10 inits of 4 members, and its configuration.
func archive(t *testing.T) (config string) {
	t.Helper()
	testdecoder.Path(t)
	root := t.TempDir()
	o := rundemo.Options{Root: root, DataOnly: true, Formats: demo.GRIB2}
	o.Data.Inits, o.Data.Members, o.Data.Interval = 10, 4, 48*time.Hour
	if _, err := rundemo.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(root, "demo-data", "small.yaml")
	text := `version: 1
data:
  forecasts: [demo_fc_*.grib2]
  analyses: [demo_an_*.nc]
  members: {use: 3, full: 4}
  leads: [0h, 24h, 48h]
  target_lead: 48h
  levels: [850hPa, 500hPa]
  variables: [t, gh, u]
  targets: [{variable: t, levels: [850hPa]}]
  split: {fractions: {train: 0.7, validation: 0.1}}
`
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return config
}

// sumsOf returns the content of SHA256SUMS and of store.json.
func sumsOf(t *testing.T, store string) string {
	t.Helper()
	var all []string
	for _, name := range []string{"SHA256SUMS", "store.json"} {
		text, err := os.ReadFile(filepath.Join(store, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "\n")
}

// TestDataPrepare: the program is killed or interrupted at random times. The next run continues, with any number
// of workers and any memory limit, and the bytes at the end are the same.
func TestDataPrepare(t *testing.T) {
	config := archive(t)
	args := func(out string, more ...string) []string {
		return append([]string{"data", "prepare", "-c", config, "--out", out, "--shard-size", "400KiB", "--memory", "8MiB", "--progress", "none"}, more...)
	}
	whole := filepath.Join(t.TempDir(), "store")
	begun := time.Now()
	code, stdout, stderr := call(t, append(args(whole), "--json")...)
	took := time.Since(begun)
	if code != exit.OK {
		t.Fatal(stderr)
	}
	var answer struct {
		Inits, Shards int
		Complete      bool
		Outputs       []string
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || answer.Inits != 10 || answer.Shards < 3 || len(answer.Outputs) != answer.Shards+3 {
		t.Fatalf("%v: %s", err, stdout)
	}
	want := sumsOf(t, whole)
	check := exec.Command("sha256sum", "-c", "--quiet", "SHA256SUMS")
	check.Dir = whole
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v: %s", err, out)
	}
	if code, stdout, _ := call(t, args(whole)...); code != exit.OK || !strings.Contains(stdout, "already complete") {
		t.Errorf("once more: exit %d, %s", code, stdout)
	}

	prepareInterrupted(t, args, want, took, 4, 2)
	if code, stdout, stderr := call(t, "inspect", "--stats", whole); code != exit.OK || !strings.Contains(stdout, "all checksums match") {
		t.Errorf("inspect: exit %d, %s%s", code, stdout, stderr)
	}
}

// prepareInterrupted prepares stores that are killed and stopped at random times, at least the given number of
// times, and resumed. All must have the checksums of an uninterrupted run, whose duration bounds the times.
func prepareInterrupted(t *testing.T, args func(out string, more ...string) []string, want string, took time.Duration, leastKills, leastStops int) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	kills, stops := 0, 0
	for kills < leastKills || stops < leastStops {
		out := filepath.Join(t.TempDir(), "store")
		for try := 0; ; try++ {
			cmd := exec.Command(os.Args[0], args(out, "--workers", fmt.Sprint(1+r.IntN(3)))...)
			var errs strings.Builder
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			signal := syscall.SIGKILL
			if try%3 == 2 {
				signal = syscall.SIGTERM
			}
			// Each attempt runs longer, so that every folder is finished.
			wait := time.Duration(r.Int64N(int64(took)*int64(try+2)/2 + 1))
			timer := time.AfterFunc(wait, func() { cmd.Process.Signal(signal) })
			err := cmd.Wait()
			timer.Stop()
			if err == nil {
				break
			}
			switch state := cmd.ProcessState.Sys().(syscall.WaitStatus); {
			case state.Signaled() && state.Signal() == syscall.SIGKILL:
				kills++
			case exit.Code(state.ExitStatus()) == exit.SaveAndStop && strings.Contains(errs.String(), "run the same command again"):
				stops++
			case state.Signaled() && signal == syscall.SIGTERM: // before it handled signals
				stops++
			default:
				t.Fatalf("%v: %s", err, errs.String())
			}
		}
		if got := sumsOf(t, out); got != want {
			t.Fatalf("after %d kills and %d stops:\n%s\nwant\n%s", kills, stops, got, want)
		}
	}
}

// TestDataRequest: the fields that ENS-10 needs, and one request for each of its files.
func TestDataRequest(t *testing.T) {
	out := filepath.Join(t.TempDir(), "requests")
	code, stdout, stderr := call(t, "data", "request", "ens10", "--out", out, "--disk-gb-s", "2", "--json")
	var answer struct {
		Inits         int
		Fields, Bytes int64
		Stores        []struct {
			Task  string
			Bytes map[string]int64
		}
		Prepare struct {
			ReadS float64 `json:"read_s"`
		}
		Outputs []string
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exit.OK {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	// 52800 messages per init; 2 × 241 files of ERA5 with 5 fields for each of 2100 inits.
	if answer.Inits != 2100 || answer.Fields != 105*52800+2100*5 || answer.Bytes < 2.8e12 || answer.Bytes > 3e12 || len(answer.Outputs) != 2*105+2*241+1 {
		t.Errorf("%d inits, %d fields, %d bytes, %d requests", answer.Inits, answer.Fields, answer.Bytes, len(answer.Outputs))
	}
	if x := answer.Prepare.ReadS; x < 2800 || x > 3000 {
		t.Errorf("reading twice at 2 GB/s takes %g s", x)
	}
	for _, s := range answer.Stores {
		if f32, half := s.Bytes["f32"], s.Bytes["int16"]; f32 < 4*2100*(7*30+1)*361*720 || math.Abs(float64(f32)/float64(half)-2) > 0.02 || half != s.Bytes["bf16"] {
			t.Errorf("store of %s: %v", s.Task, s.Bytes)
		}
	}
	for name, want := range map[string][]string{
		"output.pl.20180104.mars": {"stream   = enfh", "date     = 2018-01-04", "hdate    = 1998-01-04/1999-01-04/", "levelist = 1000/925/850/", "param    = 129.128/130.128/133.128/135.128/155.128/131.128/132.128",
			"number   = 1/to/10", "step     = 0/24/48", "grid     = 0.5/0.5", `target   = "output.pl.20180104"`},
		"output.sfc.20181231.mars": {"levtype  = sfc", "param    = 34.128/136.128/137.128/143.128/151.128/164.128/165.128/166.128/167.128/228.128/235.128"},
		"era5.pl.201801.grib.json": {`"dataset": "reanalysis-era5-pressure-levels"`, "\"2018\"", "\"02\"", "\"geopotential\""},
		"files.tsv":                {"output.sfc.20180101\t6600\t", "output.pl.20180101\t46200\t"},
	} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Error(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("no %q in %s:\n%s", w, name, text)
			}
		}
	}
	if code, stdout, _ := call(t, "data", "request", "ens5-mini"); code != exit.OK || !strings.Contains(stdout, "10.2 GB") || !strings.Contains(stdout, "terms to accept") || strings.Contains(stdout, "training") {
		t.Errorf("exit %d: %s", code, stdout)
	}
	machine := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(machine, []byte("version: 1\nrank: {gflops: 1000, gb_s: 100}\nnetwork: {latency_us: 2, gb_s: 12}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = call(t, "data", "request", "ens10", "-c", "../../experiments/ens10/t2m.yaml", "--machine", machine, "--ranks", "4")
	if code != exit.OK || !strings.Contains(stdout, "4 ranks") || !strings.Contains(stdout, "2100 steps") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

func TestProtocolCommandErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
		code exit.Code
	}{
		{[]string{"request"}, "got 0 protocols", exit.Usage},
		{[]string{"request", "ens1o"}, "did you mean `ens10`?", exit.Usage},
		{[]string{"request", "ens10", "--disk-gb-s", "0"}, "--disk-gb-s", exit.Usage},
		{[]string{"request", "./nowhere.yaml"}, "no such file", exit.Usage},
		{[]string{"synthesize", "ens10"}, "missing --out", exit.Usage},
		{[]string{"synthesize", "ens10", "--out", "o", "--years", "98"}, "such as 1998-2001", exit.Usage},
		{[]string{"synthesize", "ens10", "--out", "o", "--years", "1998-2018"}, "it has 1998 to 2017", exit.Usage},
		{[]string{"synthesize", "ens10", "--out", "o", "--grid", "9by16"}, "--grid", exit.Usage},
		{[]string{"synthesize", "ens10", "--out", "o", "--grid", "722x1440"}, "361×720", exit.Usage},
		{[]string{"synthesize", "ens10", "--out", ".", "--years", "1998-1998", "--dates", "1"}, "no synthetic archive", exit.CannotWrite},
		{[]string{"prepare", "-c", "../../experiments/ens10/z500.yaml", "--out", "o", "--protocol", "ens"}, "unknown protocol", exit.Usage},
	} {
		if code, _, stderr := call(t, append([]string{"data"}, c.args...)...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %q; want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if _, err := os.Stat("o"); err == nil {
		t.Error("a folder was made")
	}
}

func TestDataPrepareErrors(t *testing.T) {
	config := filepath.Join(t.TempDir(), "x.yaml")
	text := "version: 1\ndata: {forecasts: [f], analyses: [a], leads: [0h, 48h], target_lead: 48h, levels: [850hPa], variables: [t], targets: [{variable: t, levels: [850hPa]}]}\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
		code exit.Code
	}{
		{nil, "missing --config", exit.Usage},
		{[]string{"-c", config}, "missing --out", exit.Usage},
		{[]string{"-c", config, "--out", "o", "--storage", "int61"}, "did you mean `int16`?", exit.Usage},
		{[]string{"-c", config, "--out", "o", "--memory", "2"}, "--memory", exit.Usage},
		{[]string{"-c", config, "--out", "o"}, "data.forecasts", exit.NotYet},
	} {
		code, _, stderr := call(t, append([]string{"data", "prepare"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %q; want %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if _, err := os.Stat("o"); err == nil {
		t.Error("a folder was made")
	}
}
