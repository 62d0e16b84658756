package predict

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	fio "github.com/ensemble-weather/ensemble/io"
)

// opened is an input that is open.
type opened struct {
	p         *prediction
	found     found
	input     *fio.Input
	tolerated []string                 // faults of the input that the policy lets pass
	undecoded map[ensemble.Entry]bool  // fields that cannot be decoded
	inits     []ensemble.Init          // that are not done
	sums      map[string]manifest.File // of the files that this rank has read so far
	view
}

// view is what the policy takes of an input, and what is published of it.
type view struct {
	cat       *ensemble.Catalogue
	ages      map[ensemble.Member]time.Duration
	sel       *input.Selection
	foreign   string // how the input is of another forecast model, "" if it is not
	templates map[templateKey]ensemble.Entry
	choice    *choice
	warnings  []string
}

// open looks through the input, of which some inits are done.
func (p *prediction) open(ctx context.Context, f found, done map[ensemble.Init]bool) (*opened, error) {
	in, err := p.index(ctx, f)
	if err != nil {
		return nil, err
	}
	if err := in.prepare(done); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// prepare chooses what is read of the input, and makes the decoders ready.
func (in *opened) prepare(done map[ensemble.Init]bool) error {
	if err := in.choose(in.p.policy); err != nil {
		return err
	}
	if pool := in.p.pool; slices.ContainsFunc(in.sel.Entries, in.input.InChild) {
		pool.Start(pool.Size())
	}
	if in.sel.From != nil {
		if err := in.sel.From.Prepare(in.sel.Entries); err != nil {
			return err
		}
	}
	if len(in.sel.Inits) == 0 {
		return input.MissingInit(ensemble.InitAt(in.found.cycle), in.cat.Inits())
	}
	in.inits = slices.DeleteFunc(slices.Clone(in.sel.Inits), func(i ensemble.Init) bool { return done[i] })
	return nil
}

// close closes the input, if it is open.
func (in *opened) close() {
	if in != nil {
		in.input.Close()
	}
}

// index opens files as the policy demands.
//
// Errors: those of fio.Open; of damage that the policy does not tolerate.
func (p *prediction) index(ctx context.Context, f found) (*opened, error) {
	skip := p.policy.BadMessages == "skip"
	in := &opened{p: p, found: f, tolerated: slices.Clone(f.left), sums: map[string]manifest.File{}}
	var err error
	if in.input, err = fio.Open(ctx, f.files, fio.Options{Pool: p.pool, SkipBad: skip, SkipFiles: skip, Sparse: p.o.Policy.Sparse,
		Layout: input.LayoutOf(p.policy.Members.Layout), Cache: string(p.o.Policy.IndexCache)}); err != nil {
		return nil, err
	}
	InputOpened(f.files)
	damage := in.input.Damage()
	for i, e := range damage {
		if i == phrase.MaxListed {
			in.tolerated = append(in.tolerated, fmt.Sprintf("%d more damaged messages and files are left out", len(damage)-i))
			break
		}
		in.tolerated = append(in.tolerated, input.Fault{What: e.What + ", left out", At: e.At, Why: e.Why}.Warning())
	}
	return in, nil
}

// InputOpened is a hook that is called when an input was opened; tests change its files then.
var InputOpened = func(files []string) {}

// choose applies a policy to the input, but for the fields that cannot be decoded.
func (in *opened) choose(d *inputPolicy) (err error) {
	f := in.p.forecaster
	v := view{cat: in.input.Catalogue()}
	if in.undecoded != nil {
		v.cat = &ensemble.Catalogue{Entries: v.cat.Select(func(e ensemble.Entry) bool { return !in.undecoded[e] }), Unused: v.cat.Unused}
	}
	only := in.found.cycle
	if age := d.Members.Lagged.MaxAge; age > 0 {
		if v.cat, v.ages, only, err = input.Lag(v.cat, age, only); err != nil {
			return err
		}
	}
	if v.sel, err = selectInput(in.input, v.cat, d, only, in.p.destination()); err != nil {
		return err
	}
	if len(v.sel.Inits) > 0 {
		v.warnings = slices.Concat(f.notes, in.tolerated, v.sel.Warnings)
		if e := foreign(f.model, v.sel.Entries); e != nil {
			if d.OtherModel == "refuse" {
				return e
			}
			v.foreign = fmt.Sprintf("%s: %s", e.What, e.Why)
			v.warnings = append(v.warnings, v.foreign)
		}
		if !v.sel.On(f.model.Grid) {
			return input.GridsDiffer("the input", v.sel.Grid, "the model", f.model.Grid, input.FixRegrid).On(v.sel.Entries[0]).Err()
		}
		v.templates = v.templatesOfInput()
		if v.choice, err = in.p.chooseProducts(v.sel.Grid); err != nil {
			return err
		}
	}
	in.view = v
	return nil
}

// templatesOfInput are the messages of the input that products are made like; none where only a part of the grid is read, as
// messages of the input have another grid.
func (v *view) templatesOfInput() map[templateKey]ensemble.Entry {
	if v.sel.Window != (ensemble.Window{}) {
		return nil
	}
	var used []ensemble.Member
	for _, r := range v.sel.Available {
		used = append(used, r.Members...)
	}
	newest := slices.DeleteFunc(slices.Clone(v.sel.Entries), func(e ensemble.Entry) bool { return v.ages[e.Member] > 0 }) // of others the times are not the product's
	return templates(newest, used, v.sel.Grid)
}

// chooseProducts finds out what is published on the grid of an input, and opens what that needs besides.
func (p *prediction) chooseProducts(grid *ensemble.Grid) (*choice, error) {
	publish := p.o.Publish
	publish.Output.Formats = nil
	for _, f := range p.o.Formats {
		publish.Output.Formats = append(publish.Output.Formats, string(f))
	}
	ch, err := ChooseProducts(p.forecaster.model, publish, grid, p.forecaster.fallback)
	if err != nil {
		return nil, err
	}
	if err = p.openTemplates(context.Background(), ch); err != nil || p.o.Publish.Output.Stations == "" {
		return ch, err
	}
	ch.stations, err = input.SitesOf(context.Background(), p.pool, p.o.Publish.Output, grid)
	return ch, err
}

// destination is the grid of the model, and how fields come there.
func (p *prediction) destination() input.Destination {
	how := p.o.Regrid
	if !how.Asked() {
		how = p.forecaster.model.Interpolation
	}
	return input.Destination{Grid: p.forecaster.model.Grid, How: how, Fix: input.FixRegrid}
}

// foreign says what is of another forecast model than the network was trained on, if
// something is, as the error of those who refuse it.
func foreign(m *model.Model, entries []ensemble.Entry) *exit.Error {
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

// compare reads the fields of some inits that are in the input twice.
//
// Errors: exit 65 for two that differ, unless the policy takes one of them.
func (in *opened) compare(ctx context.Context, inits []ensemble.Init) error {
	for _, r := range in.sel.Repeats {
		if !slices.Contains(inits, r[0].Init) {
			continue
		}
		err := input.Compare(ctx, in.input, [][2]ensemble.Entry{r})
		if exit.CodeOf(err) != exit.BadData || in.p.policy.Duplicates != "first" && in.p.policy.Duplicates != "last" {
			if err != nil {
				return err
			}
			continue
		}
		f := input.Contradiction(r[0], r[1])
		f.Why = "the " + in.p.policy.Duplicates + " one is used"
		in.sel.Contradicted(r[0].Init, f.Warning())
	}
	n := 0
	for _, r := range in.sel.Repeats {
		if slices.Contains(inits, r[0].Init) {
			n++
		}
	}
	if contradicted := in.sel.Contradictions(inits); n > contradicted {
		in.warnings = append(in.warnings, input.Repeated(n-contradicted)...)
	}
	return nil
}

// identity is what all ranks must have alike. Files are told apart by their names and
// the inits in them; each is read, and its checksum made, by the ranks that need it.
func (in *opened) identity() (string, error) {
	f, o := in.p.forecaster, in.p.o
	sum, err := f.modelSum()
	return fmt.Sprint(o.Version, sum, f.trained.ConfigChecksum, in.found.files, o.Policy, o.Out, o.Publish, o.Formats, o.Overwrite, o.Writer, o.Precision, o.Regrid, in.inits), err
}
