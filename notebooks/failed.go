package notebooks

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// failing is a value that can carry an error instead of its content.
type failing[T any] interface {
	*T
	setErr(error)
}

// must returns x. On an error in a declaration of the notebook, which the kernel executes again in each later cell,
// it returns a value with this error, so that only cells that use the value end. Elsewhere it ends the cell.
func must[T any, P failing[T]](x P, err error) P {
	if err == nil {
		return x
	}
	d, ok := findDeclaration()
	if !ok || exit.CodeOf(err) == exit.SaveAndStop { // an interrupted cell ends
		exitOnError(err)
	}
	failed := P(new(T))
	failed.setErr(d.report(err))
	return failed
}

// failedDeclaration is the error of a declaration, whose text has been printed.
type failedDeclaration struct{ of *exit.Error }

// Unwrap makes the error available to exit.CodeOf.
func (f failedDeclaration) Unwrap() error { return f.of }

// Error formats the error.
func (f failedDeclaration) Error() string { return f.of.Error() }

// declaration is a variable that the program declares outside of functions.
type declaration struct {
	name string // "" if the source is not available
	only bool   // the cell has declarations and nothing else
}

// remove returns the command of the kernel that removes the declaration.
func (d declaration) remove() string {
	if d.name == "" {
		return "`%rm NAME` removes the declaration"
	}
	return fmt.Sprintf("`%%rm %s` removes the declaration", d.name)
}

// report prints the error of a declaration: all of it in the first cell, if that has declarations only; one line in other
// cells, where the use of the value prints the rest. An error that an earlier declaration reported is not printed.
func (d declaration) report(err error) error {
	if _, known := err.(failedDeclaration); known {
		return err
	}
	e := *answer.Error(err)
	if e.Fix == "" {
		e.Fix = d.remove()
	} else {
		e.Fix += "; " + d.remove()
	}
	if d.only && d.isNew(&e) {
		fmt.Fprintln(&lineLimiter{w: os.Stderr, left: MaxLines - 1}, "ensemble: "+e.Error())
	} else {
		fmt.Fprintf(os.Stderr, "ensemble: warning: %s has no value: %s; %s\n", cmp.Or(d.name, "a variable"), e.What, e.Fix)
	}
	return failedDeclaration{&e}
}

// isNew reports whether the kernel has not executed the declaration with this error before. The folder of the kernel,
// which it removes at its end, has a file for each of them.
func (d declaration) isNew(e *exit.Error) bool {
	dir := os.Getenv("GONB_TMP_DIR")
	if dir == "" {
		return true
	}
	f, err := os.OpenFile(filepath.Join(dir, "failed-"+contentKey(d.name, e.Error())), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return !os.IsExist(err)
	}
	return f.Close() == nil
}

// findDeclaration returns the declaration that the caller initialises. ok is false within functions of the notebook,
// such as main.
func findDeclaration() (d declaration, ok bool) {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		f, more := frames.Next()
		if f.Function == "main.init" {
			return declarationAt(f.File, f.Line), true
		}
		if !more {
			return d, false
		}
	}
}

// declarationAt finds the declaration in the source of the program. A program built without paths has only the name
// of its file; the kernel states the folder.
func declarationAt(file string, line int) (d declaration) {
	if dir := os.Getenv("GONB_TMP_DIR"); dir != "" {
		file = filepath.Join(dir, filepath.Base(file))
	}
	files := token.NewFileSet()
	source, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return declaration{only: true}
	}
	for _, one := range source.Decls {
		switch one := one.(type) {
		case *ast.FuncDecl:
			if one.Name.Name == "main" {
				d.only = len(one.Body.List) <= 1 // the kernel adds a call of flag.Parse
			}
		case *ast.GenDecl:
			for _, spec := range one.Specs {
				v, is := spec.(*ast.ValueSpec)
				if is && files.Position(v.Pos()).Line <= line && line <= files.Position(v.End()).Line {
					d.name = v.Names[0].Name
				}
			}
		}
	}
	return d
}
