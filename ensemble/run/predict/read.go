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
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/io/product"
)

// readResult is the result of reading an initialisation once.
type readResult struct {
	*preparedInput                    // on a single rank
	forecast       *ensemble.Forecast // fields, if ranks predict together
	warnings       []string
	err            error
}

// readUnlessPublished finds existing products of an initialisation, and meanwhile reads its members, as most
// initialisations are not published yet.
func (in *openInput) readUnlessPublished(ctx context.Context, init ensemble.Init) (there *product.Manifest, got readResult, err error) {
	if in.p.forecaster.ranks != nil { // messages between them have an order
		if there, err = in.findExisting(ctx, init); err != nil || there != nil {
			return there, got, err
		}
		got = in.read(ctx, init, in.tryRead(ctx, init))
		return nil, got, got.err
	}
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan readResult, 1)
	go func() { first <- in.tryRead(rctx, init) }()
	if there, err = in.findExisting(ctx, init); err != nil || there != nil {
		cancel()
		<-first
		return there, got, err
	}
	got = in.read(ctx, init, <-first)
	return nil, got, got.err
}

// tryRead reads the members of one initialisation.
func (in *openInput) tryRead(ctx context.Context, init ensemble.Init) (a readResult) {
	ranks := in.p.forecaster.ranks
	if ranks == nil && in.selection.Available[init].TooFew { // too few members for the network
		return readResult{}
	}
	if ranks == nil {
		a.preparedInput, a.warnings, a.err = in.readAlone(ctx, init)
		return a
	}
	forecasts, warnings, err := in.selection.Read(ctx, []ensemble.Init{init}, ranks)
	if err = ranks.AgreeOnError(err); err != nil {
		return readResult{err: err}
	}
	return readResult{forecast: forecasts[0], warnings: warnings}
}

// readAlone reads the members of one initialisation on one rank and meanwhile builds the network's input,
// with warnings about their values.
//
// Errors: as input.Selection.Read.
func (in *openInput) readAlone(ctx context.Context, init ensemble.Init) (*preparedInput, []string, error) {
	f := in.p.forecaster
	members := in.selection.Available[init].Members
	entries := slices.DeleteFunc(slices.Clone(in.selection.Entries), func(e ensemble.Entry) bool { return e.Init != init })
	b := newBatchFiller(&f.model.Task, in.selection, members, entries)
	b.batch = sync.OnceValues(func() (*task.Batch, error) {
		if f.waitOpen() != nil {
			return nil, nil // reported after reading: faults of the input are more specific
		}
		if err := f.model.SetMemberCount(len(members)); err != nil {
			return nil, nameMemoryFlags(err)
		}
		return &f.model.Network.Batch, nil
	})
	if d := f.model.Drift; d != nil {
		b.driftScore = func(k ensemble.Key, fields [][]float32) (model.DriftScore, bool) {
			mean, std := make([]float32, len(fields[0])), make([]float32, len(fields[0]))
			ensemble.MeanStd(mean, std, fields, samples.SpreadDDOF(len(fields)))
			return d.Score(init, k, d.Boxes.Summarise(mean, std))
		}
	}
	if in.keepsMembers() {
		b.keepMembers()
	}
	warnings, err := b.read(ctx, in.selection, entries)
	if err != nil {
		return nil, nil, err
	}
	batch, err := b.batch()
	if err != nil || batch == nil {
		return nil, warnings, err
	}
	f.model.SortMembers(len(members))
	f.model.Task.FillFixed(batch, init, in.selection.Grid, b.stats)
	if len(entries)*in.selection.Grid.Size() > largeForecast {
		debug.FreeOSMemory() // before the network needs memory
	}
	made := b.preparedInput
	return &made, warnings, nil
}

// largeForecast is the number of values above which freeing their memory is worth a garbage collection.
const largeForecast = 16 << 20

// keepsMembers reports whether the members of the targets are needed later, for products or for the fallback.
func (in *openInput) keepsMembers() bool {
	f := in.p.forecaster
	return in.choice.members || f.model.Spec.PredictsMembers() && f.fallback != ""
}

// read returns the members of one initialisation as they were first read. With bad_messages: skip, fields
// that cannot be decoded count as missing, and the initialisation is read again.
func (in *openInput) read(ctx context.Context, init ensemble.Init, first readResult) readResult {
	if exit.CodeOf(first.err) == exit.BadData && in.p.policy.BadMessages == "skip" {
		if err := in.p.forecaster.ranks.AgreeOnError(in.findUndecodable(ctx, init, first.err)); err != nil { // each rank decodes its own fields
			return readResult{err: err}
		}
		first = in.tryRead(ctx, init)
	}
	return first
}

// findUndecodable finds the fields of an initialisation that cannot be decoded, and selects its members without
// them.
//
// Errors: cause if all can be decoded; those of applyPolicy.
func (in *openInput) findUndecodable(ctx context.Context, init ensemble.Init, cause error) error {
	var of []ensemble.Entry
	for _, e := range in.input.Catalogue().Entries {
		if slices.ContainsFunc(in.selection.Entries, func(u ensemble.Entry) bool {
			return u.Init == init && u.File == e.File && u.Message == e.Message && u.Sub == e.Sub
		}) {
			of = append(of, e)
		}
	}
	of = input.FileOrder(of)
	found := 0
	err := input.ReadEach(ctx, in.input, of, func(int, *ensemble.Field) {}, func(i int, err error) {
		if in.undecoded == nil {
			in.undecoded = map[ensemble.Entry]bool{}
		}
		in.undecoded[of[i]] = true
		if found++; found <= humanise.MaxListed {
			in.tolerated = append(in.tolerated, input.Fault{What: "values cannot be decoded, left out"}.AtEntry(of[i]).Warning())
		}
	})
	switch {
	case err != nil:
		return err
	case found == 0:
		return cause
	case found > humanise.MaxListed:
		in.tolerated = append(in.tolerated, fmt.Sprintf("%d more fields cannot be decoded", found-humanise.MaxListed))
	}
	if err := in.applyPolicy(in.p.policy); err != nil {
		return err
	}
	return in.compareDuplicates(ctx, []ensemble.Init{init})
}
