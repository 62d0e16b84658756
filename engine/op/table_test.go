package op

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTable scans the package: every definition is listed once and is complete.
func TestTable(t *testing.T) {
	listed := map[string]bool{}
	for _, o := range Table {
		if listed[o.Name] {
			t.Errorf("%s is listed twice", o.Name)
		}
		listed[o.Name] = true
		switch {
		case len(o.Doc) < 10 || !strings.HasSuffix(o.Doc, "."):
			t.Errorf("%s: doc %q is no sentence", o.Name, o.Doc)
		case o.Source == "":
			t.Errorf("%s has no source", o.Name)
		case (o.Grad == nil) == (o.NoGrad == ""):
			t.Errorf("%s needs a gradient or a reason for having none, not both", o.Name)
		case o.Shape == nil || o.Ref == nil || o.FLOPs == nil || o.Bytes == nil || o.Window == nil:
			t.Errorf("%s lacks a rule", o.Name)
		case len(o.Cases) == 0:
			t.Errorf("%s has no case for the conformance suite", o.Name)
		}
		if Find(o.Name) != o {
			t.Errorf("Find(%q) finds another operation", o.Name)
		}
	}
	defined := definitions(t)
	for name, at := range defined {
		if !listed[name] {
			t.Errorf("%s: operation %s is not in the table", at, name)
		}
	}
	if len(defined) != len(Table) {
		t.Errorf("%d operations defined, %d listed", len(defined), len(Table))
	}
}

// definitions returns the operation names in literals of Spec and unary.
func definitions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		definitionsIn(t, set, file, found)
	}
	return found
}

// definitionsIn adds the definitions of one file to found.
func definitionsIn(t *testing.T, set *token.FileSet, file *ast.File, found map[string]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		kind := ""
		switch typ := lit.Type.(type) {
		case *ast.IndexExpr:
			if id, ok := typ.X.(*ast.Ident); ok {
				kind = id.Name
			}
		case *ast.Ident:
			kind = typ.Name
		}
		if kind != "Spec" && kind != "unary" {
			return true
		}
		for _, e := range lit.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok || kv.Key.(*ast.Ident).Name != "Name" {
				continue
			}
			v, ok := kv.Value.(*ast.BasicLit)
			if !ok {
				continue // inside defineUnary, whose name is a parameter
			}
			name, err := strconv.Unquote(v.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = set.Position(lit.Pos()).String()
			if kind == "unary" {
				found[name+"_grad"] = found[name]
			}
		}
		return true
	})
}
