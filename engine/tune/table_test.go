package tune

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// machine is that of the tests.
var machine = Machine{CPU: "test", Arch: "amd64", Features: []string{"avx2"}, Threads: 2, Libraries: []string{"oneDNN 2.6.3"}, Kernels: "1"}

func entry(choice string) Entry {
	return Entry{Choice: choice, Candidates: []Timing{{Name: choice, CPU: 10, Wall: 5, Runs: 3, Bytes: 7}, {Name: "other", CPU: 20, Wall: 10, Runs: 2}},
		Skipped: []Expectation{{Name: "slow", CPU: 40}}}
}

// sameButTime compares entries without their time of measuring.
func sameButTime(a, b Entry) bool {
	a.Measured, b.Measured = 0, 0
	return reflect.DeepEqual(a, b)
}

// open opens a table whose warnings go to the returned buffer.
func open(dir string, m Machine) (*Table, *bytes.Buffer) {
	var b bytes.Buffer
	return Open(dir, m, slog.New(slog.NewTextHandler(&b, nil))), &b
}

func save(t *testing.T, table *Table) {
	t.Helper()
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
}

func TestTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	table, log := open(dir, machine)
	if e, ok := table.Lookup("conv"); ok {
		t.Errorf("an empty table knows %+v", e)
	}
	want := entry("own")
	table.Record("conv", want)
	want.Candidates[0].Name = "changed by the caller"
	e, ok := table.Lookup("conv")
	if !ok || !sameButTime(e, entry("own")) {
		t.Errorf("before Save: %+v", e)
	}
	e.Candidates[0].Name, e.Skipped[0].Name = "changed by the finder", "changed by the finder"
	for name, want := range map[string]time.Duration{"own": 10, "other": 20, "slow": 40, "none": 0} {
		if got, known := entry("own").CPUOf(name); got != want || known != (want > 0) {
			t.Errorf("time of %s: %d, %v", name, got, known)
		}
		if got := entry("own").Timed(name); got != (want > 0 && name != "slow") {
			t.Errorf("%s was timed: %v", name, got)
		}
	}
	save(t, table)
	again, log2 := open(dir, machine)
	if e, ok := again.Lookup("conv"); !ok || !sameButTime(e, entry("own")) || time.Since(time.Unix(e.Measured, 0)).Abs() > time.Minute {
		t.Errorf("read again: %+v, want %+v of now", e, entry("own"))
	}
	again.Record("conv", entry("f2"))
	save(t, again)
	if e, _ := Open(dir, machine, nil).Lookup("conv"); e.Choice != "f2" {
		t.Errorf("recorded anew: %+v", e)
	}
	if log.Len() > 0 || log2.Len() > 0 {
		t.Errorf("logged %s%s", log, log2)
	}
	const text = "conv: f2\n  f2: 10ns, wall-clock 5ns, 3 runs\n  other: 20ns, wall-clock 10ns, 2 runs\n  slow: skipped, expected 40ns\n"
	if got := again.String(); got != text {
		t.Errorf("as text: %q, want %q", got, text)
	}
}

// TestMachines: whatever of the machine differs, its timings are others.
func TestMachines(t *testing.T) {
	dir := t.TempDir()
	first, _ := open(dir, machine)
	first.Record("conv", entry("own"))
	save(t, first)
	for name, change := range map[string]func(*Machine){
		"cpu":       func(m *Machine) { m.CPU = "other" },
		"arch":      func(m *Machine) { m.Arch = "arm64" },
		"features":  func(m *Machine) { m.Features = []string{"avx2", "avx512f"} },
		"threads":   func(m *Machine) { m.Threads = 1 },
		"libraries": func(m *Machine) { m.Libraries = nil },
		"kernels":   func(m *Machine) { m.Kernels = "2" },
	} {
		m := machine
		change(&m)
		if e, ok := Open(dir, m, nil).Lookup("conv"); ok {
			t.Errorf("other %s: found %+v", name, e)
		}
		// Even if the file is copied there.
		data, err := os.ReadFile(first.Path())
		if err != nil {
			t.Fatal(err)
		}
		other := Open(dir, m, nil)
		if err := os.WriteFile(other.Path(), data, 0o644); err != nil {
			t.Fatal(err)
		}
		copied, log := open(dir, m)
		if _, ok := copied.Lookup("conv"); ok || !strings.Contains(log.String(), "another machine") {
			t.Errorf("other %s, file copied: found, or not logged: %q", name, log)
		}
	}
	here := ThisMachine(3, "7", "oneDNN 2.6.3")
	if here.Threads != 3 || here.Kernels != "7" || here.Arch == "" || len(here.Libraries) != 1 {
		t.Errorf("here is %+v", here)
	}
}

