package draft

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// describe names a quantity in a comment: "t 850hPa", "tp sum over 24h".
func describe(q quantity) string {
	out := q.variable
	if !q.isSingle() || q.level != q.known().Level {
		out += " " + q.level.String()
	}
	if q.TimeStatistic != (ensemble.TimeStatistic{}) {
		out += " " + q.TimeStatistic.String()
	}
	return out
}

// list formats a YAML list.
func list(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = config.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// mostNamed is the largest number of files that are named one by one.
const mostNamed = 3

// abbreviate replaces many files by a pattern, if there is one that names exactly them.
func abbreviate(files []string) []string {
	if len(files) <= mostNamed {
		return files
	}
	prefix, suffix := files[0], files[0]
	for _, f := range files[1:] {
		for !strings.HasPrefix(f, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
		for !strings.HasSuffix(f, suffix) {
			suffix = suffix[1:]
		}
	}
	pattern := prefix + "*" + suffix
	sorted := slices.Sorted(slices.Values(files))
	if found, err := filepath.Glob(pattern); err != nil || !slices.Equal(found, sorted) {
		return files
	}
	return []string{pattern}
}

// writer writes lines with an aligned comment.
type writer struct{ bytes.Buffer }

// line writes a line; comment "" is none.
func (w *writer) line(text, comment string) {
	const column = 58
	if comment != "" {
		text = fmt.Sprintf("%-*s # %s", column, text, comment)
	}
	w.WriteString(text + "\n")
}

// text returns the configuration as YAML.
func (p *plan) text(o Options) []byte {
	w := &writer{}
	first, last := p.inits[0], p.inits[len(p.inits)-1]
	from := "`ensemble init " + strings.Join(o.Files, " ") + "`"
	if len(o.Files) > mostNamed {
		from = fmt.Sprintf("`ensemble init` from %d files", len(o.Files))
	}
	w.line(fmt.Sprintf("# Made by %s: %s with %d members, %s to %s.", from, humanise.Count(len(p.inits), "initialisation"), p.full,
		first.Format(time.DateOnly), last.Format(time.DateOnly)), "")
	w.line("# Next: ensemble check -c train.yaml", "")
	w.line("#       ensemble train -c train.yaml --run-dir runs/first", "")
	w.line("# All keys: ensemble config explain", "")
	w.line("version: 1", "")
	p.writeData(w, o)
	p.writeNetwork(w)
	return w.Bytes()
}

// writeData writes the section data.
func (p *plan) writeData(w *writer, o Options) {
	w.line("data:", "")
	w.line("  forecasts: "+list(abbreviate(p.forecasts)), "")
	if p.verifiable {
		w.line("  analyses: "+list(abbreviate(p.analyses)), "")
		if f, a := p.grid[true], p.grid[false]; !f.SameAs(a, 1e-3) {
			w.line("  grid: {to: forecasts}", fmt.Sprintf("analyses (%s) are interpolated to the forecasts' grid (%s)", a, f))
		}
	}
	w.line("  variables: "+list(p.variables), join("input", "not complete here: ", p.leftOut))
	w.line("  levels: "+list(humanise.Strings(p.levels)), "")
	comment := "read by the network"
	if len(p.allLeads) > len(p.leads) {
		comment += fmt.Sprintf("; in the files: %d from %s to %s", len(p.allLeads), p.allLeads[0], p.allLeads[len(p.allLeads)-1])
	}
	w.line("  leads: "+list(humanise.Strings(p.leads)), comment)
	w.line("  target_lead: "+p.lead.String(), "the forecast that is post-processed")
	var targets []string
	for _, q := range p.targets {
		targets = append(targets, p.item(q))
	}
	if len(p.others) > 0 {
		p.others[len(p.others)-1] += ", by --target of init"
	}
	w.line("  targets: ["+strings.Join(targets, ", ")+"]", join("", "also possible: ", p.others))
	p.writeNaming(w, o)
	w.line(fmt.Sprintf("  members: {use: %d, full: %d%s}", (p.full+1)/2, p.full, layout(o)), fmt.Sprintf("%d of %d are read; scores compare with all", (p.full+1)/2, p.full))
	p.writeSplit(w)
}

// item returns the item of data.targets of a quantity.
func (p *plan) item(q quantity) string {
	levels := []ensemble.Level{q.level}
	if q.isSingle() {
		levels = p.levels
	}
	text := fmt.Sprintf("{variable: %s, levels: %s", config.Quote(q.variable), list(humanise.Strings(levels)))
	if s := q.TimeStatistic; s.Statistic != "" {
		text += ", statistic: " + s.Statistic
		if s.Interval != 0 {
			text += ", interval: " + s.Interval.String()
		}
	}
	return text + "}"
}

// writeNaming writes the names and units that were stated or guessed, and leads that were stated.
func (p *plan) writeNaming(w *writer, o Options) {
	stated := o.Input.Naming.Over(p.guessed)
	n := config.Naming{Names: config.FileNames{Of: stated.Names}, Units: config.FileUnits{Of: stated.Units}, Leads: config.FileLeads{Of: stated.Leads}}
	if len(stated.Names) > 0 {
		comment := ""
		if len(p.guessed.Names) > 0 {
			comment = "guessed from names in the files: correct what is wrong"
		}
		w.line("  names: "+n.Names.String(), comment)
	}
	if len(stated.Units) > 0 {
		w.line("  units: "+n.Units.String(), "")
	}
	if len(stated.Leads) > 0 {
		w.line("  file_leads: "+n.Leads.String(), "of forecast files that state none")
	}
}

// layout returns the keys of data.members for options that were given.
func layout(o Options) (out string) {
	m := o.Input.Members
	if m.FromName != nil {
		out += ", filename_pattern: " + config.Quote(m.FromName.String())
	}
	if len(m.Centres) > 0 {
		out += ", centres: " + list(m.Centres)
	}
	for _, k := range []struct {
		set  bool
		text string
	}{{m.Percentiles, "percentiles: members"}, {m.Unnumbered, "unnumbered: control"}, {m.Pairs, "pairs: members"}} {
		if k.set {
			out += ", " + k.text
		}
	}
	return out
}

// join joins the parts of a comment.
func join(first, label string, names []string) string {
	if len(names) == 0 {
		return first
	}
	if first != "" {
		first += "; "
	}
	return first + label + humanise.List(names)
}

// writeSplit writes the periods: whole years if there are three with eight initialisations each, else shares of 70, 15
// and 15 %. Initialisations less than one lead after a period are left out: what they forecast was trained on.
func (p *plan) writeSplit(w *writer) {
	train, validation := p.boundaries()
	periods := []struct {
		name     string
		from, to int // initialisations, half-open
	}{{"train", 0, train}, {"validation", train, validation}, {"test", validation, len(p.inits)}}
	w.line("  split:", fmt.Sprintf("by date of the initialisation, with gaps of at least %s", p.lead))
	var end time.Time
	for _, s := range periods {
		inits := p.inits[s.from:s.to]
		if after := slices.IndexFunc(inits, func(i ensemble.Init) bool { return i.Sub(end) > time.Duration(p.lead) }); after > 0 && !end.IsZero() {
			inits = inits[after:]
		}
		from, to := inits[0], inits[len(inits)-1]
		end = to.Time
		w.line(fmt.Sprintf("    %s: {from: %s, to: %s}", s.name, date(from), date(to)), humanise.Count(len(inits), "initialisation"))
	}
}

// date formats the date of an initialisation, with its time unless that is midnight.
func date(i ensemble.Init) string {
	if h := i.Truncate(24 * time.Hour); h.Equal(i.Time) {
		return i.Format(time.DateOnly)
	}
	return i.Format(time.RFC3339)
}

// boundaries returns the numbers of the first initialisations of validation and test.
func (p *plan) boundaries() (validation, test int) {
	const fewest = 8
	var years []int // first initialisation of each year
	for i, init := range p.inits {
		if i == 0 || init.Year() != p.inits[i-1].Year() {
			years = append(years, i)
		}
	}
	n := len(p.inits)
	if k := len(years); k >= 3 && n-years[k-1] >= fewest && years[k-1]-years[k-2] >= fewest {
		return years[k-2], years[k-1]
	}
	test = min(n-1, n*85/100)
	return max(1, min(test-1, n*70/100)), test
}

// writeNetwork writes the sections model and train, as fits grid and target.
func (p *plan) writeNetwork(w *writer) {
	g, small := p.grid[true], 8
	n := stages(g)
	model := fmt.Sprintf("model: {kind: unet3d, base: %d, stages: %d", small, n)
	if n < 1 || !g.Rectangular() {
		model = "model: {kind: drn, base: 32"
	}
	switch {
	case !p.verifiable:
		model += ", head: spread"
	case p.hasSums() && !slices.ContainsFunc(p.targets, func(q quantity) bool { return q.known().Period != "sum" }):
		model += ", head: distribution, family: censored_shifted_gamma"
	case p.hasSums(): // with variables above 0, for which censoring at 0 changes nothing
		model += ", head: distribution, family: censored_normal"
	}
	w.line(model+"}", "for the grid "+g.String())
	if !p.verifiable {
		w.line("train: {loss: {kind: mse}}", "no analyses were given: the target is the spread of all members")
	}
}
