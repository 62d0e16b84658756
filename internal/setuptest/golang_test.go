package setuptest

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// folder holds the declarations of the Go files of one folder, including both kinds
// of tests.
type folder struct {
	name  string // of its package
	texts map[string]ast.Expr
	funcs map[string][]*function
	all   []*function
}

// function is a function, a method, a function literal, or the initial value of a
// package variable.
type function struct {
	name   string
	file   string
	in     *folder
	self   string    // name of the receiver
	parent *function // of a literal
	kind   *ast.FuncType
	body   *ast.BlockStmt
}

// unclear is a part of a text that is known only at run time, and also a name in a
// shell; self is the running program.
const (
	unclear = "__unclear"
	self    = unclear + "_self"
)

// module holds all Go code of the repository.
type module struct {
	fset    *token.FileSet
	folders map[string]*folder
	calls   map[string][]site // by the name of the function
}

// site is a call and the function that contains it.
type site struct {
	in   *function
	call *ast.CallExpr
}

// parse parses Go files, given their content by path.
func parse(t *testing.T, files map[string]string) *module {
	t.Helper()
	m := &module{fset: token.NewFileSet(), folders: map[string]*folder{}, calls: map[string][]site{}}
	for file, text := range files {
		f, err := parser.ParseFile(m.fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		d := m.folders[path.Dir(file)]
		if d == nil {
			d = &folder{texts: map[string]ast.Expr{}, funcs: map[string][]*function{}}
			m.folders[path.Dir(file)] = d
		}
		d.name = strings.TrimSuffix(f.Name.Name, "_test")
		for _, i := range f.Imports {
			if i.Path.Value == `"os/exec"` && i.Name != nil {
				t.Errorf("%s imports os/exec under another name, where this test does not find it", file)
			}
		}
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				for _, s := range decl.Specs {
					v, ok := s.(*ast.ValueSpec)
					if !ok {
						continue
					}
					for i, e := range v.Values {
						if len(v.Values) == len(v.Names) {
							d.texts[v.Names[i].Name] = e
						}
						body := &ast.BlockStmt{List: []ast.Stmt{&ast.ExprStmt{X: e}}}
						d.add(&function{file: file, in: d, kind: &ast.FuncType{Params: &ast.FieldList{}}, body: body})
					}
				}
			case *ast.FuncDecl:
				if decl.Body == nil {
					continue // it is written in assembly or C
				}
				g := &function{name: decl.Name.Name, file: file, in: d, kind: decl.Type, body: decl.Body}
				if decl.Recv != nil && len(decl.Recv.List[0].Names) > 0 {
					g.self = decl.Recv.List[0].Names[0].Name
				}
				d.add(g)
			}
		}
	}
	for _, d := range m.folders {
		for _, f := range d.all {
			inspect(f.body, func(n ast.Node) {
				if c, ok := n.(*ast.CallExpr); ok {
					_, name := called(c)
					m.calls[name] = append(m.calls[name], site{f, c})
				}
			})
		}
	}
	return m
}

// add records a function and the literals in it.
func (d *folder) add(f *function) {
	d.all = append(d.all, f)
	if f.name != "" {
		d.funcs[f.name] = append(d.funcs[f.name], f)
	}
	d.literals(f.body, f.file, f)
}

// literals adds the function literals below a node that are not inside another
// literal.
func (d *folder) literals(n ast.Node, file string, parent *function) {
	names := map[*ast.FuncLit]string{}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, e := range n.Rhs {
				if l, ok := e.(*ast.FuncLit); ok && len(n.Lhs) == len(n.Rhs) {
					if id, ok := n.Lhs[i].(*ast.Ident); ok {
						names[l] = id.Name
					}
				}
			}
		case *ast.FuncLit:
			d.add(&function{name: names[n], file: file, in: d, parent: parent, kind: n.Type, body: n.Body})
			return false
		}
		return true
	})
}

// inspect walks a body without the function literals in it.
func inspect(body *ast.BlockStmt, visit func(ast.Node)) {
	ast.Inspect(body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		if n != nil {
			visit(n)
		}
		return true
	})
}

