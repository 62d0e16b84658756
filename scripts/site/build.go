package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

//go:embed page.html
var pageSource string

//go:embed style.css
var style []byte

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// page is one page of the site.
type page struct {
	source  string // path in the repository, "docs/products.md"; empty for what is generated
	target  string // path in the site, "docs/products.html"
	title   string
	section string
	body    template.HTML
	anchors map[string]bool
	links   []link
}

// link is a reference within the site, as it stands in a source.
type link struct{ written, target, anchor string }

// site is what is being made.
type site struct {
	root  string
	pages []*page          // in the order of navigation
	by    map[string]*page // by source
	files map[string]bool  // that pages link and that are copied
	lists map[string]bool  // folders that pages link and that have no README.md
	dead  []string
}

// build makes the site and names the links that lead nowhere.
func build(root, out, man, version string) (dead []string, err error) {
	s := &site{root: root, by: map[string]*page{}, files: map[string]bool{}, lists: map[string]bool{}}
	if err := s.find(); err != nil {
		return nil, err
	}
	for _, p := range slices.Clone(s.pages) {
		if err := s.convert(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p.source, err)
		}
	}
	s.listFolders()
	if man != "" {
		if err := s.manual(man); err != nil {
			return nil, err
		}
	}
	s.check()
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	return s.dead, s.write(out, version)
}

// skipped are folders without documentation of the program.
var skipped = map[string]bool{"build": true, "bin": true, "runs": true, "testdata": true, ".git": true}

