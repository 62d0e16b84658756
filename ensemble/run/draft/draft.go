package draft

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Options are the inputs of [Run].
type Options struct {
	Files []string    // files and folders, as given on the command line
	Input fio.Options // how files are opened
}

// Draft is a configuration of a training.
type Draft struct {
	Config   []byte // YAML with comments
	Warnings []string
}

// Run writes the configuration of a training from what the files contain: the target that offices ask for first among
// the variables with analyses, input variables and levels that are complete wherever it is, half of the members as
// input, and periods of training, validation and test with a gap of one lead between them. No values are read.
//
// Errors: as fio.Open; exit 65 without an ensemble, and for fewer than three initialisations with an analysis.
func Run(ctx context.Context, o Options) (*Draft, error) {
	a, err := readArchive(ctx, o)
	if err != nil {
		return nil, err
	}
	p, err := a.plan()
	if err != nil {
		return nil, err
	}
	return &Draft{Config: p.text(o), Warnings: a.warnings}, nil
}

// plan is what a configuration states.
type plan struct {
	*archive
	target     quantity
	lead       ensemble.Lead
	leads      []ensemble.Lead // of the input, with that of the target
	allLeads   []ensemble.Lead
	levels     []ensemble.Level
	variables  []string
	leftOut    []string // variables that are not complete where the target is
	others     []string // further possible targets
	full       int      // members
	inits      []ensemble.Init
	verifiable bool // analyses exist: else the target is the spread
}

// maxLeads and maxLevels bound the input of a first training.
const (
	maxLeads  = 3
	maxLevels = 4
)

// plan chooses target, input and initialisations.
func (a *archive) plan() (*plan, error) {
	if len(a.members) == 0 {
		return nil, noEnsemble(a)
	}
	p := &plan{archive: a}
	if p.chooseTarget(); !p.verifiable && len(a.verified) > 0 {
		return nil, a.noCommonVariable()
	}
	if p.full < 2 {
		return nil, noEnsemble(a)
	}
	if len(p.inits) < 3 {
		return nil, &exit.Error{Code: exit.BadData, What: "too few initialisations to train on", At: p.target.variable,
			Why: fmt.Sprintf("%d of its initialisations have %d members and an analysis at lead %s, want at least 3", len(p.inits), p.full, p.lead),
			Fix: "add forecasts of past dates and their analyses"}
	}
	p.chooseInput()
	return p, nil
}

// noEnsemble is the error for files without members.
func noEnsemble(a *archive) error {
	why := "no field has a member number"
	if len(a.members) > 0 {
		why = "no variable has two members"
	}
	return &exit.Error{Code: exit.BadData, What: "no ensemble forecast in the files", At: "init", Why: why,
		Fix: "give forecasts of all members; if the member number is in the file name only, add --filename-pattern '([0-9]+)'; `ensemble inspect FILE` lists what was found"}
}

// noCommonVariable is the error for analyses of other variables or levels than those of the forecasts.
func (a *archive) noCommonVariable() error {
	var analyses []string
	for q := range a.verified {
		analyses = append(analyses, describe(q))
	}
	slices.Sort(analyses)
	var forecasts []string
	for _, q := range a.quantities() {
		forecasts = append(forecasts, describe(q))
	}
	return &exit.Error{Code: exit.BadData, What: "no analysis has the variable, level and interval of a forecast", At: "init",
		Why: "the forecasts have " + humanise.List(forecasts) + "; the analyses have " + humanise.List(analyses),
		Fix: "give analyses of the variables of the forecasts; or leave the analyses out, to train on the spread of all members"}
}