// TestNothing: nil and zero tables remember nothing and fail nowhere, and one
// without a cache directory lasts as long as the process.
func TestNothing(t *testing.T) {
	for name, table := range map[string]*Table{"nil": nil, "zero": {}} {
		table.Record("conv", entry("own"))
		if e, ok := table.Lookup("conv"); ok || table.Path() != "" || table.String() != "" {
			t.Errorf("%s: %+v at %q", name, e, table.Path())
		}
		save(t, table)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	homeless, log := open("", machine)
	homeless.Record("conv", entry("own"))
	if _, ok := homeless.Lookup("conv"); !ok || !strings.Contains(log.String(), "no cache directory") {
		t.Errorf("without a home: found %v, logged %q", ok, log)
	}
	save(t, homeless)

	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	if got := Open("", machine, nil).Path(); filepath.Dir(got) != filepath.Join(cache, "ensemble") {
		t.Errorf("by default at %s, want in %s/ensemble", got, cache)
	}
}

// TestDamage: a damaged file is logged, never an error, and repaired by
// the next Save, whether or not anything was recorded.
func TestDamage(t *testing.T) {
	good, _ := open(t.TempDir(), machine)
	good.Record("conv", entry("own"))
	save(t, good)
	data, err := os.ReadFile(good.Path())
	if err != nil {
		t.Fatal(err)
	}
	swap := func(old, by string) string {
		if !bytes.Contains(data, []byte(old)) {
			t.Fatalf("%s does not contain %q", data, old)
		}
		return strings.Replace(string(data), old, by, 1)
	}
	for _, c := range []struct{ name, content, want string }{
		{"empty", "", "damaged"},
		{"cut off", string(data[:len(data)/2]), "damaged"},
		{"zeros", strings.Repeat("\x00", 500), "damaged"},
		{"something after the end", string(data) + "{}", "damaged"},
		{"not an object", "[1]", "damaged"},
		{"older format", swap(`"format": 1`, `"format": 0`), "format 0"},
		{"newer format", swap(`"format": 1`, `"format": 2`), "format 2"},
		{"newer format with other fields", `{"format": 2, "entries": [1, 2]}`, "format 2"},
		{"wrong type", swap(`"runs": 3`, `"runs": "3"`), "damaged"},
		{"no run", swap(`"runs": 3`, `"runs": 0`), "damaged"},
		{"negative time", swap(`"cpu_ns": 10`, `"cpu_ns": -10`), "damaged"},
		{"overflow", swap(`"cpu_ns": 10`, `"cpu_ns": 1e30`), "damaged"},
		{"choice that is none", swap(`"choice": "own"`, `"choice": "none"`), "damaged"},
		{"candidate twice", swap(`"name": "other"`, `"name": "own"`), "damaged"},
		{"too large", strings.Repeat(" ", maxBytes+1), "larger"},
	} {
		for _, record := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, recorded %v", c.name, record), func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, filepath.Base(good.Path()))
				if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
					t.Fatal(err)
				}
				table, log := open(dir, machine)
				if !strings.Contains(log.String(), c.want) || !strings.Contains(log.String(), "level=WARN") {
					t.Errorf("logged %q, want a warning with %q", log, c.want)
				}
				if _, ok := table.Lookup("conv"); ok {
					t.Error("an entry was believed")
				}
				if record {
					table.Record("new", entry("own"))
				}
				save(t, table)
				mended, log2 := open(dir, machine)
				if _, ok := mended.Lookup("new"); ok != record || log2.Len() > 0 {
					t.Errorf("after Save: found %v, logged %q", ok, log2)
				}
				if n := strings.Count(log.String(), "WARN"); n != 1 {
					t.Errorf("%d warnings, want one: %s", n, log)
				}
			})
		}
	}
}

