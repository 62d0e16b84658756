package benchmarks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// script writes a program for the shell.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// compare runs compare.py.
func compare(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command(testdata.Python(t), append([]string{"compare.py"}, args...)...)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	return out.String(), log.String(), err
}

// TestCompare plays all sides by scripts: turns alternate, later rounds leave out
// slow and wrong forms but not published ones, the ratios are those of the
// medians, and float32 is not compared with int8.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	ours := script(t, dir, "ensemble", `echo "ours $*" >> '`+log+`'
n=$(grep -c '^ours' '`+log+`')
e='"relative_gradient_error":2e-7,"gradient_case":{"model":"unet3d","base":4,"crop":"32x64","batch":1,"depth":2},'
case "$*" in *"gradient off"*) e= ;; esac
echo "{\"machine\":{\"cpu\":\"CPU of the test\",\"cores\":2,\"go\":\"go1\",\"onednn\":\"2\"},\"results\":[{\"model\":\"unet3d\",\"base\":8,\"crop\":\"32x64\",\"batch\":1,\"depth\":2,\"threads\":1,$e\"train_ms_median\":${n}0,\"predict_ms_median\":5,\"peak_mib\":100,\"predict_peak_mib\":80,\"gflops\":50,\"peak_fraction\":0.5}]}"
`)
	python := script(t, dir, "python", `[ "$1" = -c ] && exit 0
echo "theirs $*" >> '`+log+`'
line() { echo "{\"form\":\"$1\",\"torch\":\"2.0\",\"wait_policy\":\"passive\",\"train_ms_median\":$2,\"predict_ms_median\":$3,\"peak_mib\":$4,\"predict_peak_mib\":$4,\"relative_gradient_error\":$5,\"gradient_case\":{\"base\":4,\"crop\":32,\"batch\":1,\"depth\":2}}"; }
for last; do :; done
case "$1 $last" in
  "peer.py all") last=d3,fold,slow,wrong,nan,broken ;;
  "runtime.py all") last=runtime,runtime_int8 ;;
esac
for f in $(echo $last | tr , ' '); do
  case "$1 $f" in "peer.py runtime"|"runtime.py d3"|"runtime.py fold") continue ;; esac
  case $f in
    runtime) echo '{"form":"runtime","runtime":"Runtime 7","predict_ms_median":20,"predict_peak_mib":90,"relative_output_error":3e-7}' ;;
    runtime_int8) echo '{"form":"runtime_int8","runtime":"Runtime 7","predict_ms_median":1,"predict_peak_mib":70,"relative_output_error":0.01}' ;;
    d3) line d3 200 100 400 1e-7 ;;
    fold) line fold 60 25 300 2e-7 ;;
    slow) line slow 90 60 300 2e-7 ;;
    wrong) line wrong 1 1 300 7 ;;
    nan) line nan 1 1 300 null ;;
    broken) echo '{"form":"broken","error":"no such | thing"}' ;;
  esac
