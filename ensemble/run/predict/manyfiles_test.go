package predict

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bytesRead is what this process has read so far, from the kernel's accounting.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("skipped: the kernel does not count what is read: ", err)
	}
	if _, err := fmt.Fscanf(bytes.NewReader(text), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// In a folder of many files only new or changed ones are read after they are settled.
func TestScansManyFiles(t *testing.T) {
	const n = 400
	dir := t.TempDir()
	text := []byte("GRIB...\x02" + strings.Repeat("x", 9000) + "7777")
	name := func(i int) string {
		return filepath.Join(dir, fmt.Sprintf("fc_%04d%s", i, []string{"", ".grib2"}[i%2]))
	} // half of them told by content
	for i := range n {
		if err := os.WriteFile(name(i), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, v := &finder{patterns: []string{dir}}, &fileScanner{policy: &inputPolicy{}, now: time.Now}
	look := func(what string, complete int, atMost int64) {
		t.Helper()
		before := bytesRead(t)
		files, err := list.list()
		if err != nil || len(files) != n {
			t.Fatalf("%d files, %v", len(files), err)
		}
		done, _ := v.classify(files)
		if read := bytesRead(t) - before; len(done) != complete || atMost >= 0 && read > atMost {
			t.Errorf("%s: %d complete, want %d; %d bytes read, want at most %d", what, len(done), complete, read, atMost)
		}
	}
	settle := func() { // a minute passes
		for path, s := range v.states {
			s.since = s.since.Add(-settleTime)
			v.states[path] = s
		}
	}
	const little = 64 << 10 // of the kernel's accounts, and of other goroutines
	look("new ones", 0, -1)
	look("that stand still", n, -1)
	look("that may change within the grain of their times", n, n*(2*4096)+little) // their ends alone
	settle()
	look("settled", n, -1)
	look("again", n, little)
	// A change of the same size that keeps its time: the time of the change tells.
	st, err := os.Stat(name(7))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name(7), bytes.Replace(text, []byte("x"), []byte("y"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name(7), st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	look("one has changed", n-1, little+int64(4*len(text)))
	look("and stands still", n, little+int64(4*len(text)))
}

// Files older than the oldest initialisation are not read.
func TestChangedSince(t *testing.T) {
	dir := t.TempDir()
	file, store := filepath.Join(dir, "a.nc"), filepath.Join(dir, "s.zarr")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(store, 0o755); err != nil {
		t.Fatal(err)
	}
	all := []string{file, store, file + ".gone"}
	long := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(file, long, long); err != nil { // as a copy that keeps the times of its source
		t.Fatal(err)
	}
	if got := changedSince(slices.Clone(all), time.Now().Add(-time.Hour)); !slices.Equal(got, all) {
		t.Errorf("came within the hour: %q", got)
	}
	if got := changedSince(slices.Clone(all), time.Now().Add(time.Hour)); !slices.Equal(got, all[1:]) {
		t.Errorf("came before: %q", got)
	}
}
