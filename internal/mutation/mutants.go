// Package mutation measures what tests notice: it makes one small change to a package at a time, a mutant, and runs the tests of the
// package. A mutant that passes them survives, and shows what no test checks.
//
//	report, err := mutation.Run(ctx, "./internal/atomicfile", mutation.Options{Limit: 50, Seed: 1})
//
// Source: DeMillo, Lipton and Sayward 1978, "Hints on test data selection"; operators as in Offutt et al. 1996 (arithmetic, relational
// and logical operators), with removed statements and ignored errors.
package mutation

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mutant is one change to a file.
type Mutant struct {
	File     string // path
	Line     int
	Function string // in which the change is, as in "Reader.Close"; "" outside of functions
	What     string // the change, as in "a < b: < becomes <="
	from, to int    // bytes that are replaced
	by       string
}

// String names the mutant without its folder and line, which other changes move.
func (m Mutant) String() string {
	return fmt.Sprintf("%s %s: %s", filepath.Base(m.File), m.Function, m.What)
}

// apply returns the source of the mutant.
func (m Mutant) apply(src []byte) []byte {
	return slices.Concat(src[:m.from], []byte(m.by), src[m.to:])
}

// otherOperators are the operators that take the place of one.
var otherOperators = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR}, token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.SHL: {token.SHR}, token.SHR: {token.SHL}, token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND},
}

// Of returns the mutants of a file in the order of their places. Some do not compile.
//
// Errors: those of the parser.
func Of(path string, src []byte) ([]Mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := finder{set: set, path: path, src: src}
	for _, d := range tree.Decls {
		f.function = ""
		if fn, ok := d.(*ast.FuncDecl); ok {
			f.function = functionName(fn)
		}
		if g, ok := d.(*ast.GenDecl); ok && g.Tok != token.CONST && g.Tok != token.VAR {
			continue
		}
		ast.Inspect(d, f.visit)
	}
	slices.SortStableFunc(f.all, func(a, b Mutant) int { return a.from - b.from })
	return f.all, nil
}

// functionName is the name of a function, with the type of its receiver.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

// finder collects the mutants of a file.
type finder struct {
	set      *token.FileSet
	path     string
	src      []byte
	function string
	all      []Mutant
}

// offset is the byte of a position.
func (f *finder) offset(p token.Pos) int { return f.set.Position(p).Offset }

// text is the source of a node in one line.
func (f *finder) text(n ast.Node) string {
	s := strings.Join(strings.Fields(string(f.src[f.offset(n.Pos()):f.offset(n.End())])), " ")
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return s
}

// add records that the source of n, from one position to another, is replaced.
func (f *finder) add(n ast.Node, from, to token.Pos, by, how string) {
	f.all = append(f.all, Mutant{File: f.path, Line: f.set.Position(n.Pos()).Line, Function: f.function, What: f.text(n) + ": " + how,
		from: f.offset(from), to: f.offset(to), by: by})
}

// visit records the mutants of one node.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, other := range otherOperators[n.Op] {
			f.add(n, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String(), n.Op.String()+" becomes "+other.String())
		}
	case *ast.IfStmt:
		cond := string(f.src[f.offset(n.Cond.Pos()):f.offset(n.Cond.End())])
		f.add(n.Cond, n.Cond.Pos(), n.Cond.End(), "false && ("+cond+")", "never") // also an error that is ignored
		f.add(n.Cond, n.Cond.Pos(), n.Cond.End(), "true || ("+cond+")", "always")
	case *ast.ExprStmt:
		f.add(n, n.Pos(), n.End(), "", "removed")
	case *ast.DeferStmt:
		f.add(n, n.Pos(), n.End(), "", "removed")
	case *ast.IncDecStmt:
		f.add(n, n.Pos(), n.End(), "", "removed")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			f.add(n, n.Pos(), n.End(), "", "removed")
		}
	case *ast.BranchStmt:
		if n.Tok != token.GOTO && n.Tok != token.FALLTHROUGH {
			f.add(n, n.Pos(), n.End(), "", "removed")
		}
	case *ast.ReturnStmt:
		if len(n.Results) > 0 {
			if last, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && last.Name == "err" {
				f.add(n, last.Pos(), last.End(), "nil", "err becomes nil")
			}
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 0, 32); n.Kind == token.INT && err == nil {
			f.add(n, n.Pos(), n.End(), strconv.FormatInt(v+1, 10), "becomes "+strconv.FormatInt(v+1, 10))
		}
	case *ast.Ident:
		if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
			f.add(n, n.Pos(), n.End(), other, "becomes "+other)
		}
	case *ast.Field: // no expression of a type or tag
		return false
	}
	return true
}