// TestObstacles: things in the place of the file or folder.
func TestObstacles(t *testing.T) {
	dir := t.TempDir()
	table, _ := open(dir, machine)
	if err := unix.Mkfifo(table.Path(), 0o644); err != nil {
		t.Fatal(err)
	}
	table, log := open(dir, machine) // must not wait for a writer
	if !strings.Contains(log.String(), "not a regular file") {
		t.Errorf("a pipe: logged %q", log)
	}
	save(t, table)
	if s, err := os.Stat(table.Path()); err != nil || !s.Mode().IsRegular() {
		t.Errorf("the pipe was not replaced: %v, %v", s, err)
	}
	blocked := filepath.Join(dir, "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	table, log = open(blocked, machine)
	table.Record("conv", entry("own"))
	if err := table.Save(); exit.CodeOf(err) != exit.CannotWrite && exit.CodeOf(err) != exit.IO {
		t.Errorf("a file in place of the folder: %v", err)
	}
	if _, ok := table.Lookup("conv"); !ok || !strings.Contains(log.String(), "WARN") {
		t.Errorf("found %v, logged %q", ok, log)
	}
}

// TestRefused: an entry that would make the file damaged is left out.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		key string
		e   Entry
	}{
		"no key":        {"", entry("own")},
		"long key":      {strings.Repeat("k", maxKey+1), entry("own")},
		"bytes as key":  {"\xff", entry("own")},
		"no candidates": {"conv", Entry{}},
		"choice":        {"conv", Entry{Choice: "a", Candidates: []Timing{{Name: "b", Runs: 1}}}},
		"bytes as name": {"conv", Entry{Candidates: []Timing{{Name: "\xff", Runs: 1}}}},
		"never run":     {"conv", Entry{Candidates: []Timing{{Name: "b"}}}},
	} {
		table, log := open(t.TempDir(), machine)
		table.Record(c.key, c.e)
		if _, ok := table.Lookup(c.key); ok || !strings.Contains(log.String(), "WARN") {
			t.Errorf("%s: kept %v, logged %q", name, ok, log)
		}
	}
}

// TestMerge: two tables of one file keep each other's entries. What a process
// knows does not change under its hands, and it does not undo what is newer.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	a, _ := open(dir, machine)
	a.Record("both", entry("old"))
	save(t, a)
	b, _ := open(dir, machine)
	a.Record("a", entry("own"))
	a.Record("both", entry("new"))
	save(t, a)
	b.Record("b", entry("own"))
	save(t, b)
	for key, want := range map[string]string{"a": "own", "b": "own", "both": "old"} {
		if e, _ := b.Lookup(key); e.Choice != want {
			t.Errorf("the second knows %q as %q, want %q", key, e.Choice, want)
		}
	}
	c, _ := open(dir, machine)
	for key, want := range map[string]string{"a": "own", "b": "own", "both": "new"} {
		if e, _ := c.Lookup(key); e.Choice != want {
			t.Errorf("the file has %q as %q, want %q", key, e.Choice, want)
		}
	}
}

// TestBounds: a full table drops the oldest entries, by number
// and by bytes, and the folder of the machines not written for longest.
func TestBounds(t *testing.T) {
	e := entry("own")
	all := map[string]Entry{}
	for i := range maxEntries + 10 {
		e.Measured = int64(i)
		all[fmt.Sprint("k", i)] = e
	}
	data, err := encode(machine, all)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(data)
	if _, ok := got.Entries["k10"]; err != nil || len(got.Entries) != maxEntries || !ok {
		t.Errorf("%d entries (%v), k10 there: %v; want the %d that are newest", len(got.Entries), err, ok, maxEntries)
	}
	clear(all)
	for i := range 20 {
		e.Measured = int64(i)
		e.Candidates = []Timing{{Name: "own" + strings.Repeat("x", 1<<20), Runs: 1}}
		e.Choice = e.Candidates[0].Name
		all[fmt.Sprint("k", i)] = e
	}
	if data, err = encode(machine, all); err != nil || len(data) > maxBytes {
		t.Fatalf("%d bytes (%v), want at most %d", len(data), err, maxBytes)
	}
	if _, ok := all["k19"]; !ok || len(all) == 0 || len(all) == 20 {
		t.Errorf("%d large entries are left, the newest among them: %v", len(all), ok)
	}

	dir := t.TempDir()
	for i := range maxFiles + 5 {
		m := machine
		m.Threads = 100 + i
		table, _ := open(dir, m)
		table.Record("conv", entry("own"))
		save(t, table)
		old := time.Now().Add(time.Duration(i-1000) * time.Hour)
		if err := os.Chtimes(table.Path(), old, old); err != nil {
			t.Fatal(err)
		}
	}
	partial := filepath.Join(dir, "."+filepath.Base(Open(dir, machine, nil).Path())+".partial-x")
	foreign := filepath.Join(dir, "plans.json")
	for _, path := range []string{partial, foreign} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	table, _ := open(dir, machine)
	table.Record("conv", entry("own"))
	save(t, table)
	names, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil || len(names) != maxFiles {
		t.Errorf("%d tables (%v), want %d", len(names), err, maxFiles)
	}
	for i, want := range map[int]bool{0: false, 5: false, 6: true, maxFiles + 4: true} {
		m := machine
		m.Threads = 100 + i
		if _, ok := Open(dir, m, nil).Lookup("conv"); ok != want {
			t.Errorf("table %d is there: %v, want %v", i, ok, want)
		}
	}
	if _, err := os.Stat(partial); err == nil {
		t.Error("what a killed process left is still there")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file of others is gone")
	}
}

