package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// ownDisk returns the command line that runs a program with a small disk of its own mounted on a folder. It skips
// the test where the system does not allow mounts.
func ownDisk(t *testing.T, dir, options string) []string {
	t.Helper()
	words := []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mount -t tmpfs -o "$1" none "$2" && shift 2 && exec "$@"`, "sh", options, dir}
	if out, err := exec.Command(words[0], append(words[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("skipped: no file system can be mounted here: %v %s", err, out)
	}
	return words
}

// fill fills the disk that a service has on a folder, and returns the path of the file that does.
func (s *resident) fill(dir string) string {
	s.Helper()
	filler := filepath.Join(fmt.Sprintf("/proc/%d/root%s", s.cmd.Process.Pid, dir), "filler") // the path in the service's mount namespace
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o644); !errors.Is(err, syscall.ENOSPC) {
		s.Fatalf("the disk is not full: %v", err)
	}
	return filler
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout after %s: %s", patience, what)
		}
	}
}

// TestServeOutlives: a service keeps running when the disk of its products is full, when its input disappears and
// returns, and when the reader of its messages ends. Issued products are kept, and later ones are issued.
func TestServeOutlives(t *testing.T) {
	f := faulty(t)
	in, out := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out")
	for _, dir := range []string{in, out} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	disk := ownDisk(t, out, "size=1m")
	file := f.put("serve.yaml", fmt.Appendf(nil, "version: 1\nrun_dir: %s\ninput: [\"%s/*.grib2\"]\nout: %s\nmembers: {poll: 0.03s}\nserve: {retry_delay: 0.02s}\n", f.run, in, out))
	days := []time.Time{lastDay, lastDay.AddDate(0, 0, 1), lastDay.AddDate(0, 0, 2), lastDay.AddDate(0, 0, 3), lastDay.AddDate(0, 0, -1)}
	product := func(i int) string { return "/products/" + name(days[i]) + "/manifest.json" }
	f.put("in/0.grib2", join(cycle(days[0])...))
	s := f.serveBy(disk, "-c", file)
	s.awaitLog(`"msg":"issued"`, 1)
	_, first := s.get(product(0))

	// The disk is full; later there is space again.
	filler := s.fill(out)
	there := filepath.Dir(filler)
	f.put("in/1.grib2", join(cycle(days[1])...))
	s.awaitLog(`"code":74`, 7) // retried without end
	if r, _ := s.get(product(1)); r.StatusCode != 404 {
		t.Errorf("on a full disk: %s", r.Status)
	}
	if text := s.text(); !strings.Contains(text, "no space left") {
		t.Errorf("the log does not report the full disk:\n%s", text)
	}
	if left, _ := filepath.Glob(filepath.Join(there, ".*partial*")); left != nil {
		t.Errorf("left: %q", left)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.awaitLog(`"msg":"issued"`, 2)

	// The disk is read-only for a while.
	remount := func(mode string) {
		t.Helper()
		eventually(t, "remount "+mode, func() bool { // busy while the service has a file open for writing
			return exec.Command("nsenter", "-t", fmt.Sprint(s.cmd.Process.Pid), "-U", "-m", "--preserve-credentials", "mount", "-o", "remount,"+mode, out).Run() == nil
		})
	}
	remount("ro")
	f.put("in/4.grib2", join(cycle(days[4])...))
	s.awaitLog(`"code":73`, 2)
	remount("rw")
	eventually(t, "the init of the read-only disk", func() bool { r, _ := s.get(product(4)); return r.StatusCode == 200 })

	// The input disappears, and returns with more files.
	if err := os.Rename(in, in+".away"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no inits in the input", func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(string(body), `ensemble_init_states{state="issued"} 0`)
	})
	for path, want := range map[string]int{"/healthz": 200, product(0): 200, product(1): 200} {
		if r, _ := s.get(path); r.StatusCode != want {
			t.Errorf("without an input %s: %s", path, r.Status)
		}
	}
	f.put("in.away/2.grib2", join(cycle(days[2])...))
	if err := os.Rename(in+".away", in); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the third init", func() bool { r, _ := s.get(product(2)); return r.StatusCode == 200 })
	if _, again := s.get(product(0)); string(again) != string(first) {
		t.Error("the first init was recomputed")
	}

	// The reader of its messages has ended.
	if err := s.messages.Close(); err != nil {
		t.Fatal(err)
	}
	f.put("in/3.grib2", join(cycle(days[3])...))
	eventually(t, "the fourth init", func() bool { r, _ := s.get(product(3)); return r.StatusCode == 200 })
	if code := s.stop(syscall.SIGTERM); code != exit.SaveAndStop {
		t.Errorf("ended with %d, want 75", code)
	}
}

// TestFullDiskOfProducts: on a disk that fills up at any moment, and on a read-only one, a prediction fails with
// an error that names the cause. Existing products are unchanged and recognised, and no partial files are left.
func TestFullDiskOfProducts(t *testing.T) {
	f := faulty(t)
	out := filepath.Join(f.dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	old, next := f.put("old.grib2", join(cycle(lastDay)...)), f.put("next.grib2", join(cycle(lastDay.AddDate(0, 0, 1))...))
	line := func(input string) []string {
		return []string{"predict", "--run-dir", f.run, "--out", out, "--threads", "1", "--progress", "none", "--input", input}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	kept := filepath.Join(f.dir, "kept")
	for name, value := range map[string]string{"OUT": out, "KEPT": kept, "OLD": old, "NEXT": next} { // used by the scripts
		t.Setenv(name, value)
	}
	const sums = `cd "$OUT" && find . -type f | sort | xargs sha256sum`
	list := func() string {
		t.Helper()
		text, err := exec.CommandContext(t.Context(), "sh", "-c", sums).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	f.expect(exit.OK, nil, line(old)...)
	before := list()
	if err := os.CopyFS(kept, os.DirFS(out)); err != nil {
		t.Fatal(err)
	}
	f.expect(exit.OK, nil, line(next)...)
	after := list()

	disk := ownDisk(t, out, "size=1m")
	predict := "'" + strings.Join(append([]string{os.Args[0]}, line("")[:10]...), "' '") + "'"
	// Scripts print == before the values to compare, on a disk that holds the first product.
	run := func(script string) []string {
		t.Helper()
		words := append(slices.Clone(disk), "sh", "-c", `cp -r "$KEPT"/* "$OUT"; predict() { `+predict+` "$1"; }; `+script)
		text, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, text)
		}
		return strings.Split(string(text), "==\n")[1:]
	}
	failed := 0
	for _, left := range []int{0, 3} { // free pages besides the first product
		got := run(fmt.Sprintf(`used=$(df --output=used "$OUT" | tail -1); mount -o remount,size=$((used+4*%d))k "$OUT"; echo ==; predict "$NEXT"; echo code $?; echo ==; %s; echo ==; mount -o remount,size=1m "$OUT"; predict "$NEXT"; echo ==; %s`,
			left, sums, sums))
		if len(got) != 4 {
			t.Fatalf("%d pages: %q", left, got)
		}
		if !strings.Contains(got[0], "code 0") {
			failed++
			if !strings.Contains(got[0], "code 74") || !strings.Contains(got[0], "no space left") || strings.Contains(got[0], "panic") {
				t.Errorf("%d pages: %s", left, got[0])
			}
			if got[1] != before {
				t.Errorf("%d pages: the folder has\n%swant\n%s", left, got[1], before)
			}
		}
		if got[3] != after {
			t.Errorf("%d pages, and then more space: the folder has\n%swant\n%s%s", left, got[3], after, got[2])
		}
	}
	if failed != 2 {
		t.Errorf("%d of 2 disks were full", failed)
	}
	got := run(`mount -o remount,ro "$OUT"; echo ==; predict "$NEXT"; echo code $?; echo ==; predict "$OLD"; echo code $?; echo ==; ` + sums)
	if len(got) != 3 || !strings.Contains(got[0], "code 73") || !strings.Contains(got[0], "read-only") || !strings.Contains(got[1], "code 0") || !strings.Contains(got[1], "1 of them already") || got[2] != before {
		t.Errorf("read only: %q", got)
	}
}
