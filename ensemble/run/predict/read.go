package predict

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// index opens files as the policy demands: what it tolerates is in p.tolerated.
//
// Errors: those of fio.Open; of damage that the policy does not tolerate.
func (p *prediction) index(ctx context.Context, files []string) (err error) {
	skip := p.demand.BadMessages == "skip"
	p.tolerated, p.undecoded = slices.Clone(p.left), nil
	p.release()
	if p.input, err = fio.Open(ctx, files, fio.Options{Pool: p.pool, SkipBad: skip, SkipFiles: skip, Sparse: p.o.Policy.Sparse,
		Layout: input.LayoutOf(p.demand.Members.Layout), Cache: string(p.o.Policy.IndexCache)}); err != nil {
		return err
	}
	InputOpened(files)
	damage := p.input.Damage()
	for i, e := range damage {
		if i == phrase.MaxListed {
			p.tolerated = append(p.tolerated, fmt.Sprintf("%d more damaged messages and files are left out", len(damage)-i))
			break
		}
		p.tolerated = append(p.tolerated, input.Fault{What: e.What + ", left out", At: e.At, Why: e.Why}.Warning())
	}
	return nil
}

// InputOpened is told that an input was opened; tests change its files then.
var InputOpened = func(files []string) {}

// choose applies a demand to the input that is open, but for the fields that cannot be
// decoded.
func (p *prediction) choose(d *demand) (err error) {
	p.cat, p.foreign = p.input.Catalogue(), ""
	if p.undecoded != nil {
		p.cat = &ensemble.Catalogue{Entries: p.cat.Select(func(e ensemble.Entry) bool { return !p.undecoded[e] }), Unused: p.cat.Unused}
	}
	only := p.o.Cycle
	if age := d.Members.Lagged.MaxAge; age > 0 {
		if p.cat, p.ages, only, err = input.Lag(p.cat, age, only); err != nil {
			return err
		}
	}
	if p.in, err = selectInput(p.input, p.cat, d, only, p.destination()); err != nil || len(p.in.Inits) == 0 {
		return err
	}
	p.warnings = slices.Concat(p.standing, p.tolerated, p.in.Warnings)
	if f := stranger(p.model, p.in.Entries); f != nil {
		if d.OtherModel == "refuse" {
			return f
		}
		p.foreign = fmt.Sprintf("%s: %s", f.What, f.Why)
		p.warnings = append(p.warnings, p.foreign)
	}
	if !p.in.On(p.model.Grid) {
		return input.GridsDiffer("the input", p.in.Grid, "the model", p.model.Grid, input.FixRegrid).On(p.in.Entries[0]).Err()
	}
	var used []ensemble.Member
	newest := slices.DeleteFunc(slices.Clone(p.in.Entries), func(e ensemble.Entry) bool { return p.ages[e.Member] > 0 }) // of others the times are not the product's
	for _, r := range p.in.Rations {
		used = append(used, r.Members...)
	}
	if p.templates = nil; p.in.Window == (ensemble.Window{}) { // else messages of the input have another grid
		p.templates = templates(newest, used, p.in.Grid)
	}
	publish := p.o.Publish
	publish.Output.Formats = nil
	for _, f := range p.o.Formats {
		publish.Output.Formats = append(publish.Output.Formats, string(f))
	}
	if p.choice, err = ChooseProducts(p.model, publish, p.in.Grid, p.rung); err != nil {
		return err
	}
	if err = p.openTemplates(context.Background()); err != nil || p.o.Publish.Output.Stations == "" {
		return err
	}
	p.choice.stations, err = input.SitesOf(context.Background(), p.pool, p.o.Publish.Output, p.in.Grid)
	return err
}

// destination is the grid of the model, and how fields come there.
func (p *prediction) destination() input.Destination {
	how := p.o.Regrid
	if !how.Asked() {
		how = p.model.Interpolation
	}
	return input.Destination{Grid: p.model.Grid, How: how, Fix: input.FixRegrid}
}

// stranger says what is of another forecast model than the network was trained on, if
// something is, as the error of those who refuse it.
func stranger(m *model.Model, entries []ensemble.Entry) *exit.Error {
	for _, o := range ensemble.Origins(entries) {
		if m.Origins == nil || slices.ContainsFunc(m.Origins, o.Like) {
			continue
		}
		known := make([]string, len(m.Origins))
		for i, k := range m.Origins {
			known[i] = k.String()
		}
		at := slices.IndexFunc(entries, func(e ensemble.Entry) bool {
			return slices.Equal(ensemble.Origins([]ensemble.Entry{e}), []ensemble.Origin{o})
		})
		return &exit.Error{Code: exit.BadData, What: "the input is of another forecast model than the network was trained on", At: input.Place([]string{entries[at].File}),
			Why: fmt.Sprintf("fields are of %s; it learned the errors of %s", o, strings.Join(known, " and of ")),
			Fix: "train on forecasts of this model, or set other_model: warn and judge the products with `ensemble verify`"}
	}
	return nil
}

