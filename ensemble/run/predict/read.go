package predict

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/phrase"
	"github.com/ensemble-weather/ensemble/io/product"
)

// attempt is what came of reading an init once.
type attempt struct {
	*prepared                    // of one rank alone
	forecast  *ensemble.Forecast // of ranks that predict together
	warnings  []string
	err       error
}

// readUnlessThere finds the products of an init that are there already; else it gives its members,
// which it reads meanwhile, as most inits are to be made.
func (in *opened) readUnlessThere(ctx context.Context, init ensemble.Init) (there *product.Manifest, got attempt, err error) {
	if in.p.forecaster.ranks != nil { // whose messages have an order
		if there, err = in.already(init); err != nil || there != nil {
			return there, got, err
		}
		got = in.read(ctx, init, in.attempt(ctx, init))
		return nil, got, got.err
	}
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan attempt, 1)
	go func() { first <- in.attempt(rctx, init) }()
	if there, err = in.already(init); err != nil || there != nil {
		cancel()
		<-first
		return there, got, err
	}
	got = in.read(ctx, init, <-first)
	return nil, got, got.err
}

// attempt reads the members of one init.
func (in *opened) attempt(ctx context.Context, init ensemble.Init) (a attempt) {
	ranks := in.p.forecaster.ranks
	if ranks == nil && in.sel.Available[init].Few { // which the network cannot read
		return attempt{}
	}
	if ranks == nil {
		a.prepared, a.warnings, a.err = in.readAlone(ctx, init)
		return a
	}
	forecasts, warnings, err := in.sel.Read(ctx, []ensemble.Init{init}, ranks)
	if err = ranks.Together(err); err != nil {
		return attempt{err: err}
	}
	return attempt{forecast: forecasts[0], warnings: warnings}
}

// readAlone reads the members of one init and makes the network's input of them meanwhile, with warnings about their values.
//
// Errors: as Selection.Read.
func (in *opened) readAlone(ctx context.Context, init ensemble.Init) (*prepared, []string, error) {
	f := in.p.forecaster
	members := in.sel.Available[init].Members
	wanted := slices.DeleteFunc(slices.Clone(in.sel.Entries), func(e ensemble.Entry) bool { return e.Init != init })
	b := newBatchFiller(&f.model.Task, in.sel, members, wanted)
	b.batch = sync.OnceValues(func() (*task.Batch, error) {
		if f.opened() != nil {
			return nil, nil // which is reported when all is read: faults of the input say more
		}
		if err := f.model.ReadMembers(len(members)); err != nil {
			return nil, named(err)
		}
		return &f.model.Network.Batch, nil
	})
	if d := f.model.Drift; d != nil {
		b.drift = func(k ensemble.Key, fields [][]float32) (model.Strangeness, bool) {
			mean, std := make([]float32, len(fields[0])), make([]float32, len(fields[0]))
			ensemble.MeanStd(mean, std, fields, samples.SpreadDivisor(len(fields)))
			return d.Judge(init, k, d.Boxes.Summarise(mean, std))
		}
	}
	if in.keepsMembers() {
		b.keepMembers()
	}
	warnings, err := b.read(ctx, in.sel, wanted)
	if err != nil {
		return nil, nil, err
	}
	batch, err := b.batch()
	if err != nil || batch == nil {
		return nil, warnings, err
	}
	f.model.InOrder(len(members))
	f.model.Task.Fixed(batch, init, in.sel.Grid, b.stats)
	if len(wanted)*in.sel.Grid.Size() > largeForecast {
		debug.FreeOSMemory() // before the network needs memory
	}
	made := b.prepared
	return &made, warnings, nil
}

// largeForecast is the number of values from which on their memory is worth a collection
// of garbage.
const largeForecast = 16 << 20

// keepsMembers says whether the members of the targets are needed when the network's input is made: for products, or for what
// forecasts in place of a network of members.
func (in *opened) keepsMembers() bool {
	f := in.p.forecaster
	return in.choice.members || f.model.Spec.GivesMembers() && f.fallback != ""
}

// read gives the members of one init as they were read first. Under bad_messages: skip,
// fields that cannot be decoded are missing: it is read again.
func (in *opened) read(ctx context.Context, init ensemble.Init, first attempt) attempt {
	if exit.CodeOf(first.err) == exit.BadData && in.p.policy.BadMessages == "skip" {
		if err := in.p.forecaster.ranks.Together(in.undecodable(ctx, init, first.err)); err != nil { // each looks for itself
			return attempt{err: err}
		}
		first = in.attempt(ctx, init)
	}
	return first
}

// undecodable finds the fields of an init that cannot be decoded, and chooses its members
// without them.
//
// Errors: the one that led here, if all can be decoded; those of choose.
func (in *opened) undecodable(ctx context.Context, init ensemble.Init, cause error) error {
	var of []ensemble.Entry
	for _, e := range in.input.Catalogue().Entries {
		if slices.ContainsFunc(in.sel.Entries, func(u ensemble.Entry) bool {
			return u.Init == init && u.File == e.File && u.Message == e.Message && u.Sub == e.Sub
		}) {
			of = append(of, e)
		}
	}
	of = input.ByPlace(of)
	found := 0
	err := input.ReadEach(ctx, in.input, of, func(int, *ensemble.Field) {}, func(i int, err error) {
		if in.undecoded == nil {
			in.undecoded = map[ensemble.Entry]bool{}
		}
		in.undecoded[of[i]] = true
		if found++; found <= phrase.MaxListed {
			in.tolerated = append(in.tolerated, input.Fault{What: "values cannot be decoded, left out"}.On(of[i]).Warning())
		}
	})
	switch {
	case err != nil:
		return err
	case found == 0:
		return cause
	case found > phrase.MaxListed:
		in.tolerated = append(in.tolerated, fmt.Sprintf("%d more fields cannot be decoded", found-phrase.MaxListed))
	}
	if err := in.choose(in.p.policy); err != nil {
		return err
	}
	return in.compare(ctx, []ensemble.Init{init})
}
