package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// measured holds the sizes that TestLimits found, by kind of limit and name.
type measured map[string]map[string]int

// put records a size above the limit of its kind.
func (m measured) put(kind, name string, size int) {
	if size <= limits[kind] {
		return
	}
	if m[kind] == nil {
		m[kind] = map[string]int{}
	}
	m[kind][name] = max(m[kind][name], size)
}

// TestLimits: every size above a limit is listed in limits.go with its reason, and
// no listed size is within its limit.
func TestLimits(t *testing.T) {
	found := measured{}
	for _, p := range list(t) {
		lines := 0
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles) {
			lines += measure(t, found, p.short(), filepath.Join(p.Dir, file))
		}
		found.put("package lines", p.short(), lines)
		ours := 0
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, Module+"/") {
				ours++
			}
		}
		found.put("imports of ours", p.short(), ours)
	}
	for kind, allowed := range exceptions {
		for name, e := range allowed {
			switch size, over := found[kind][name]; {
			case !over:
				t.Errorf("limits.go has a row %q of %s, which is within %d now: take it out", name, kind, limits[kind])
			case size > e.size:
				t.Errorf("%s: %d %s, and limits.go allows %d", name, size, kind, e.size)
			}
			if e.why == "" {
				t.Errorf("limits.go: %s of %s has no reason", name, kind)
			}
			delete(found[kind], name)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		for _, name := range slices.Sorted(maps.Keys(found[kind])) {
			t.Errorf("%s: %d %s, more than %d; divide it, or give the reason in limits.go", name, found[kind][name], kind, limits[kind])
		}
	}
}

// measure records the sizes of one file and returns its number of lines.
func measure(t *testing.T, found measured, pkg, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	lines := func(n ast.Node) int { return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1 }
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := pkg + "." + receiver(d) + d.Name.Name
			kind := "function lines"
			if strings.HasPrefix(pkg, "cmd/") {
				kind = "function lines of a command"
			}
			found.put(kind, name, lines(d))
			found.put("arguments", name, count(d.Type.Params))
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					if st, ok := s.Type.(*ast.StructType); ok {
						found.put("fields", pkg+"."+s.Name.Name, count(st.Fields))
					}
				}
			}
		}
	}
	return bytes.Count(text, []byte("\n"))
}

// receiver returns the receiver type of a method, followed by a dot.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return fmt.Sprintf("%s.", name)
}

// count returns the number of names in a list of fields; fields without a name
// count as one.
func count(l *ast.FieldList) (n int) {
	for _, f := range l.List {
		n += max(len(f.Names), 1)
	}
	return n
}
