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
	"github.com/ensemble-weather/ensemble/internal/nearest"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Options are the inputs of [Run].
type Options struct {
	Files   []string    // files and folders, as given on the command line
	Targets []string    // what is predicted, such as "2t" and "t@850hPa"; nil: what offices ask for first
	Input   fio.Options // how files are opened
}

// Draft is a configuration of a training.
type Draft struct {
	Config   []byte // YAML with comments
	Warnings []string
}

// Run writes the configuration of a training from what the files contain: the targets, or the one that offices ask for
// first among the variables with analyses, input variables and levels that are complete wherever it is, half of the members as
// input, and periods of training, validation and test with a gap of one lead between them. No values are read.
//
// Errors: as fio.Open; exit 64 for targets that the files do not have, or that one training cannot have; 65 without an
// ensemble, and for fewer than three initialisations with an analysis.
func Run(ctx context.Context, o Options) (*Draft, error) {
	a, err := readArchive(ctx, o)
	if err != nil {
		return nil, err
	}
	p, err := a.plan(o.Targets)
	if err != nil {
		return nil, err
	}
	return &Draft{Config: p.text(o), Warnings: a.warnings}, nil
}

// plan is what a configuration states.
type plan struct {
	*archive
	targets    []quantity
	target     quantity // the first
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
func (a *archive) plan(wanted []string) (*plan, error) {
	if len(a.members) == 0 {
		return nil, noEnsemble(a)
	}
	p := &plan{archive: a}
	if err := p.chooseTargets(wanted); err != nil {
		return nil, err
	}
	if !p.verifiable && len(a.verified) > 0 {
		return nil, a.noCommonVariable()
	}
	p.chooseLead()
	if p.full < 2 {
		return nil, noEnsemble(a)
	}
	if len(p.inits) < 3 {
		return nil, &exit.Error{Code: exit.BadData, What: "too few initialisations to train on", At: humanise.List(variablesOf(p.targets)),
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
	if len(a.unused) > 0 {
		why += fmt.Sprintf("; %s, variable %s is not used: %s", a.unused[0].File, a.unused[0].Name, a.unused[0].Reason)
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
	fix := "give analyses of the variables of the forecasts; or leave the analyses out, to train on the spread of all members"
	if forecast, own := a.quantities()[0], a.ownAnalyses(); len(own) > 0 {
		fix = fmt.Sprintf("if %s is the same quantity under another name, add `--names %s=%s`; else %s", own[0], own[0], forecast.at(), fix)
	}
	return &exit.Error{Code: exit.BadData, What: "no analysis has the variable, level and interval of a forecast", At: "init",
		Why: "the forecasts have " + humanise.List(forecasts) + "; the analyses have " + humanise.List(analyses),
		Fix: fix}
}

// ownAnalyses lists the names in the files of analyses of variables outside the vocabulary, ascending.
func (a *archive) ownAnalyses() (out []string) {
	for q := range a.verified {
		if q.known().Name == "" && a.fileNames[q] != "" {
			out = append(out, a.fileNames[q])
		}
	}
	slices.Sort(out)
	return out
}

// chooseTargets selects the wanted quantities, or the first one with analyses. Without analyses the target is the spread
// of the first quantity.
//
// Errors: exit 64 for a quantity that the forecasts do not have, and for targets of different axes or distributions.
func (p *plan) chooseTargets(wanted []string) error {
	all := p.quantities()
	at := slices.IndexFunc(all, p.hasAnalyses)
	p.verifiable = at >= 0
	p.targets = []quantity{all[max(at, 0)]}
	if len(wanted) > 0 {
		p.targets = nil
	}
	for _, text := range wanted {
		w, err := ensemble.ParseVariableAt(text)
		if err != nil {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid target %q", text), At: "--target", Why: err.Error(), Fix: "write it like `--target t850`, `--target t@850hPa` or `--target 2t`"}
		}
		q, err := p.find(all, w)
		if err != nil {
			return err
		}
		if slices.Contains(p.targets, q) {
			return &exit.Error{Code: exit.Usage, What: "target " + describe(q) + " is given twice", At: "--target", Fix: "give it once"}
		}
		p.targets = append(p.targets, q)
		p.verifiable = p.verifiable && p.hasAnalyses(q)
	}
	p.target = p.targets[0]
	for _, q := range p.targets[1:] {
		why := ""
		switch {
		case q.isSingle() != p.target.isSingle():
			why = "a network has either pressure levels or one level of each variable"
		case p.hasSums() && (p.target.isSigned() || q.isSigned()):
			why = "sums such as tp need a distribution with a probability of 0, which values below 0 do not have"
		}
		if why != "" {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s and %s cannot be targets of one training", describe(p.target), describe(q)), At: "--target", Why: why,
				Fix: fmt.Sprintf("write two configurations: one with --target %s, one with --target %s", p.target.at(), q.at())}
		}
	}
	p.listOthers(all)
	return nil
}

// find returns the first quantity that is wanted, of several one with analyses.
//
// Errors: exit 64, with the nearest one.
func (p *plan) find(all []quantity, w ensemble.VariableAt) (quantity, error) {
	matches := func(q quantity) bool {
		return q.variable == w.Variable && (!w.HasLevel || q.level == w.Level)
	}
	if i := slices.IndexFunc(all, func(q quantity) bool { return matches(q) && p.hasAnalyses(q) }); i >= 0 {
		return all[i], nil
	}
	if i := slices.IndexFunc(all, matches); i >= 0 {
		if len(p.verified) > 0 {
			return quantity{}, p.noCommonVariable()
		}
		return all[i], nil
	}
	var names []string
	for _, q := range all {
		names = append(names, q.at().String())
	}
	fix := "give one of these"
	if near := nearest.Find(w.String(), names); near != "" {
		fix = "did you mean `--target " + near + "`?"
	}
	return quantity{}, &exit.Error{Code: exit.Usage, What: "no ensemble forecast of " + w.String() + " in the files", At: "--target", Why: "the forecasts have " + humanise.List(names), Fix: fix}
}

// hasSums reports whether a target is a sum over an interval, which may be exactly 0.
func (p *plan) hasSums() bool {
	return slices.ContainsFunc(p.targets, func(q quantity) bool { return q.known().Period == "sum" })
}

// variablesOf lists the variables of quantities.
func variablesOf(all []quantity) (out []string) {
	for _, q := range all {
		out = append(out, q.variable)
	}
	return out
}

// listOthers lists the quantities that could be targets too.
func (p *plan) listOthers(all []quantity) {
	for _, q := range all {
		if !slices.Contains(p.targets, q) && q.isSingle() == p.target.isSingle() && (!p.verifiable || p.hasAnalyses(q)) {
			if name := describe(q); !slices.Contains(p.others, name) {
				p.others = append(p.others, name)
			}
		}
	}
}

// chooseLead selects the lead, and the initialisations that have all members of all targets and their analyses there.
func (p *plan) chooseLead() {
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
	for at := range p.members[p.target] {
		if at.lead == lead && !slices.ContainsFunc(p.targets, func(q quantity) bool {
			return p.members[q][at] < p.full || p.verifiable && !p.isVerified(q, at.init.Valid(lead))
		}) {
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
	if slices.ContainsFunc(p.targets, func(q quantity) bool { return q.Statistic != "" }) { // other accumulations may lack earlier leads
		leads = leads[len(leads)-1:]
	}
	p.leads = spaced(leads, maxLeads)
	if p.target.isSingle() {
		p.levels = []ensemble.Level{ensemble.SingleLevel}
	} else {
		var levels []ensemble.Level
		for q := range p.members {
			if slices.Contains(variablesOf(p.targets), q.variable) && q.level.Kind == p.target.level.Kind && (p.isCompleteAtLeads(q) || slices.Contains(p.targets, q)) {
				levels = append(levels, q.level)
			}
		}
		slices.SortFunc(levels, func(a, b ensemble.Level) int { return cmp.Compare(b.Value, a.Value) })
		p.levels = slices.Compact(levels)
		for i := len(p.levels) - 1; i >= 0 && len(p.levels) > maxLevels; i-- { // the levels closest to the target's remain
			if !slices.ContainsFunc(p.targets, func(q quantity) bool { return q.level == p.levels[i] }) {
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
		case slices.Contains(variablesOf(p.targets), q.variable) || p.isInput(q) && statistics[q.variable] == len(p.levels) && !q.IsOpen(q.known().Period):
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