done
:
`)
	out := filepath.Join(dir, "out.md")
	got, progress, err := compare(t, "--ensemble", ours, "--python", python, "--scripts", "peer.py,runtime.py", "--base", "8", "--crop", "32x64", "--threads", "1", "--seconds", "0", "--others", "1", "--out", out)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(calls)), "\n")
	if len(lines) != 9 {
		t.Fatalf("%d calls, want 9:\n%s", len(lines), calls)
	}
	for i, want := range []struct{ side, ends string }{
		{"ours", "--seconds 0"}, {"theirs peer.py", "--gradient 4,32x64,1,2 --forms all"}, {"theirs runtime.py", "--forms all"},
		{"ours", "--gradient off"}, {"theirs peer.py", "--gradient off --forms d3,fold,runtime"}, {"theirs runtime.py", "--forms d3,fold,runtime"},
		{"ours", "--gradient off"}, {"theirs", "--forms d3,fold,runtime"}, {"theirs", "--forms d3,fold,runtime"},
	} {
		if !strings.HasPrefix(lines[i], want.side) || !strings.HasSuffix(lines[i], want.ends) {
			t.Errorf("call %d is %q, want %s … %s", i, lines[i], want.side, want.ends)
		}
	}
	for _, want := range []string{
		"CPU of the test, 2 cores", "PyTorch 2.0, Runtime 7,",
		"| unet3d base 8, 32x64, batch 1, depth 2 | 1 | 20.0 [10.0–30.0] | 50 (0.50) | 200 [200–200] (d3) | 10.00 | fold | 60.0 [60.0–60.0] | 3.00 | 100 | 300 | 0.33 | 2.0e-07 | 2.0e-07 |",
		"| 5.00 [5.00–5.00] | 0 (0.00) | 100 [100–100] (d3) | 20.00 | runtime | 20.0 [20.0–20.0] | 4.00 | 80 | 90 | 0.89 | 2.0e-07 | 3.0e-07 |",
		"| runtime_int8 |  | 1.00 | 70 | 1.0e-02 | 1 |",
		"| wrong | 1.00 | 1.00 | 300 | 7.0e+00 (wrong) | 1 |",
		"| nan | 1.00 | 1.00 | 300 | not finite (wrong) | 1 |",
		"| broken | does not run: no such / thing |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != got {
		t.Errorf("the file differs from what was printed: %v", err)
	}
}

// TestCompareOnBusyProcessors: runs beside other programs are repeated, a few times.
func TestCompareOnBusyProcessors(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	ours := script(t, dir, "ensemble", "echo >> '"+log+"'\n"+`echo '{"machine":{"cpu":"x","cores":2,"go":"go1","onednn":"2"},"results":[{"model":"unet3d","base":8,"crop":"32","batch":1,"depth":2,"threads":1,"train_ms_median":1,"predict_ms_median":1,"peak_mib":1,"predict_peak_mib":1}]}'`+"\n")
	python := script(t, dir, "python", "[ \"$1\" = -c ] && exit 0\n"+`echo '{"form":"d3","torch":"2","train_ms_median":2,"predict_ms_median":2,"peak_mib":1,"predict_peak_mib":1,"relative_gradient_error":0}'`+"\n")
	// No share of the processors is below -1, so every run counts as disturbed.
	got, progress, err := compare(t, "--ensemble", ours, "--python", python, "--scripts", "peer.py", "--base", "8", "--crop", "32", "--threads", "1", "--rounds", "1", "--others", "-1")
	if err != nil || !strings.Contains(progress, "other programs used") || !strings.Contains(got, "Others used ") {
		t.Fatalf("%v\n%s\n%s", err, progress, got)
	}
	if calls, err := os.ReadFile(log); err != nil || len(calls) != 4 {
		t.Errorf("%d runs, want 4 (%v)", len(calls), err)
	}
}

// TestCompareSkips: without PyTorch the program says so and does nothing.
func TestCompareSkips(t *testing.T) {
	for name, python := range map[string]string{
		"no torch":  script(t, t.TempDir(), "python", "echo \"No module named 'torch'\" >&2; exit 1\n"),
		"no python": filepath.Join(t.TempDir(), "python3"),
	} {
		got, log, err := compare(t, "--ensemble", "/nonexistent", "--python", python)
		if err != nil || got != "" || !strings.Contains(log, "skipped: "+python+" has no PyTorch") {
			t.Errorf("%s: error %v, %q, %q", name, err, got, log)
		}
	}
}

// TestCompareFailures: what a side answers when it fails reaches the user.
func TestCompareFailures(t *testing.T) {
	dir := t.TempDir()
	good := script(t, dir, "good", `echo '{"machine":{},"results":[{"train_ms_median":1,"predict_ms_median":1}]}'`+"\n")
	bad := script(t, dir, "bad", "echo 'error[E064]: no' >&2; exit 64\n")
	none := script(t, dir, "none", `echo '{"results":[]}'`+"\n")
	torch := func(name, answer string) string { // a Python with PyTorch that answers so
		return script(t, dir, name, "[ \"$1\" = -c ] && exit 0\n"+answer)
	}
	for _, c := range []struct{ ensemble, python, want string }{
		{bad, torch("fine", "exit 0\n"), "error[E064]: no"},
		{none, torch("fine", "exit 0\n"), "gave 0 results"},
		{good, torch("fails", "echo oops >&2; exit 3\n"), "oops"},
		{good, torch("broken", `echo '{"form":"d3","error":"x"}'`+"\n"), "no form of the peers ran"},
	} {
		if _, log, err := compare(t, "--ensemble", c.ensemble, "--python", c.python, "--base", "8", "--crop", "32", "--threads", "1", "--rounds", "1"); err == nil || !strings.Contains(log, c.want) {
			t.Errorf("error %v, %q, want %q", err, log, c.want)
		}
	}
}
