package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// archive is a small archive of 10 starts of 4 members, and a configuration of it.
func archive(t *testing.T) (config string) {
	t.Helper()
	testdecoder.Path(t)
	root := t.TempDir()
	o := run.DemoOptions{Root: root, DataOnly: true, Formats: run.DemoGRIB2}
	o.Data.Starts, o.Data.Members, o.Data.Every = 10, 4, 48*time.Hour
	if _, err := run.Demo(context.Background(), o); err != nil {
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

// sumsOf is the content of SHA256SUMS and of store.json.
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

// TestDataPrepare: the program, killed at random times or asked to stop, goes on when it
// is given again, whatever its workers and memory, and ends with the same bytes.
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
		Starts, Shards int
		Complete       bool
		Outputs        []string
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || answer.Starts != 10 || answer.Shards < 3 || len(answer.Outputs) != answer.Shards+3 {
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

	r := rand.New(rand.NewPCG(3, 4))
	kills, stops := 0, 0
	for kills < 8 || stops < 4 {
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
			// Longer from try to try, so that each folder comes to an end.
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
			case state.Signaled() && signal == syscall.SIGTERM: // before it watched signals
				stops++
			default:
				t.Fatalf("%v: %s", err, errs.String())
			}
		}
		if got := sumsOf(t, out); got != want {
			t.Fatalf("after %d kills and %d stops:\n%s\nwant\n%s", kills, stops, got, want)
		}
	}
	if code, stdout, stderr := call(t, "inspect", "--stats", whole); code != exit.OK || !strings.Contains(stdout, "all checksums are right") {
		t.Errorf("inspect: exit %d, %s%s", code, stdout, stderr)
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
