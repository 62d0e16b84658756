package powerfail

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"
)

const seed = 1

// contents returns the different contents of a file over all states of a log; "-" if it is absent.
func contents(t *testing.T, l Log, name string) []string {
	t.Helper()
	var out []string
	for s := range l.States(seed, 20) {
		text := "-"
		if data, ok := s.Tree[name]; ok {
			text = string(data)
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// atomic is a file that is replaced as it should be: write beside, sync, rename, sync of the folder.
var atomic = []Op{{Kind: Create, Path: "a.new"}, {Kind: Write, File: 3, Data: []byte("new")}, {Kind: Sync, File: 3}, {Kind: Rename, Path: "a.new", To: "a"}, {Kind: SyncDir, Path: "."}}

func without(kind Kind) Log {
	return Log{Tree{"a": []byte("old")}, slices.DeleteFunc(slices.Clone(atomic), func(o Op) bool { return o.Kind == kind })}
}

// TestReplacedFile: a file that is replaced correctly is old or new in all states, and new in all states of the end.
// Without the sync of the file it can be empty or zeros, and without that of the folder it can be old at the end.
func TestReplacedFile(t *testing.T) {
	final := func(l Log) (out []string) {
		for s := range l.Final(seed, 20) {
			out = append(out, string(s.Tree["a"]))
		}
		return out
	}
	if got := contents(t, without(""), "a"); !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("correct: %q", got)
	}
	if got := final(without("")); slices.ContainsFunc(got, func(s string) bool { return s != "new" }) {
		t.Errorf("correct, at the end: %q", got)
	}
	if got := contents(t, without(Sync), "a"); !slices.Contains(got, "") || !slices.Contains(got, "\x00\x00\x00") {
		t.Errorf("without sync of the file: %q", got)
	}
	if got := contents(t, without(SyncDir), "a"); !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("without sync of the folder: %q", got)
	}
	var lost bool
	for s := range without(SyncDir).all() {
		lost = lost || s.Point == len(atomic)-1 && string(s.Tree["a"]) == "old"
	}
	if !lost {
		t.Error("without sync of the folder the new file was never lost")
	}
}

// all yields the states of a log.
func (l Log) all() func(func(State) bool) { return l.States(seed, 20) }

// TestOrderOfNames: changes of different names reach the disk in any order; those of one name in theirs.
func TestOrderOfNames(t *testing.T) {
	l := Log{Ops: []Op{{Kind: Create, Path: "x"}, {Kind: Create, Path: "y"}, {Kind: Rename, Path: "x", To: "z"}, {Kind: Remove, Path: "y"}}}
	seen := map[string]bool{}
	for s := range l.all() {
		seen[strings.Join(s.Tree.names(), " ")] = true
	}
	for _, names := range []string{"", "x", "y", "z", "x y", "y z"} {
		if !seen[names] {
			t.Errorf("the state %q is legal and was not made", names)
		}
		delete(seen, names)
	}
	if len(seen) > 0 {
		t.Errorf("states %v are not legal", seen)
	}
}

// TestFolders: the content of a folder is lost with its name, and kept when it is renamed.
func TestFolders(t *testing.T) {
	l := Log{Ops: []Op{{Kind: Mkdir, Path: "d"}, {Kind: Create, Path: "d/f"}, {Kind: Write, File: 3, Data: []byte("1")}, {Kind: Sync, File: 3}, {Kind: SyncDir, Path: "d"},
		{Kind: Rename, Path: "d", To: "e"}, {Kind: SyncDir, Path: "."}}}
	for s := range l.all() {
		if _, ok := s.Tree["e/"]; ok && string(s.Tree["e/f"]) != "1" {
			t.Errorf("%s: %v", s, s.Tree)
		}
	}
	for s := range l.Final(seed, 20) {
		if string(s.Tree["e/f"]) != "1" || len(s.Tree) != 2 {
			t.Errorf("%s: %v", s, s.Tree)
		}
	}
}

// TestExchange: after an exchange each name has one of the two, and the other name the other one.
func TestExchange(t *testing.T) {
	l := Log{Tree{"a/": nil, "a/x": []byte("old"), "b/": nil, "b/x": []byte("new")}, []Op{{Kind: Exchange, Path: "a", To: "b"}, {Kind: SyncDir, Path: "."}, {Kind: Remove, Path: "b/x"}, {Kind: Remove, Path: "b"}}}
	for s := range l.all() {
		if a, b := string(s.Tree["a/x"]), string(s.Tree["b/x"]); a != "old" && a != "new" || a == b {
			t.Errorf("%s: %q and %q", s, a, b)
		}
		if s.Point > 1 && string(s.Tree["a/x"]) != "new" {
			t.Errorf("%s: after the sync %q", s, s.Tree["a/x"])
		}
	}
}

// TestTornWrite: a write of several sectors reaches the disk in any part of them.
func TestTornWrite(t *testing.T) {
	old, data := bytes.Repeat([]byte("o"), 8192), bytes.Repeat([]byte("n"), 8192)
	l := Log{Tree{"a": old}, []Op{{Kind: Write, File: 2, Data: data}}}
	kinds := map[string]bool{}
	for s := range l.States(seed, 100) {
		got := s.Tree["a"]
		if len(got) != len(old) {
			t.Fatalf("%s: %d bytes", s, len(got))
		}
		for at := 0; at < len(got); at += 512 {
			if part := got[at : at+512]; strings.Trim(string(part), string(part[:1])) != "" {
				t.Errorf("%s: a sector is not whole", s)
			}
		}
		kinds[string(got[:1])+string(got[4095:4097])] = true
	}
	if !kinds["nno"] || !kinds["oon"] {
		t.Errorf("neither part of the write was lost alone: %v", kinds)
	}
}

// TestSample: a sample has different states of one seed, and is the same for the same seed.
func TestSample(t *testing.T) {
	l := without(SyncDir)
	a, b := l.Sample(5, 4), l.Sample(5, 4)
	if len(a) != 4 {
		t.Fatalf("%d states", len(a))
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Tree.digest() != b[i].Tree.digest() {
			t.Errorf("%d: %s and %s", i, a[i], b[i])
		}
	}
	if n := len(l.Sample(5, 1000)); n != 5 {
		t.Errorf("%d different states of four operations, want 5", n)
	}
}

// TestWriteTo: a state in a folder is read back as it is, and replaces what was there.
func TestWriteTo(t *testing.T) {
	dir := path.Join(t.TempDir(), "d")
	for _, want := range []Tree{{"x": nil, "old/": nil}, {"f": []byte("1"), "d/": nil, "d/e/": nil, "d/e/g": []byte("2")}} {
		if err := want.WriteTo(dir); err != nil {
			t.Fatal(err)
		}
		got, err := ReadTree(dir)
		if err != nil || got.digest() != want.digest() {
			t.Errorf("%v, %v", got, err)
		}
	}
	if got, err := ReadTree(path.Join(dir, "none")); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