// called returns package (or receiver) and name of the called function.
func called(c *ast.CallExpr) (of, name string) {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return "", f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name, f.Sel.Name
		}
		return unclear, f.Sel.Name
	}
	return unclear, unclear
}

func (m *module) text(e ast.Expr) string {
	var b strings.Builder
	if err := printer.Fprint(&b, m.fset, e); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// values returns the possible texts of an expression, over all callers. Results of
// exec.LookPath are omitted, because the looked-up name is found at that call.
// unknown lists expressions that cannot be followed, as in the table indirect.
func (m *module) values(f *function, e ast.Expr) (texts, unknown []string) {
	v := &valuation{m: m, seen: map[ast.Expr]bool{}}
	texts = v.of(f, e)
	slices.Sort(texts)
	return slices.Compact(texts), v.failed
}

type valuation struct {
	m      *module
	seen   map[ast.Expr]bool
	second bool // of a map the values, and not the keys
	failed []string
}

// fail records an expression that cannot be followed: its file and source.
func (v *valuation) fail(f *function, e ast.Expr) []string {
	v.failed = append(v.failed, path.Base(f.file)+": "+v.m.text(e))
	return nil
}

func (v *valuation) of(f *function, e ast.Expr) []string {
	if v.seen[e] {
		return nil
	}
	v.seen[e] = true
	switch e := e.(type) {
	case *ast.ParenExpr:
		return v.of(f, e.X)
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return []string{s}
		}
	case *ast.BinaryExpr:
		return product(v.part(f, e.X), v.part(f, e.Y), "")
	case *ast.Ident:
		return v.ident(f, e)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			for _, d := range v.m.folders {
				if text, ok := d.texts[e.Sel.Name]; ok && d.name == x.Name {
					return v.of(&function{file: f.file, in: d}, text)
				}
			}
		}
	case *ast.IndexExpr:
		if v.m.text(e) == "os.Args[0]" {
			return []string{self}
		}
	case *ast.CompositeLit:
		var out []string
		for _, x := range e.Elts {
			if kv, ok := x.(*ast.KeyValueExpr); ok {
				if x = kv.Key; v.second {
					x = kv.Value
				}
			}
			out = append(out, v.of(f, x)...)
		}
		return out
	case *ast.CallExpr:
		return v.call(f, e, 0)
	}
	return v.fail(f, e)
}

// product concatenates every text of one list with every text of the other.
func product(left, right []string, between string) (out []string) {
	for _, l := range left {
		for _, r := range right {
			out = append(out, l+between+r)
		}
	}
	return out
}

// part is an operand of a text: unclear where it is not known.
func (v *valuation) part(f *function, e ast.Expr) []string {
	inner := &valuation{m: v.m, seen: v.seen}
	out := inner.of(f, e)
	if inner.failed != nil || len(out) == 0 {
		return []string{unclear}
	}
	return out
}

func (v *valuation) call(f *function, c *ast.CallExpr, result int) []string {
	of, name := called(c)
	switch {
	case of == "exec" && name == "LookPath":
		return nil // it is looked at as such
	case of == "os" && name == "Executable":
		return []string{self}
	case of == "filepath" && name == "Join":
		out := v.part(f, c.Args[0])
		for _, a := range c.Args[1:] {
			out = product(out, v.part(f, a), "/")
		}
		return out
	case of == "os" && name == "Getenv":
		return nil // set outside the repository
	case of == "filepath" && (name == "Abs" || name == "Clean") || of == "" && name == "must":
		if inner, ok := c.Args[0].(*ast.CallExpr); ok {
			return v.call(f, inner, 0)
		}
		return v.of(f, c.Args[0])
	case of == "cmp" && name == "Or", of == "" && name == "append":
		var out []string
		for _, a := range c.Args {
			out = append(out, v.of(f, a)...)
		}
		return out
	case of == "strings" && name == "Replace", of == unclear && name == unclear: // []byte(text)
		return v.of(f, c.Args[0])
	case of == "fmt" && name == "Sprintf":
		out := v.of(f, c.Args[0])
		for i := range out {
			out[i] = verb.ReplaceAllString(out[i], unclear)
		}
		return out
	}
	var out []string
	found := false
	for _, d := range v.m.folders {
		for _, g := range d.funcs[name] {
			if !g.takes(f, of) {
				continue
			}
			found = true
			inspect(g.body, func(n ast.Node) {
				if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
					out = append(out, v.of(g, r.Results[min(result, len(r.Results)-1)])...)
				}
			})
		}
	}
	if !found {
		return v.fail(f, c)
	}
	return out
}