// find lists the sources: README.md, those that its last section links, in that order,
// then the rest.
func (s *site) find() error {
	var all []string
	err := filepath.WalkDir(s.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(s.root, p)
		if d.IsDir() && (skipped[d.Name()] || strings.HasPrefix(d.Name(), ".") && rel != ".") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(rel, ".md") {
			all = append(all, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		return err
	}
	readme, err := os.ReadFile(filepath.Join(s.root, "README.md"))
	if err != nil {
		return err
	}
	if _, further, found := bytes.Cut(readme, []byte("\n## Further\n")); found {
		readme = further
	}
	order := map[string]int{"README.md": -1} // the page that says the order
	for i, m := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllSubmatch(readme, -1) {
		if _, seen := order[string(m[1])]; !seen {
			order[string(m[1])] = i
		}
	}
	rank := func(p string) int {
		if i, ok := order[p]; ok {
			return i
		}
		return len(order) + 1000
	}
	slices.Sort(all)
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	for _, sec := range sections {
		for _, p := range all {
			if s.by[p] == nil && sec.has(p) {
				q := &page{source: p, target: target(p), section: sec.title, anchors: map[string]bool{}}
				s.pages, s.by[p] = append(s.pages, q), q
			}
		}
	}
	return nil
}

// sections of the navigation; a page is in the first that has it.
var sections = []struct {
	title string
	has   func(string) bool
}{
	{"Start", func(p string) bool {
		return slices.Contains([]string{"README.md", "docs/quickstart.md", "docs/data.md", "docs/configuration.md", "notebooks/README.md"}, p)
	}},
	{"Formats", under("docs/formats/")},
	{"Decisions", under("docs/decisions/")},
	{"Guide", under("docs/")},
	{"Experiments", under("experiments/")},
	{"More", func(string) bool { return true }},
}

// shownOrder is how the sections follow each other beside a page.
var shownOrder = []string{"Start", "Guide", "Formats", "Experiments", "More", "Decisions", "Manual pages"}

func under(dir string) func(string) bool {
	return func(p string) bool { return strings.HasPrefix(p, dir) }
}

// target is where the page of a source lies: README.md is the page of its folder.
func target(source string) string {
	if path.Base(source) == "README.md" {
		return path.Join(path.Dir(source), "index.html")
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithXHTML()))

// convert makes the body of a page, with links to pages in place of those to sources.
func (s *site) convert(p *page) error {
	src, err := os.ReadFile(filepath.Join(s.root, p.source))
	if err != nil {
		return err
	}
	ids := &slugs{seen: p.anchors}
	doc := markdown.Parser().Parse(text.NewReader(src), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if p.title == "" {
				p.title = plain(n, src)
			}
		case *ast.Link:
			n.Destination = []byte(s.resolve(p, string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(s.resolve(p, string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	if p.title == "" {
		p.title = p.source
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, src, doc); err != nil {
		return err
	}
	p.body = template.HTML(b.String())
	return nil
}

// plain is the text of a heading.
func plain(n ast.Node, src []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(src))
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

var elsewhere = regexp.MustCompile(`^([a-z]+:|//)`)

// resolve gives what a link of a source becomes, and remembers what it needs.
func (s *site) resolve(p *page, written string) string {
	if elsewhere.MatchString(written) {
		return written
	}
	name, anchor, hasAnchor := strings.Cut(written, "#")
	if name == "" {
		p.links = append(p.links, link{written, p.target, anchor})
		return written
	}
	at := path.Join(path.Dir(p.source), name)
	to := at
	info, err := os.Stat(filepath.Join(s.root, at))
	switch {
	case err != nil || strings.HasPrefix(at, "../"):
		s.dead = append(s.dead, p.source+": "+written)
		return written
	case info.IsDir() && s.by[path.Join(at, "README.md")] != nil:
		to = path.Join(at, "index.html")
	case info.IsDir():
		s.lists[at] = true
		to = path.Join(at, "index.html")
	case strings.HasSuffix(at, ".md"):
		to = target(at)
	default:
		s.files[at] = true
	}
	p.links = append(p.links, link{written, to, anchor})
	rel, err := filepath.Rel(path.Dir(p.target), to)
	if err != nil {
		rel = to
	}
	if hasAnchor {
		rel += "#" + anchor
	}
	return filepath.ToSlash(rel)
}

// listFolders makes pages of folders that are linked and have none: what lies in them.
func (s *site) listFolders() {
	for _, dir := range sorted(s.lists) {
		p := &page{target: path.Join(dir, "index.html"), title: dir, section: "", anchors: map[string]bool{}}
		var b strings.Builder
		fmt.Fprintf(&b, "<h1>%s</h1>\n<ul>\n", template.HTMLEscapeString(dir))
		entries, err := os.ReadDir(filepath.Join(s.root, dir))
		if err != nil {
			s.dead = append(s.dead, dir+": "+err.Error())
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			switch q := s.by[name]; {
			case q != nil:
				fmt.Fprintf(&b, "<li><a href=%q>%s</a></li>\n", path.Base(q.target), template.HTMLEscapeString(q.title))
			case e.Type().IsRegular():
				s.files[name] = true
				fmt.Fprintf(&b, "<li><a href=%q>%s</a></li>\n", e.Name(), template.HTMLEscapeString(e.Name()))
			}
		}
		p.body = template.HTML(b.String() + "</ul>\n")
		s.pages = append(s.pages, p)
	}
}

// manual makes pages of the manual pages by mandoc.
func (s *site) manual(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "man*", "*"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, f := range files {
		var b bytes.Buffer
		cmd := exec.Command("mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html", f)
		cmd.Stdout, cmd.Stderr = &b, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("mandoc %s: %w", f, err)
		}
		name := filepath.Base(f)
		title := strings.TrimSuffix(name, filepath.Ext(name)) + "(" + strings.TrimPrefix(filepath.Ext(name), ".") + ")"
		// References of man(7) are bold names; those of pages that are here become links.
		body := reference.ReplaceAllStringFunc(b.String(), func(m string) string {
			g := reference.FindStringSubmatch(m)
			to := g[1] + "." + g[2]
			if !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == to }) {
				return m
			}
			return fmt.Sprintf(`<a href="%s.html">%s(%s)</a>`, to, g[1], g[2])
		})
		s.pages = append(s.pages, &page{target: "man/" + name + ".html", title: title, section: "Manual pages", anchors: map[string]bool{},
			body: template.HTML(`<div class="man">` + body + "</div>")})
	}
	return nil
}

var reference = regexp.MustCompile(`<b>([a-z][a-z.-]*)</b>\(([15])\)`)

// check looks whether every link has its page, file and anchor.
func (s *site) check() {
	pages := map[string]*page{}
	for _, p := range s.pages {
		pages[p.target] = p
	}
	for _, p := range s.pages {
		for _, l := range p.links {
			q := pages[l.target]
			if q == nil && !s.files[l.target] || q != nil && l.anchor != "" && !q.anchors[l.anchor] {
				s.dead = append(s.dead, p.source+": "+l.written)
			}
		}
	}
	slices.Sort(s.dead)
	s.dead = slices.Compact(s.dead)
}

// slugs names headings as the places do where the sources are mostly read: in lower
// case, without punctuation, with hyphens for spaces.
type slugs struct{ seen map[string]bool }

// Generate gives the anchor of a heading.
func (g *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	id := name
	for i := 1; g.seen[id]; i++ {
		id = fmt.Sprintf("%s-%d", name, i)
	}
	g.seen[id] = true
	return util.EscapeHTML([]byte(id))
}

// Put takes an anchor that a source gives itself.
func (g *slugs) Put(value []byte) { g.seen[string(value)] = true }

func sorted(set map[string]bool) []string {
	var all []string
	for k := range set {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// entry is a page in the navigation beside another one.
type entry struct {
	Title, Href string
	Here        bool
}

type navSection struct {
	Title   string
	Open    bool
	Entries []entry
}

func (s *site) write(out, version string) error {
	for _, p := range s.pages {
		relative := func(to string) string {
			rel, err := filepath.Rel(path.Dir(p.target), to)
			if err != nil {
				return to
			}
			return filepath.ToSlash(rel)
		}
		var nav []navSection
		for _, title := range shownOrder {
			n := navSection{Title: title, Open: title == "Start" || title == "Guide" || title == p.section}
			for _, q := range s.pages {
				if q.section == title {
					n.Entries = append(n.Entries, entry{q.title, relative(q.target), q == p})
				}
			}
			if n.Entries != nil {
				nav = append(nav, n)
			}
		}
		var b bytes.Buffer
		if err := pageTemplate.Execute(&b, map[string]any{"Title": p.title, "Style": relative("style.css"), "Home": relative("index.html"), "Body": p.body, "Nav": nav,
			"Source": p.source, "Version": version}); err != nil {
			return err
		}
		if err := put(filepath.Join(out, p.target), b.Bytes()); err != nil {
			return err
		}
	}
	for _, f := range sorted(s.files) {
		data, err := os.ReadFile(filepath.Join(s.root, f))
		if err != nil {
			return err
		}
		if err := put(filepath.Join(out, f), data); err != nil {
			return err
		}
	}
	return put(filepath.Join(out, "style.css"), style)
}

func put(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o666)
}