// chooseTarget selects the first quantity with analyses, its lead, and the initialisations that have all members and
// an analysis there. Without analyses the target is the spread of the first quantity.
func (p *plan) chooseTarget() {
	all := p.quantities()
	at := slices.IndexFunc(all, p.hasAnalyses)
	if p.verifiable = at >= 0; !p.verifiable {
		at = 0
	}
	p.target = all[at]
	for _, q := range all {
		if q != p.target && q.isSingle() == p.target.isSingle() && (!p.verifiable || p.hasAnalyses(q)) {
			if name := describe(q); !slices.Contains(p.others, name) {
				p.others = append(p.others, name)
			}
		}
	}
	p.allLeads = p.archive.leads(p.target)
	count := map[int]int{}
	for _, n := range p.members[p.target] {
		count[n]++
	}
	for n, places := range count {
		if best := count[p.full]; places > best || places == best && n > p.full {
			p.full = n
		}
	}
	for _, lead := range p.allLeads {
		if inits := p.complete(lead); lead > 0 && len(inits) >= len(p.inits) || p.inits == nil {
			p.lead, p.inits = lead, inits // the latest lead with the most initialisations
		}
	}
}

// complete lists the initialisations with all members of the target at a lead, and an analysis.
func (p *plan) complete(lead ensemble.Lead) []ensemble.Init {
	out := []ensemble.Init{}
	for at, n := range p.members[p.target] {
		if at.lead == lead && n >= p.full && (!p.verifiable || p.isVerified(p.target, at.init.Valid(lead))) {
			out = append(out, at.init)
		}
	}
	slices.SortFunc(out, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
	return out
}

// isComplete reports whether a quantity has all members at a lead of each initialisation.
func (p *plan) isComplete(q quantity, lead ensemble.Lead) bool {
	for _, init := range p.inits {
		if p.members[q][place{init, lead}] < p.full {
			return false
		}
	}
	return true
}

// chooseInput selects leads up to that of the target, levels, and the variables that are complete there.
func (p *plan) chooseInput() {
	var leads []ensemble.Lead
	for _, lead := range p.allLeads {
		if lead <= p.lead && p.isComplete(p.target, lead) {
			leads = append(leads, lead)
		}
	}
	if p.target.Statistic != "" { // other accumulations may lack earlier leads
		leads = leads[len(leads)-1:]
	}
	p.leads = spaced(leads, maxLeads)
	if p.target.isSingle() {
		p.levels = []ensemble.Level{ensemble.SingleLevel}
	} else {
		var levels []ensemble.Level
		for q := range p.members {
			if q.variable == p.target.variable && q.level.Kind == p.target.level.Kind && p.isCompleteAtLeads(q) {
				levels = append(levels, q.level)
			}
		}
		slices.SortFunc(levels, func(a, b ensemble.Level) int { return cmp.Compare(b.Value, a.Value) })
		p.levels = slices.Compact(levels)
		for i := len(p.levels) - 1; i >= 0 && len(p.levels) > maxLevels; i-- { // the levels closest to the target's remain
			if p.levels[i] != p.target.level {
				p.levels = slices.Delete(p.levels, i, i+1)
			}
		}
	}
	statistics := map[string]int{} // quantities of each variable at one level
	for q := range p.members {
		if p.isInput(q) {
			statistics[q.variable]++
		}
	}
	for _, q := range p.quantities() {
		switch {
		case slices.Contains(p.variables, q.variable) || slices.Contains(p.leftOut, q.variable):
		case q.variable == p.target.variable || p.isInput(q) && statistics[q.variable] == len(p.levels) && !q.IsOpen(q.known().Period):
			p.variables = append(p.variables, q.variable)
		default:
			p.leftOut = append(p.leftOut, q.variable)
		}
	}
}

// isCompleteAtLeads reports whether a quantity is complete at all leads of the input.
func (p *plan) isCompleteAtLeads(q quantity) bool {
	return !slices.ContainsFunc(p.leads, func(lead ensemble.Lead) bool { return !p.isComplete(q, lead) })
}

// isInput reports whether a quantity is on a level of the input and complete at its leads.
func (p *plan) isInput(q quantity) bool {
	onLevel := slices.Contains(p.levels, q.level)
	if p.target.isSingle() {
		onLevel = q.isSingle()
	}
	return onLevel && p.isCompleteAtLeads(q)
}

// spaced returns all, or most of them if there are more: the first, the last and evenly spaced ones between.
func spaced[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	out := make([]T, most)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(most-1)]
	}
	return out
}

// stages is the number of halvings of a U-Net for a grid: at least four rows and columns remain.
func stages(g *ensemble.Grid) int {
	return min(3, bits.Len(uint(max(1, min(g.NX, g.NY)/4)))-1)
}
