package predict

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Criteria of a complete file: it is unchanged, its structure, a marker file, and its index.
func TestCompleteFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := put("fc.grib2", "GRIB and 100 bytes of it "+strings.Repeat("x", 71)+"7777")
	v := &fileScanner{policy: &inputPolicy{}, now: time.Now}
	look := func(want string) {
		t.Helper()
		complete, pending := v.classify([]string{path})
		switch {
		case want == "" && len(complete) != 1:
			t.Errorf("not complete: %+v", pending)
		case want != "" && (len(pending) != 1 || !strings.Contains(pending[0].reason, want)):
			t.Errorf("%+v, want %q", pending, want)
		}
	}
	look("still being written")
	look("")
	put("fc.grib2", "GRIB and less")
	look("still being written")
	look("cut off (no 7777 at the end)")
	put("fc.grib2", "GRIB and 100 bytes of it "+strings.Repeat("x", 71)+"7777\r\r\n\x03")
	look("still being written")
	look("")
	m := &v.policy.Members
	m.DoneSuffix = ".done"
	look("missing fc.grib2.done beside it")
	put("fc.done", "")
	look("")
	m.IndexSuffix = ".index"
	look("missing fc.grib2.index beside it")
	for text, want := range map[string]string{
		`{"_offset": 0, "_length": 100}`:                                          "",
		`{"_offset": 0, "_length": 50}` + "\n" + `{"_offset": 50, "_length": 55}`: "row 2 of its index " + filepath.Join(dir, "fc.index") + " ends at byte 105, but the file has 104",
		`{"_offset": 0}`:                 "row 1 of its index " + filepath.Join(dir, "fc.index") + " has an unknown format",
		"1:0:d=2001:TMP:\n2:103:d=2001:": "",
		"1:0:d=2001:TMP:\n2:104:d=2001:": "ends at byte 105",
		"\n":                             "is empty",
	} {
		put("fc.index", text)
		look(want)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look("no such file")
}
