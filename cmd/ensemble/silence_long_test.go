//go:build long

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// maxSilence is the longest time without output on a terminal.
const maxSilence = 2 * time.Second

// timeOnTerminal runs the program under a pseudo terminal of 80 columns. It returns its output, how long it ran, the
// longest time without output, and the text before it.
func timeOnTerminal(t *testing.T, args ...string) (output string, took, silence time.Duration, before string) {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("skipped: script (util-linux) is not installed")
	}
	words := []string{"stty cols 80; exec", quote(os.Args[0])}
	for _, a := range args {
		words = append(words, quote(a))
	}
	cmd := exec.Command(script, "-qefc", strings.Join(words, " "), "/dev/null")
	cmd.Env = append(os.Environ(), "TERM=xterm", "SHELL=/bin/sh")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	begun := time.Now()
	last := begun
	block := make([]byte, 1<<16)
	for {
		n, err := out.Read(block)
		now := time.Now()
		if gap := now.Sub(last); gap > silence {
			text := all.String()
			silence, before = gap, text[max(0, len(text)-80):]
		}
		last = now
		all.Write(block[:n])
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, all.String())
	}
	return all.String(), time.Since(begun), silence, before
}

// quote quotes a word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// TestLongSilence: on a terminal no command is silent for more than two seconds: training on the demo's data and on a
// larger archive, with all stages; preparing, checking, predicting, verifying and reporting. No line exceeds 80 columns.
func TestLongSilence(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	fields := []string{"--set", "data.forecasts=[" + at("archive/output.pl.2018*") + "]", "--set", "data.analyses=[" + at("archive/era5.pl.*") + "]"}
	ens10 := append([]string{"-c", "../../experiments/ens10/z500.yaml"}, fields...)
	for _, args := range [][]string{
		{"demo", "--out", at("runs")},
		{"data", "synthesize", "ens10", "--out", at("archive"), "--grid", "33x64", "--dates", "2", "--seed", "1"},
		append([]string{"check"}, ens10...),
		append([]string{"data", "prepare", "--out", at("store")}, ens10...),
		append([]string{"train", "--run-dir", at("ens10"), "--set", "train.epochs=2", "--set", "train.warmup=2", "--set", "baselines=[emos,emos_grid,emos_point,mbm,quantile_map]", "--set", "climate.source=members"}, ens10...),
		{"predict", "--run-dir", at("runs/demo"), "--input", at("runs/demo-data/demo_fc_2004*.grib2"), "--out", at("products"), "--products", "mean,spread,members"},
		{"verify", "--forecast", at("products/*/*.nc"), "--analysis", at("runs/demo-data/demo_an_2004.nc"), "--members", at("runs/demo-data/demo_fc_2004*.grib2"), "--run-dir", at("runs/demo"), "--fields", at("fields.nc")},
		{"report", at("ens10")},
	} {
		output, took, silence, before := timeOnTerminal(t, args...)
		t.Logf("%s: %.1f s, longest time without output %.2f s", strings.Join(args[:min(3, len(args))], " "), took.Seconds(), silence.Seconds())
		if silence > maxSilence {
			t.Errorf("%q is silent for %s after %q", args, silence, before)
		}
		if line := tooWide(output, 80); line != "" {
			t.Errorf("%q: more than 80 columns: %q", args, line)
		}
	}
}

// tooWide returns the first line of progress that exceeds a number of columns. Lines that are not replaced, such as
// warnings, may be longer.
func tooWide(output string, columns int) string {
	parts := strings.Split(output, "\r")
	for i, part := range parts {
		line, updated := strings.CutPrefix(part, "\x1b[K")
		for _, code := range []string{"\x1b[1m", "\x1b[0m"} {
			line = strings.ReplaceAll(line, code, "")
		}
		kept := strings.Contains(line, "\n") || i+1 < len(parts) && strings.HasPrefix(parts[i+1], "\n") // a terminal ends lines with \r\n
		if n := len([]rune(line)); updated && !kept && n > columns {
			return fmt.Sprintf("%d: %s", n, line)
		}
	}
	return ""
}
