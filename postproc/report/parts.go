package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// FileLimit is the largest size of a file of a report, for Page.Parts.
//
// Unit: bytes.
const FileLimit = 3_000_000

// Part is one of the files of a report.
type Part struct {
	Name string
	Text []byte
}

// PartName is the name of the n-th file of a report, from 2: index-2.html.
func PartName(name string, n int) string {
	base, extension, _ := strings.Cut(name, ".")
	return fmt.Sprintf("%s-%d.%s", base, n, extension)
}

// partTargets is the number of variables and leads for which the resolution of images is chosen if a page has more: about
// as many as a file has.
const partTargets = 8

// Parts renders the page as one file or, if that exceeds limit bytes, as several. The first has the summary of all variables
// and leads and everything on the first of them, and links to the others, which have the same pictures, maps and tables
// of the following ones. A single variable and lead is never divided.
//
// Errors: those of Write.
func (p *Page) Parts(name string, limit int) ([]Part, error) {
	s, err := p.data()
	if err != nil {
		return nil, err
	}
	whole, err := s.text(nil)
	keys := s.keys()
	if err != nil || len(whole) <= limit || len(keys) < 2 {
		return []Part{{name, whole}}, err
	}
	base, err := s.text(func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	links := 2*len(contents(keys)) + 4000 // at most, for the table of contents with its markup
	files, used := [][]string{nil}, len(base)+links
	for _, k := range keys {
		alone, err := s.text(func(key string) bool { return key == k })
		if err != nil {
			return nil, err
		}
		size, last := len(alone)-len(base), len(files)-1
		if used+size > limit && len(files[last]) > 0 {
			files, used, last = append(files, nil), len(base)+links, last+1
		}
		files[last], used = append(files[last], k), used+size
	}
	var out []Part
	s.Others = &others{All: len(keys), Limit: limit}
	for i, shown := range files {
		of := otherPart{Name: name, Number: i + 1}
		if i > 0 {
			of.Name = PartName(name, i+1)
		}
		of.Content = contents(shown)
		s.Others.Files = append(s.Others.Files, of)
	}
	for i, shown := range files {
		s.Others.Number, s.Others.Shown = i+1, len(shown)
		text, err := s.text(func(key string) bool { return slices.Contains(shown, key) || i == 0 && key == noKey })
		if err != nil {
			return nil, err
		}
		out = append(out, Part{s.Others.Files[i].Name, text})
	}
	return out, nil
}

// others describes what the other files of a report have.
type others struct {
	Number     int // of this file
	Shown, All int // variables and leads
	Limit      int // bytes
	Files      []otherPart
}

// otherPart is a file of a report in a table of contents.
type otherPart struct {
	Name    string
	Number  int
	Content string
}

// Continued reports whether this is not the first file.
func (o *others) Continued() bool { return o != nil && o.Number > 1 }

// Megabytes is the limit in megabytes.
func (o *others) Megabytes() string { return short(float64(o.Limit) / 1e6) }

// keyOf identifies a variable and lead; it is the heading of its scores.
func keyOf(variable, lead string) string { return variable + keyLead + lead }

const keyLead = ", lead "

// noKey is the key of maps without variable.
const noKey = keyLead

// contents lists variables with their leads: "Temperature at 850 hPa (24 h, 48 h); …".
func contents(keys []string) string {
	var variables []string
	leads := map[string][]string{}
	for _, k := range keys {
		variable, lead, _ := strings.Cut(k, keyLead)
		if leads[variable] == nil {
			variables = append(variables, variable)
		}
		leads[variable] = append(leads[variable], lead)
	}
	for i, v := range variables {
		variables[i] = v + " (" + strings.Join(leads[v], ", ") + ")"
	}
	return strings.Join(variables, "; ")
}

// keys lists the variables and leads of a page: the leads of each variable together.
func (s *pageData) keys() (all []string) {
	add := func(k string) {
		if k != noKey && !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	for _, t := range s.panes {
		add(keyOf(t.Target, t.Lead))
	}
	for _, g := range s.groups {
		add(keyOf(g[0].Variable, g[0].Lead))
	}
	for _, t := range s.scored {
		add(t.Name)
	}
	first := map[string]int{} // position of each variable
	variable := func(k string) string { v, _, _ := strings.Cut(k, keyLead); return v }
	for i, k := range all {
		if _, ok := first[variable(k)]; !ok {
			first[variable(k)] = i
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return first[variable(a)] - first[variable(b)] })
	return all
}

// text renders the page with the variables and leads that are selected; nil: all.
func (s *pageData) text(selected func(key string) bool) ([]byte, error) {
	d := *s
	without := func(key string) bool { return selected != nil && !selected(key) }
	d.Glance, d.Picker = choose("g", slices.DeleteFunc(slices.Clone(s.panes), func(t pane) bool { return without(keyOf(t.Target, t.Lead)) }),
		func(t pane) (string, string) { return t.Target, t.Lead })
	d.Maps, d.MapPicker = choose("m", slices.DeleteFunc(slices.Clone(s.groups), func(g []mapRow) bool { return without(keyOf(g[0].Variable, g[0].Lead)) }),
		func(rows []mapRow) (string, string) { return rows[0].Variable, rows[0].Lead })
	d.Targets = slices.DeleteFunc(slices.Clone(s.scored), func(t target) bool { return without(t.Name) })
	for _, k := range []*picker{d.Picker, d.MapPicker} {
		if k != nil {
			d.Pickers = append(d.Pickers, k)
		}
	}
	if d.Others.Continued() {
		d.Page = &Page{Title: fmt.Sprintf("%s, part %d of %d", s.Title, d.Others.Number, len(d.Others.Files)), Scores: s.Scores, Links: []Link{{"Summary", d.Others.Files[0].Name}}}
		d.Brief, d.Skill, d.Curves, d.ByLead = nil, nil, nil, nil
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, &d); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}