// TestProcesses: eight processes, each with a table of its own, save all the
// time into one file; while one is killed again and again. Every reader sees a
// whole file, and in the end every entry that was saved is there.
func TestProcesses(t *testing.T) {
	const processes, saves, each = 8, 12, 3
	if name := os.Getenv("TUNE_PROCESS"); name != "" {
		table, log := open(os.Getenv("TUNE_DIR"), machine)
		for s := 0; s < saves || name == "victim"; s++ {
			for k := range each {
				table.Record(fmt.Sprintf("%s %d %d", name, s, k), entry("own"))
			}
			save(t, table)
		}
		if log.Len() > 0 {
			t.Error(log)
		}
		return
	}
	dir := t.TempDir()
	start := func(name string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "TUNE_PROCESS="+name, "TUNE_DIR="+dir)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	var all sync.WaitGroup
	for p := range processes {
		cmd := start(fmt.Sprint("p", p))
		all.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", p, err)
			}
		})
	}
	done := make(chan bool)
	go func() { all.Wait(); close(done) }()
	kills, reads := 0, 0
	for running := true; running; {
		victim := start("victim")
		for end := time.Now().Add(60 * time.Millisecond); time.Now().Before(end); reads++ {
			if _, log := open(dir, machine); log.Len() > 0 {
				t.Error(log)
			}
		}
		if err := victim.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := victim.Wait(); err == nil {
			t.Error("the victim ended by itself")
		}
		kills++
		select {
		case <-done:
			running = false
		default:
		}
	}
	table, _ := open(dir, machine)
	missing := 0
	for p := range processes {
		for s := range saves {
			for k := range each {
				if _, ok := table.Lookup(fmt.Sprintf("p%d %d %d", p, s, k)); !ok {
					missing++
				}
			}
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d entries are lost", missing, processes*saves*each)
	}
	t.Logf("%d reads, %d processes killed", reads, kills)
}

// TestLocked: a process that keeps the lock delays a save, and holds it up for
// never more than its limit.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	release, locked, err := lock(dir)
	if err != nil || !locked {
		t.Skipf("skipped: no file locks here: %v, %v", locked, err)
	}
	table, _ := open(dir, machine)
	table.Record("conv", entry("own"))
	start := time.Now()
	time.AfterFunc(100*time.Millisecond, release)
	save(t, table)
	if waited := time.Since(start); waited < 90*time.Millisecond {
		t.Errorf("saved after %v, while another held the lock for 100 ms", waited)
	}
	if _, ok := Open(dir, machine, nil).Lookup("conv"); !ok {
		t.Error("the entry is not in the file")
	}
}

// FuzzParse: any content is refused, or gives entries that can be written and
// read back.
func FuzzParse(f *testing.F) {
	good, err := encode(machine, map[string]Entry{"conv": entry("own"), "pool <&>": entry("ü")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":1,"entries":{"k":{"candidates":[{"name":"a","runs":1}]}}}`))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"format":1,"entries":{"\ud800":{}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parse(data)
		if err != nil {
			return
		}
		if got.Entries == nil {
			got.Entries = map[string]Entry{}
		}
		n := len(got.Entries)
		text, err := encode(got.Machine, got.Entries)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(text)
		if len(got.Entries) < n { // written with indents it was too large
			return
		}
		if err != nil || again.Machine.digest() != got.Machine.digest() || !reflect.DeepEqual(again.Entries, got.Entries) {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(again)
			t.Errorf("%s\nread again (%v):\n%s", a, err, b)
		}
	})
}

func ExampleTable() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	table := Open(dir, ThisMachine(2, "1", "oneDNN 2.6.3"), nil)
	const key = "conv forward 1x46x2x128x128 64x46x3x3x3"
	if _, known := table.Lookup(key); !known {
		entry, err := Benchmark([]Candidate{
			{Name: "direct", Run: func() error { return nil }},
			{Name: "winograd", Run: func() error { return spin(1_000_000)() }},
		}, BenchmarkOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		table.Record(key, entry)
	}
	if err := table.Save(); err != nil {
		fmt.Println(err)
	}
	e, known := Open(dir, ThisMachine(2, "1", "oneDNN 2.6.3"), nil).Lookup(key)
	fmt.Println(e.Choice, known)
	// Output: direct true
}
