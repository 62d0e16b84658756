package predict

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	fio "github.com/ensemble-weather/ensemble/io"
)

// openInput is an open input.
type openInput struct {
	p         *prediction
	found     inputFiles
	input     *fio.Input
	tolerated []string                 // faults of the input that the policy tolerates
	undecoded map[ensemble.Entry]bool  // fields that cannot be decoded
	inits     []ensemble.Init          // initialisations that are not done
	checksums map[string]manifest.File // checksums of the files that this rank has read so far
	inputView
}

// inputView is the part of an input that the policy accepts, and what is published of it.
type inputView struct {
	catalogue  *ensemble.Catalogue
	ages       map[ensemble.Member]time.Duration // age of members in a lagged ensemble
	selection  *input.Selection
	otherModel string // how the input is of another forecast model; "" if it is not
	templates  map[templateKey]ensemble.Entry
	choice     *productChoice
	warnings   []string
}

// open opens the input, of which some initialisations are done.
func (p *prediction) open(ctx context.Context, f inputFiles, done map[ensemble.Init]bool) (*openInput, error) {
	in, err := p.openFiles(ctx, f)
	if err != nil {
		return nil, err
	}
	if err := in.prepare(done); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// prepare selects what is read of the input, and starts the decoders.
func (in *openInput) prepare(done map[ensemble.Init]bool) error {
	if err := in.applyPolicy(in.p.policy); err != nil {
		return err
	}
	if slices.ContainsFunc(in.selection.Entries, in.input.NeedsDecoder) {
		if err := in.p.pool.Start(in.input.Files()); err != nil {
			return err
		}
	}
	if in.selection.Reader != nil {
		if err := in.selection.Reader.Prepare(in.selection.Entries); err != nil {
			return err
		}
	}
	if len(in.selection.Inits) == 0 {
		return input.MissingInitError(ensemble.InitAt(in.found.init), in.catalogue.Inits())
	}
	in.inits = slices.DeleteFunc(slices.Clone(in.selection.Inits), func(i ensemble.Init) bool { return done[i] })
	return nil
}

// close closes the input if it is open.
func (in *openInput) close() {
	if in != nil {
		in.input.Close()
	}
}

// openFiles opens files by the input policy.
//
// Errors: those of fio.Open; damage that the policy does not tolerate.
func (p *prediction) openFiles(ctx context.Context, f inputFiles) (*openInput, error) {
	skip := p.policy.BadMessages == "skip"
	in := &openInput{p: p, found: f, tolerated: slices.Clone(f.leftOut), checksums: map[string]manifest.File{}}
	of := !f.init.IsZero() // damage of other initialisations has no influence
	var err error
	if in.input, err = fio.Open(ctx, f.files, fio.Options{Pool: p.pool, SkipBad: skip || of, SkipFiles: skip || of, Sparse: p.options.Policy.AllowMissingChunks,
		Members: input.LayoutOf(p.policy.Members.MemberLayout), Cache: string(p.options.Policy.IndexCache), Naming: p.naming()}); err != nil {
		return nil, err
	}
	damage := in.input.DamageOf(func(i ensemble.Init) bool {
		age := f.init.Sub(i.Time)
		return !of || age >= 0 && age <= p.policy.Members.Lagged.MaxAge
	})
	err = input.CheckNaming(p.options.Policy.Stated(), "", in.input)
	if err == nil && !skip {
		err = cmp.Or(fio.JoinDamage(damage), input.CheckUsable(in.input, f.files))
	}
	for _, e := range damage {
		if err == nil && e.Code != exit.BadData { // bad_messages: skip is for damage, not for permissions or the disk
			err = e
		}
	}
	if err != nil {
		in.input.Close()
		return nil, err
	}
	InputOpened(f.files)
	for i, e := range damage {
		if i == humanise.MaxListed {
			in.tolerated = append(in.tolerated, fmt.Sprintf("%d more damaged messages and files are left out", len(damage)-i))
			break
		}
		in.tolerated = append(in.tolerated, input.Fault{What: e.What + ", left out", At: e.At, Why: e.Why}.Warning())
	}
	return in, nil
}

// naming returns what the training states of the names and units of its files, and predict.yaml in place of it.
func (p *prediction) naming() ensemble.Naming {
	return p.options.Policy.Stated().Over(p.forecaster.model.Naming).In(ensemble.ForecastFiles)
}

// InputOpened is a hook that is called after an input was opened; tests change its files in it.
var InputOpened = func(files []string) {}

// applyPolicy applies the policy to the input, without fields that cannot be decoded.
func (in *openInput) applyPolicy(d *inputPolicy) (err error) {
	f := in.p.forecaster
	v := inputView{catalogue: in.input.Catalogue()}
	if in.undecoded != nil {
		v.catalogue = &ensemble.Catalogue{Entries: v.catalogue.Select(func(e ensemble.Entry) bool { return !in.undecoded[e] }), Unused: v.catalogue.Unused}
	}
	only := in.found.init
	if age := d.Members.Lagged.MaxAge; age > 0 {
		if v.catalogue, v.ages, only, err = input.LaggedEnsemble(v.catalogue, age, only); err != nil {
			return err
		}
	}
	if v.selection, err = selectInput(in.input, v.catalogue, d, only, in.p.destination()); err != nil {
		return err
	}
	if len(v.selection.Inits) > 0 {
		v.warnings = slices.Concat(in.p.unlikeRanks, f.warnings, f.slowInt8(cpu.HasFastInt8()), in.tolerated, v.selection.Warnings)
		if e := checkOrigin(f.model, v.selection.Entries); e != nil {
			if d.OnModelMismatch == "refuse" {
				return e
			}
			v.otherModel = fmt.Sprintf("%s: %s", e.What, e.Why)
			v.warnings = append(v.warnings, v.otherModel)
		}
		if !v.selection.CropTo(f.model.Grid) {
			return input.GridMismatchFault("the input", v.selection.Grid, "the model", f.model.Grid, input.FixRegrid).AtEntry(v.selection.Entries[0]).AsError()
		}
		v.templates = v.inputTemplates()
		if v.choice, err = in.p.chooseProducts(v.selection.Grid); err != nil {
			return err
		}
		v.warnings = append(v.warnings, v.choice.unitWarnings()...)
	}
	in.inputView = v
	return nil
}

// inputTemplates returns the template messages of the products; nil if only a part of the grid is read, as
// messages of the input have another grid then.
func (v *inputView) inputTemplates() map[templateKey]ensemble.Entry {
	if v.selection.Window != (ensemble.Window{}) {
		return nil
	}
	var used []ensemble.Member
	for _, r := range v.selection.Available {
		used = append(used, r.Members...)
	}
	newest := slices.DeleteFunc(slices.Clone(v.selection.Entries), func(e ensemble.Entry) bool { return v.ages[e.Member] > 0 }) // older members of a lagged ensemble have other times
	return templates(newest, used, v.selection.Grid)
}

// chooseProducts selects what is published on the grid of an input, and opens the files that this needs.
func (p *prediction) chooseProducts(grid *ensemble.Grid) (*productChoice, error) {
	publish := p.options.Publish
	publish.Output.Formats = nil
	for _, f := range p.options.Formats {
		publish.Output.Formats = append(publish.Output.Formats, string(f))
	}
	ch, err := ChooseProducts(p.forecaster.model, publish, grid, p.forecaster.fallback)
	if err != nil {
		return nil, err
	}
	if err = p.openTemplates(context.Background(), ch); err != nil || p.options.Publish.Output.Stations == "" {
		return ch, err
	}
	ch.stations, err = input.NewStationInterpolator(context.Background(), p.pool, p.options.Publish.Output, grid)
	return ch, err
}

// destination is the grid of the model, and the interpolation to it.
func (p *prediction) destination() input.Destination {
	how := p.options.Regrid
	if !how.IsEnabled() {
		how = p.forecaster.model.Interpolation
	}
	return input.Destination{Grid: p.forecaster.model.Grid, How: how, Fix: input.FixRegrid}
}

// checkOrigin checks that the input comes from a forecast model that the network was trained on. It returns the
// error for policies that refuse others; nil if the origin matches or is unknown.
func checkOrigin(m *model.Model, entries []ensemble.Entry) *exit.Error {
	for _, o := range ensemble.Origins(entries) {
		if m.Origins == nil || slices.ContainsFunc(m.Origins, o.Matches) {
			continue
		}
		known := make([]string, len(m.Origins))
		for i, k := range m.Origins {
			known[i] = k.String()
		}
		at := slices.IndexFunc(entries, func(e ensemble.Entry) bool {
			return slices.Equal(ensemble.Origins([]ensemble.Entry{e}), []ensemble.Origin{o})
		})
		return &exit.Error{Code: exit.BadData, What: "the input comes from another forecast model than the training data", At: input.FileList([]string{entries[at].File}),
			Why: fmt.Sprintf("the input is from %s, the network corrects errors of %s", o, strings.Join(known, " and of ")),
			Fix: "train on forecasts of this model, or set on_model_mismatch: warn and verify the products with `ensemble verify`"}
	}
	return nil
}

// compareDuplicates compares fields of some initialisations that are in the input twice.
//
// Errors: exit 65 if two differ, unless the policy uses the first or the last.
func (in *openInput) compareDuplicates(ctx context.Context, inits []ensemble.Init) error {
	for _, r := range in.selection.Duplicates {
		if !slices.Contains(inits, r[0].Init) {
			continue
		}
		err := input.CompareDuplicates(ctx, in.input, [][2]ensemble.Entry{r})
		if exit.CodeOf(err) != exit.BadData || in.p.policy.Duplicates != "first" && in.p.policy.Duplicates != "last" {
			if err != nil {
				return err
			}
			continue
		}
		f := input.ConflictFault(r[0], r[1])
		f.Why = "the " + in.p.policy.Duplicates + " one is used"
		in.selection.AddConflict(r[0].Init, f.Warning())
	}
	n := 0
	for _, r := range in.selection.Duplicates {
		if slices.Contains(inits, r[0].Init) {
			n++
		}
	}
	if contradicted := in.selection.ConflictCount(inits); n > contradicted {
		in.warnings = append(in.warnings, input.DuplicateWarning(n-contradicted)...)
	}
	return nil
}

// identity returns what all ranks must agree on. Input files enter with their names and initialisations; the
// ranks that need a file read it and compute its checksum.
func (in *openInput) identity() (string, error) {
	f, o := in.p.forecaster, in.p.options
	sum, err := f.modelChecksum()
	var lines []string
	for _, x := range []any{"model " + sum, f.manifest.ConfigChecksum, in.found.files, o.Policy, o.Out, o.Publish, o.Formats, o.Overwrite, o.Writer, o.Precision, o.Regrid, in.inits} {
		lines = append(lines, fmt.Sprint(x))
	}
	return strings.Join(lines, "\n"), err
}
