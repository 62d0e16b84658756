package main

import (
	"errors"
	"fmt"
	"go/ast"
	gobuild "go/build"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/ensemble-weather/ensemble"

// packages writes a page for each package of the module that programs can import, and an index of them.
func (s *sources) packages() error {
	var dirs []string
	for _, top := range []string{"engine", "ensemble", "io", "notebooks", "postproc", "spatial", "unet3d"} {
		err := filepath.WalkDir(filepath.Join(s.root, top), func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if skipped(d.Name()) || d.Name() == "internal" {
				return filepath.SkipDir
			}
			dirs = append(dirs, p)
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a repository in a test lacks some
			return err
		}
	}
	slices.Sort(dirs)
	index := "# Go packages\n\nWhat other programs and notebooks can import from `" + module + "`.\n\n| package | purpose |\n|---|---|\n"
	pages := []string{"packages/index.md"}
	for _, dir := range dirs {
		p, fset, err := readPackage(dir)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		rel, err := filepath.Rel(s.root, dir)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		page := path.Join("packages", strings.ReplaceAll(rel, "/", "-")+".md")
		if err := s.put(page, []byte(packagePage(p, fset, rel))); err != nil {
			return err
		}
		pages = append(pages, page)
		index += fmt.Sprintf("| [%s](%s) | %s |\n", rel, path.Base(page), strings.ReplaceAll(p.Synopsis(p.Doc), "|", `\|`))
	}
	if len(pages) == 1 {
		return nil
	}
	s.added = append(s.added, section{"Go packages", pages})
	return s.put("packages/index.md", []byte(index))
}

// readPackage reads the documentation of the package in a folder, with its examples; nil for programs, packages for tests
// and folders without Go.
func readPackage(dir string) (*doc.Package, *token.FileSet, error) {
	found, err := gobuild.ImportDir(dir, 0)
	if err != nil || found.Name == "main" || strings.HasSuffix(found.Name, "test") {
		if _, none := err.(*gobuild.NoGoError); err == nil || none {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Concat(found.GoFiles, found.CgoFiles, found.TestGoFiles, found.XTestGoFiles) {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, module+"/"+filepath.ToSlash(dir))
	return p, fset, err
}

// packagePage is the page of a package in Markdown.
func packagePage(p *doc.Package, fset *token.FileSet, rel string) string {
	var b strings.Builder
	printer := p.Printer()
	printer.HeadingLevel = 3
	printer.HeadingID = func(*comment.Heading) string { return "" }
	printer.DocLinkURL = func(*comment.DocLink) string { return "" }
	text := func(doc string) { b.Write(printer.Markdown(p.Parser().Parse(doc))); b.WriteString("\n") }
	code := func(node any) {
		b.WriteString("```go\n")
		_ = format.Node(&b, fset, node)
		b.WriteString("\n```\n\n")
	}
	examples := func(list []*doc.Example) {
		for _, e := range list {
			fmt.Fprintf(&b, "Example%s:\n\n", strings.TrimRight(" "+e.Suffix, " "))
			code(e.Code)
			if e.Output != "" {
				b.WriteString("Output:\n\n```text\n" + e.Output + "```\n\n")
			}
		}
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			code(v.Decl)
			text(v.Doc)
		}
	}
	functions := func(list []*doc.Func) {
		for _, f := range list {
			name := f.Name
			if f.Recv != "" {
				name = "(" + f.Recv + ") " + name
			}
			fmt.Fprintf(&b, "### func %s\n\n", name)
			f.Decl.Body, f.Decl.Doc = nil, nil
			code(f.Decl)
			text(f.Doc)
			examples(f.Examples)
		}
	}
	fmt.Fprintf(&b, "# %s\n\n```go\nimport %q\n```\n\n", rel, module+"/"+rel)
	text(p.Doc)
	examples(p.Examples)
	if len(p.Consts)+len(p.Vars) > 0 {
		b.WriteString("## Constants and variables\n\n")
		values(p.Consts)
		values(p.Vars)
	}
	if len(p.Funcs) > 0 {
		b.WriteString("## Functions\n\n")
		functions(p.Funcs)
	}
	if len(p.Types) > 0 {
		b.WriteString("## Types\n\n")
	}
	for _, t := range p.Types {
		fmt.Fprintf(&b, "### type %s\n\n", t.Name)
		code(t.Decl)
		text(t.Doc)
		examples(t.Examples)
		values(t.Consts)
		values(t.Vars)
		functions(t.Funcs)
		functions(t.Methods)
	}
	return b.String()
}
