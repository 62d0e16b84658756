package version

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestStamped(t *testing.T) {
	const revision = "b6703e54d382fa4cc093ca42a1a87f6ba23fbc3e"
	ours := debug.Module{Path: module, Version: "(devel)"}
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
	}
	cell := func(d *debug.Module) debug.BuildInfo {
		return debug.BuildInfo{Main: debug.Module{Path: "cell", Version: "(devel)"}, Deps: []*debug.Module{{Path: "a", Version: "v9.0.0"}, d}, Settings: vcs("false")}
	}
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"go build in a clone", debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.0.0-20260101000000-b6703e54d382"}, Settings: vcs("false")}, "b6703e54d382"},
		{"with changes", debug.BuildInfo{Main: ours, Settings: vcs("true")}, "b6703e54d382-dirty"},
		{"go install of a version", debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}}, "v1.2.3"},
		{"go test, or go build without version control", debug.BuildInfo{Main: ours}, ""},
		{"no modules", debug.BuildInfo{Main: debug.Module{Path: module}}, ""},
		{"a cell that requires a version", cell(&debug.Module{Path: module, Version: "v1.2.3"}), "v1.2.3"},
		{"a cell of a workspace", cell(&debug.Module{Path: module, Version: "(devel)"}), ""},
		{"a cell that replaces by a folder", cell(&debug.Module{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "../ensemble", Version: "(devel)"}}), ""},
		{"a cell that replaces by a version", cell(&debug.Module{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "fork", Version: "v1.2.4"}}), "v1.2.4"},
	} {
		if got := buildVersion(&c.info); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Only a known version without changes can be published. Two builds of changed files differ.
func TestIsPublished(t *testing.T) {
	for v, want := range map[string]bool{"v1.2.3": true, "b6703e54d382": true, "v1.2.3-5-gb6703e5": true, "": false, "b6703e54d382-dirty": false, "v1.2.3-dirty-0123456789ab": false, "digest-0123456789ab": false} {
		if IsPublished(v) != want {
			t.Errorf("%q", v)
		}
	}
}

// The test program has no recorded version, so its version is its digest.
func TestExecutable(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := digest(text); String() != want || len(want) != len(unrevised)+digits {
		t.Errorf("%q, want %q", String(), want)
	}
}

// TestSources: a digest changes with the sources, and with nothing else.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	last := ""
	for _, c := range []struct {
		file, text string
		changes    bool
	}{
		{"a/a.go", "package a", true},
		{"a/a.go", "package b", true},
		{"a/a_test.go", "package a", false},
		{"a/a.md", "text", false},
		{"a/testdata/b.go", "package b", false},
		{".git/b.go", "package b", false},
		{"_cells/b.go", "package b", false},
		{"build/go/b.go", "package b", false},
		{"a/k.cu", "KERNEL", true},
		{"a/a.gob.go", "", true}, // a name counts too
	} {
		path := filepath.Join(dir, c.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		now, err := sources(dir)
		if err != nil {
			t.Fatal(err)
		}
		if (now != last) != c.changes {
			t.Errorf("%s: from %q to %q", c.file, last, now)
		}
		last = now
	}
	if _, err := sources(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing folder has a digest")
	}
}

func BenchmarkSources(b *testing.B) {
	for b.Loop() {
		if _, err := sources(filepath.Join("..", "..")); err != nil {
			b.Fatal(err)
		}
	}
}
