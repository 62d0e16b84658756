package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sources are the files from which MkDocs builds the site, in the tree of the repository.
type sources struct {
	root, dir string          // repository; folder of the sources
	pages     map[string]bool // Markdown files, by path in the repository or in the site
	order     []string        // pages as README.md lists them, then the others by name
	linked    []string        // files and folders that pages link
	added     []section       // generated sections of the navigation
}

// section of the navigation.
type section struct {
	title string
	pages []string
}

// skipped reports whether a folder has no documentation of the program: outputs, data of tests, and what the go command
// ignores. Tests of other packages make and remove folders of the last kind while this one reads.
func skipped(name string) bool {
	switch name {
	case "build", "bin", "runs", "testdata":
		return true
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// markdown copies every Markdown file of the repository, with links to folders replaced by links to pages.
func (s *sources) markdown() error {
	err := filepath.WalkDir(s.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(s.root, p)
		if err != nil {
			return err
		}
		if d.IsDir() && rel != "." && skipped(d.Name()) {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(rel, ".md") {
			s.pages[filepath.ToSlash(rel)] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.sort()
	for _, p := range s.order {
		text, err := os.ReadFile(filepath.Join(s.root, p))
		if err != nil {
			return err
		}
		if err := s.put(p, s.convert(p, text)); err != nil {
			return err
		}
	}
	return nil
}

var target = regexp.MustCompile(`\]\(([^)#\s]+)`)

// sort puts the pages that README.md links first, in its order.
func (s *sources) sort() {
	for p := range s.pages {
		s.order = append(s.order, p)
	}
	slices.Sort(s.order)
	readme, err := os.ReadFile(filepath.Join(s.root, "README.md"))
	if err != nil {
		return
	}
	if _, further, found := bytes.Cut(readme, []byte("\n## Further\n")); found {
		readme = further
	}
	at := map[string]int{"README.md": -1}
	for i, m := range target.FindAllSubmatch(readme, -1) {
		if _, seen := at[string(m[1])]; !seen {
			at[string(m[1])] = i
		}
	}
	place := func(p string) int {
		if i, ok := at[p]; ok {
			return i
		}
		return len(s.order) + len(at)
	}
	slices.SortStableFunc(s.order, func(a, b string) int { return place(a) - place(b) })
}

// convert adapts a page of the repository to MkDocs: a link to a folder becomes a link to its page, and a list or table
// directly below a paragraph gets the empty line that Python-Markdown needs and GitHub does not.
func (s *sources) convert(page string, text []byte) []byte {
	var b bytes.Buffer
	fenced, last := false, ""
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if !fenced {
			if begins.MatchString(line) && strings.TrimSpace(last) != "" && !begins.MatchString(last) && !strings.HasPrefix(last, " ") {
				b.WriteString("\n")
			}
			line = target.ReplaceAllStringFunc(line, func(m string) string { return "](" + s.link(page, m[2:]) })
		}
		b.WriteString(line)
		last = line
	}
	return b.Bytes()
}

// begins matches the first line of a list item or a table row.
var begins = regexp.MustCompile(`^([-*] |\d+\. |\|)`)

var external = regexp.MustCompile(`^([a-z]+:|//)`)

// link gives the target of a link in the site and records what has to be copied.
func (s *sources) link(page, to string) string {
	if external.MatchString(to) {
		return to
	}
	at := path.Join(path.Dir(page), to)
	if strings.HasPrefix(at, "../") || s.pages[at] {
		return to
	}
	info, err := os.Stat(filepath.Join(s.root, at))
	switch {
	case err != nil: // MkDocs reports it
		return to
	case !info.IsDir():
		s.linked = append(s.linked, at)
		return to
	case s.pages[path.Join(at, "README.md")]:
		return path.Join(to, "README.md")
	}
	s.linked = append(s.linked, at)
	return path.Join(to, "index.md")
}

// copyLinked copies files that pages link, and writes a list of the files for folders that they link.
func (s *sources) copyLinked() error {
	slices.Sort(s.linked)
	for _, at := range slices.Compact(s.linked) {
		name := filepath.Join(s.root, at)
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			if err := s.copyFile(at, name); err != nil {
				return err
			}
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "# %s\n\n", at)
		for _, e := range entries {
			file := path.Join(at, e.Name())
			if !e.Type().IsRegular() {
				continue
			}
			if !s.pages[file] {
				if err := s.copyFile(file, filepath.Join(s.root, file)); err != nil {
					return err
				}
			}
			fmt.Fprintf(&b, "- [%s](%s)\n", s.title(file), e.Name())
		}
		if err := s.put(path.Join(at, "index.md"), []byte(b.String())); err != nil {
			return err
		}
	}
	return nil
}

// title is the first heading of a page; of other files, their name.
func (s *sources) title(file string) string {
	if strings.HasSuffix(file, ".md") {
		text, err := os.ReadFile(filepath.Join(s.root, file))
		if line, _, _ := strings.Cut(string(text), "\n"); err == nil && strings.HasPrefix(line, "# ") {
			return strings.TrimPrefix(line, "# ")
		}
	}
	return path.Base(file)
}

func (s *sources) copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return s.put(to, data)
}

func (s *sources) put(name string, data []byte) error {
	name = filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o666)
}

// tabs are the sections of the navigation; a page is in the first that accepts it.
var tabs = []struct {
	title string
	has   func(page string) bool
}{
	{"First steps", func(p string) bool {
		return slices.Contains([]string{"README.md", "docs/quickstart.md", "docs/netcdf.md", "docs/data.md", "docs/configuration.md", "docs/glossary.md", "notebooks/README.md"}, p)
	}},
	{"Formats", under("docs/formats/")},
	{"Development", func(p string) bool {
		return strings.HasPrefix(p, "docs/decisions/") || slices.Contains([]string{"docs/ARCHITECTURE.md", "docs/PLAN.md", "CONTRIBUTING.md", "CHANGELOG.md"}, p)
	}},
	{"Guide", under("docs/")},
	{"Results", func(p string) bool {
		return strings.HasPrefix(p, "experiments/") || strings.HasPrefix(p, "benchmarks/")
	}},
	{"Development", func(string) bool { return true }},
}

// tabOrder is the order of the tabs, generated ones among them.
var tabOrder = []string{"First steps", "Guide", "Gallery", "Results", "Formats", "Commands", "Go packages", "Development"}

func under(dir string) func(string) bool {
	return func(p string) bool { return strings.HasPrefix(p, dir) }
}

// nav is the navigation in the YAML of MkDocs. Titles come from the pages' headings.
func (s *sources) nav() string {
	by := map[string][]string{}
	for _, p := range s.order {
		for _, t := range tabs {
			if t.has(p) {
				by[t.title] = append(by[t.title], p)
				break
			}
		}
	}
	for _, a := range s.added {
		by[a.title] = a.pages
	}
	var b strings.Builder
	for _, title := range tabOrder {
		if len(by[title]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "  - %s:\n", title)
		for _, p := range by[title] {
			fmt.Fprintf(&b, "    - %q\n", p)
		}
	}
	return b.String()
}
