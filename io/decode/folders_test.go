package decode

import (
	"fmt"
	"slices"
	"testing"
)

// An archive with a folder for each initialisation is one folder of a child; folders elsewhere stay what they are, or become their
// parents, and each remains readable.
func TestFoldersAreBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		of   func(i int) string
		n    int
		want []string // nil: all
	}{
		{"few", func(i int) string { return fmt.Sprintf("/a/%d", i) }, maxFolders, nil},
		{"one archive", func(i int) string { return fmt.Sprintf("/data/fc/%05d", i) }, 5000, []string{"/data/fc"}},
		{"by year", func(i int) string { return fmt.Sprintf("/data/fc/%d/%05d", i/100, i) }, 500, []string{"/data/fc/0", "/data/fc/1", "/data/fc/2", "/data/fc/3", "/data/fc/4"}},
		{"everywhere", func(i int) string { return fmt.Sprintf("/d%d/x", i) }, 70, []string{"/"}},
	} {
		p := &Pool{}
		var all []string
		for i := range c.n {
			all = append(all, c.of(i))
			p.folders(all[i])
		}
		got := p.folders("")
		if c.want == nil {
			c.want = all
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
		for _, f := range all {
			if !withinAny(f, got) {
				t.Errorf("%s: %s cannot be read", c.name, f)
			}
		}
	}
}