// takes reports whether a call by name in f, of a package or a value, refers to a
// function of g. A method is recognised by the name of its receiver, which callers
// use as well.
func (g *function) takes(f *function, of string) bool {
	if g.self == "" && of == g.in.name {
		return true
	}
	return f.in == g.in && of == g.self
}

// verb is one of fmt.
var verb = regexp.MustCompile(`%(\[\d+\])?[a-z]`)

// begin returns the operand at the start of a text expression, or nil.
func begin(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return e.X
	case *ast.CallExpr:
		if _, name := called(e); len(e.Args) > 0 && (name == "Sprintf" || name == unclear) {
			return e.Args[0]
		}
	}
	return nil
}

// first returns the text at the start of an expression, or "".
func first(e ast.Expr) string {
	for begin(e) != nil {
		e = begin(e)
	}
	if l, ok := e.(*ast.BasicLit); ok {
		if s, err := strconv.Unquote(l.Value); err == nil {
			return s
		}
	}
	return ""
}

// ident resolves a name: in its function, the enclosing functions, callers and the
// package.
func (v *valuation) ident(f *function, id *ast.Ident) []string {
	for g := f; g != nil; g = g.parent {
		var out []string
		found := false
		inspect(g.body, func(n ast.Node) {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					if x, ok := l.(*ast.Ident); !ok || x.Name != id.Name {
						continue
					}
					found = true
					if len(n.Rhs) == len(n.Lhs) {
						out = append(out, v.of(g, n.Rhs[i])...)
					} else if c, ok := n.Rhs[0].(*ast.CallExpr); ok {
						out = append(out, v.call(g, c, i)...)
					} else {
						out = append(out, v.fail(g, id)...)
					}
				}
			case *ast.ValueSpec:
				for i, x := range n.Names {
					if x.Name == id.Name && len(n.Values) == len(n.Names) {
						found = true
						out = append(out, v.of(g, n.Values[i])...)
					}
				}
			case *ast.RangeStmt:
				key, isKey := n.Key.(*ast.Ident)
				value, isValue := n.Value.(*ast.Ident)
				if isKey && key.Name == id.Name || isValue && value.Name == id.Name {
					found = true
					v.second = isValue && value.Name == id.Name
					out = append(out, v.of(g, n.X)...)
					v.second = false
				}
			}
		})
		if found {
			return out
		}
		at := 0
		for _, p := range g.kind.Params.List {
			_, rest := p.Type.(*ast.Ellipsis)
			for _, x := range p.Names {
				if x.Name == id.Name {
					return v.callers(g, id, at, rest)
				}
				at++
			}
			if len(p.Names) == 0 {
				at++
			}
		}
	}
	if e, ok := f.in.texts[id.Name]; ok {
		return v.of(f, e)
	}
	return v.fail(f, id)
}

// callers returns the values that callers pass for a parameter.
func (v *valuation) callers(g *function, id *ast.Ident, at int, rest bool) []string {
	if g.name == "" {
		return v.fail(g, id)
	}
	var out []string
	found := false
	for _, s := range v.m.calls[g.name] {
		if of, _ := called(s.call); !g.takes(s.in, of) || len(s.call.Args) <= at && !rest {
			continue
		}
		found = true
		args := s.call.Args[min(at, len(s.call.Args)):]
		if !rest {
			args = args[:1]
		}
		for _, a := range args {
			out = append(out, v.of(s.in, a)...)
		}
	}
	if !found {
		return v.fail(g, id)
	}
	return out
}
