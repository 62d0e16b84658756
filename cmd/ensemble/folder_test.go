package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// TestFolderOfMembers: input is a folder where members arrive in any order, as copies that are renamed when
// complete, next to unrelated files. The products equal those of a file pattern.
func TestFolderOfMembers(t *testing.T) {
	f := faulty(t)
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	in, out, log := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out"), filepath.Join(f.dir, "log")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	// Products record their command line, so both runs use the same one.
	config := func(input string) {
		f.put("predict.yaml", fmt.Appendf(nil, "version: 1\nrun_dir: %s\ninput: [%q]\nout: %s\nmembers: {wait: 10m, poll: 0.03s}\n", f.run, input, out))
	}
	predict := func(words ...string) map[string]string {
		t.Helper()
		f.expect(exit.OK, append(words, "1 initialisation,"), "predict", "-v", "--log-file", log, "-c", filepath.Join(f.dir, "predict.yaml"), "--threads", "1", "--progress", "none")
		made := tree(t, out)
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		return made
	}
	const seed = 7
	order := rand.New(rand.NewPCG(seed, seed)).Perm(4)
	arriving := make(chan error, 1)
	go func() {
		arriving <- func() error {
			logged(log, "no input in the directory")
			for i, m := range order {
				text := join(without(cycle(lastDay), func(x testgrib.Message) bool { return x.Member != m })...)
				name := filepath.Join(in, fmt.Sprintf("fc_%d.grib2", m))
				partial := []string{name + ".part", filepath.Join(in, fmt.Sprintf(".fc_%d.grib2.Xa8%d", m, i))}[i%2]
				for _, part := range [][]byte{text[:1000], text} { // the first part ends inside a message, the second is complete
					if err := os.WriteFile(partial, part, 0o644); err != nil {
						return err
					}
					time.Sleep(50 * time.Millisecond)
				}
				if err := os.WriteFile(name+".idx", []byte("1:0:d=2001100800:TMP:850 mb"), 0o644); err != nil {
					return err
				}
				if err := os.Rename(partial, name); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	config(in)
	got := predict("no input in the directory")
	if err := <-arriving; err != nil {
		t.Fatal(err)
	}
	// Neither the incomplete copy of another member nor index files delay the prediction.
	f.put("in/fc_9.grib2.part", []byte("GRIB"))
	f.put("in/README", []byte("members in GRIB"))
	config(filepath.Join(in, "*.grib2"))
	want := predict()
	if len(want) < 3 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("by the folder %v\nby the pattern %v", got, want)
	}
	config(in + "/")
	if got = predict("file ignored", "README"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("again by the folder %v\nby the pattern %v", got, want)
	}

	// The other commands that read input accept the same files.
	f.expect(exit.OK, []string{"4 files,", "unrelated files:", "fc_9.grib2.part: its name marks an incomplete file"}, "inspect", in)
	f.check(exit.OK, []string{"4 files"}, in, "--expect", "members=3+control")
}

// TestFolderOfStarts: inits arrive in a folder. A complete one is predicted while files of the next arrive and one
// of the previous is damaged. The error for an incomplete init names the missing fields.
func TestFolderOfStarts(t *testing.T) {
	f := faulty(t)
	in := filepath.Join(f.dir, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	before, next := lastDay.AddDate(0, 0, -1), lastDay.AddDate(0, 0, 1)
	whole := f.put("in/b.grib2", join(cycle(lastDay)...))
	damaged := f.put("in/a.grib2", join(cycle(before)...)[:5000])
	coming := f.put("in/c.grib2", join(cycle(next)...)[:5000])
	stopTouching := keepTouching(t, coming)
	of := func(day time.Time) []string { return append(slowPolling("+10m"), "--init", day.Format("2006010215")) }
	begin := time.Now()
	out := f.predict(exit.OK, []string{"1 initialisation,", "ignored, as the other files contain all expected fields: " + damaged, coming + ": it is still being written"}, append(of(lastDay), in)...)
	if d := time.Since(begin); d > 5*time.Minute {
		t.Errorf("waited %s for files of other inits", d)
	}
	f.made(out, "ok", "0 1 2", "")
	part := slowPolling("+0.5s", "--init", next.Format("2006010215"), in)
	f.predict(exit.NotYet, []string{"not complete at the deadline", coming}, part...)
	stopTouching()
	// Without --init all inits are requested, and one of them is damaged.
	f.predict(exit.BadData, []string{damaged}, fastPolling("+0.3s", whole, damaged)...)
}

// TestFolderWithoutInput: folders without any input.
func TestFolderWithoutInput(t *testing.T) {
	f := faulty(t)
	empty := filepath.Join(f.dir, "empty")
	if err := os.MkdirAll(filepath.Join(empty, ".hidden"), 0o755); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(f.dir, "none")
	f.predict(exit.NotYet, []string{"no input in the directory", empty, ".hidden (it is hidden)", "fix: wait until"}, empty)
	f.predict(exit.NotYet, []string{"no such file", none}, none)
	f.predict(exit.NotYet, []string{"its directory cannot be opened"}, none+"/*.grib2")
	begin := time.Now()
	f.predict(exit.NotYet, []string{"waiting until", "no input in the directory"}, fastPolling("+0.3s", empty)...)
	if d := time.Since(begin); d < 300*time.Millisecond {
		t.Errorf("did not wait: %s", d)
	}
	for _, deadline := range [][]string{nil, fastPolling("+0.1s")} { // a missing initialisation; the error lists those in the input
		f.predict(exit.NotYet, []string{"the initialisation is not in the input", "at: 1999-01-01T00:00Z", "why: the input has " + lastDay.Format("2006-01-02T15:04Z"), "fix: add its files"},
			slices.Concat(deadline, []string{"--init", "1999010100", f.put("one.grib2", join(cycle(lastDay)...))})...)
	}
	f.expect(exit.CannotWrite, []string{"cannot create output", "one.grib2", "why: not a directory"}, "predict", "--run-dir", f.run, "--input", filepath.Join(f.dir, "one.grib2"), "--out", filepath.Join(f.dir, "one.grib2"))
	f.expect(exit.NotYet, []string{"no input in the directory"}, "inspect", empty)
	f.expect(exit.NotYet, []string{`"exit_code":66`, `"ignored_files":[{"file":"` + empty}, "inspect", "--json", empty)
	f.expect(exit.NotYet, []string{"no input in the directory"}, "check", empty)
	f.expect(exit.NotYet, []string{"no input in the directory", "--analysis"}, "verify", "--forecast", f.put("a.nc", nil), "--analysis", empty)
	f.expect(exit.BadData, []string{"not a GRIB", "e.grib2"}, "inspect", f.put("e.grib2", []byte("no weather")), none)
	if os.Geteuid() == 0 {
		return // root can read every folder
	}
	if err := os.Chmod(empty, 0); err != nil {
		t.Fatal(err)
	}
	f.predict(exit.NotYet, []string{"input directory cannot be read", "permission denied"}, empty)
	if err := os.Chmod(empty, 0o755); err != nil {
		t.Fatal(err)
	}
}