// compare reads the fields of some starts that are in the input twice.
//
// Errors: exit 65 for two that differ, unless the policy takes one of them.
func (p *prediction) compare(ctx context.Context, inits []ensemble.Init) error {
	for _, r := range p.in.Repeats {
		if !slices.Contains(inits, r[0].Init) {
			continue
		}
		err := input.Compare(ctx, p.input, [][2]ensemble.Entry{r})
		if exit.CodeOf(err) != exit.BadData || p.demand.Duplicates != "first" && p.demand.Duplicates != "last" {
			if err != nil {
				return err
			}
			continue
		}
		f := input.Contradiction(r[0], r[1])
		f.Why = "the " + p.demand.Duplicates + " one is used"
		p.in.Contradicted(r[0].Init, f.Warning())
	}
	n := 0
	for _, r := range p.in.Repeats {
		if slices.Contains(inits, r[0].Init) {
			n++
		}
	}
	if contradicted := p.in.Contradictions(inits); n > contradicted {
		p.warnings = append(p.warnings, input.Repeated(n-contradicted)...)
	}
	return nil
}

// attempt is what came of reading a start once.
type attempt struct {
	*started                    // of one rank alone
	forecast *ensemble.Forecast // of ranks that predict together
	warnings []string
	err      error
}

// look finds the products of a start that are there already; else it gives its members,
// which it reads meanwhile, as most starts are to be made.
func (p *prediction) look(ctx context.Context, init ensemble.Init) (there *product.Manifest, got attempt, err error) {
	if p.ranks != nil { // whose messages have an order
		if there, err = p.already(init); err != nil || there != nil {
			return there, got, err
		}
		got = p.read(ctx, init, p.attempt(ctx, init))
		return nil, got, got.err
	}
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan attempt, 1)
	go func() { first <- p.attempt(rctx, init) }()
	if there, err = p.already(init); err != nil || there != nil {
		cancel()
		<-first
		return there, got, err
	}
	got = p.read(ctx, init, <-first)
	return nil, got, got.err
}

// attempt reads the members of one start.
func (p *prediction) attempt(ctx context.Context, init ensemble.Init) (a attempt) {
	if p.ranks == nil && p.in.Rations[init].Few { // which the network cannot read
		return attempt{}
	}
	if p.ranks == nil {
		wanted := slices.DeleteFunc(slices.Clone(p.in.Entries), func(e ensemble.Entry) bool { return e.Init != init })
		a.started, a.warnings, a.err = newIntake(p, init, p.in.Rations[init].Members, wanted).read(ctx, wanted)
		return a
	}
	forecasts, warnings, err := p.in.Read(ctx, []ensemble.Init{init}, p.ranks)
	if err = p.ranks.Together(err); err != nil {
		return attempt{err: err}
	}
	return attempt{forecast: forecasts[0], warnings: warnings}
}

// read gives the members of one start as they were read first. Under bad_messages: skip,
// fields that cannot be decoded are missing: it is read again.
func (p *prediction) read(ctx context.Context, init ensemble.Init, first attempt) attempt {
	if exit.CodeOf(first.err) == exit.BadData && p.demand.BadMessages == "skip" {
		if err := p.ranks.Together(p.undecodable(ctx, init, first.err)); err != nil { // each looks for itself
			return attempt{err: err}
		}
		first = p.attempt(ctx, init)
	}
	return first
}

// undecodable finds the fields of a start that cannot be decoded, and chooses its members
// without them.
//
// Errors: the one that led here, if all can be decoded; those of choose.
func (p *prediction) undecodable(ctx context.Context, init ensemble.Init, cause error) error {
	var of []ensemble.Entry
	for _, e := range p.input.Catalogue().Entries {
		if slices.ContainsFunc(p.in.Entries, func(u ensemble.Entry) bool {
			return u.Init == init && u.File == e.File && u.Message == e.Message && u.Sub == e.Sub
		}) {
			of = append(of, e)
		}
	}
	of = input.ByPlace(of)
	found := 0
	err := input.ReadEach(ctx, p.input, of, func(int, *ensemble.Field) {}, func(i int, err error) {
		if p.undecoded == nil {
			p.undecoded = map[ensemble.Entry]bool{}
		}
		p.undecoded[of[i]] = true
		if found++; found <= phrase.MaxListed {
			p.tolerated = append(p.tolerated, input.Fault{What: "values cannot be decoded, left out"}.On(of[i]).Warning())
		}
	})
	switch {
	case err != nil:
		return err
	case found == 0:
		return cause
	case found > phrase.MaxListed:
		p.tolerated = append(p.tolerated, fmt.Sprintf("%d more fields cannot be decoded", found-phrase.MaxListed))
	}
	if err := p.choose(p.demand); err != nil {
		return err
	}
	return p.compare(ctx, []ensemble.Init{init})
}
