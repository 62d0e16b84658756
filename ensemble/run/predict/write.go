package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/product"
	"golang.org/x/sync/errgroup"
)

// write publishes a product, unless its input changed since it was opened. already reports that identical
// products existed.
func (in *openInput) write(ctx context.Context, q *product.Product, pub product.Publication) (made *product.Manifest, already bool, err error) {
	if err := in.input.VerifyUnchanged(in.fieldFiles(q.Init)...); err != nil {
		return nil, false, err
	}
	return product.Publish(ctx, in.p.pool, in.p.options.Out, q, pub)
}

// publication returns the product of an initialisation without values, and how it is published.
func (in *openInput) publication(ctx context.Context, init ensemble.Init, ch *productChoice) (*product.Product, product.Publication, error) {
	f := in.p.forecaster
	r := in.selection.Available[init]
	pub := product.Publication{Formats: in.p.options.Formats, Overwrite: in.p.options.Overwrite, Accepted: in.found.accepted, Options: in.p.options.Writer, ConfigChecksum: f.manifest.ConfigChecksum,
		ExpectedMembers: in.p.policy.expectedCount(), CompleteMembers: r.Complete, MissingMembers: r.Missing, Degraded: r.Degraded() || len(in.tolerated) > 0, Warnings: slices.Concat(in.p.unlikeRanks, in.tolerated, r.Warnings)}
	q := ch.product(init, r.Members)
	if err := in.setUnits(q); err != nil {
		return nil, pub, err
	}
	sum, err := f.modelChecksum()
	if err != nil {
		return nil, pub, err
	}
	if q.Created = in.p.options.Created; q.Created.IsZero() {
		q.Created = time.Now()
	}
	q.Command, q.Version, q.ModelChecksum = in.found.command, in.p.options.Version, sum
	q.Control = cmp.Or(in.p.options.Policy.Members.Control, q.Control)
	for _, m := range r.Members {
		if in.ages != nil {
			q.MemberAges = append(q.MemberAges, in.ages[m])
		}
	}
	if q.TemplateTimes, err = in.p.templateTimes(ctx, ch, init, r.Members); err != nil {
		return q, pub, err
	}
	files := in.fieldFiles(init)
	if q.TemplateTimes != nil {
		files = append(files, in.p.archive.Files(q.TemplateTimes)...)
		if text := in.p.archive.Without(); text != "" {
			pub.Warnings = append(pub.Warnings, text)
		}
	}
	q.Inputs, err = in.inputFiles(files)
	return q, pub, err
}

// setUnits sets the units of variables outside the vocabulary: those of the training, else of the input.
//
// Errors: exit 65 if the units of the input and the training differ.
func (in *openInput) setUnits(q *product.Product) error {
	given := ensemble.OwnUnits(in.selection.Entries)
	for name, trained := range in.p.forecaster.model.Units {
		if unit, there := given[name]; there && unit != trained {
			return &exit.Error{Code: exit.BadData, What: "another unit of " + name + " than in training", At: input.FileList(in.input.Files()), Why: fmt.Sprintf("%q, in training %q", unit, trained),
				Fix: "convert the input to " + trained + ", or train again"}
		}
	}
	products := []*product.Product{q}
	if q.AtStations != nil {
		products = append(products, q.AtStations)
	}
	for _, p := range products {
		for i, f := range p.Fields {
			p.Fields[i].Unit = cmp.Or(in.p.forecaster.model.Units[f.Variable], given[f.Variable])
		}
	}
	return nil
}

// findExisting returns the manifest of products published before from the same input, as rank 0 finds it; nil if
// there are none.
func (in *openInput) findExisting(ctx context.Context, init ensemble.Init) (*product.Manifest, error) {
	f := in.p.forecaster
	var there *product.Manifest
	var err error
	if f.ranks.IsRoot() {
		there, err = in.readExisting(ctx, init)
	}
	return f.broadcast(there, err)
}

// readExisting is findExisting on one rank.
func (in *openInput) readExisting(ctx context.Context, init ensemble.Init) (*product.Manifest, error) {
	dir, ch := product.InitDir(in.p.options.Out, init), in.choice
	if old, err := product.ReadManifest(dir); err == nil && old.Fallback != "" && ch.fallbackChoice != nil { // its members may have other numbers
		ch = ch.forFallback()
	}
	q, pub, err := in.publication(ctx, init, ch)
	if err != nil {
		return nil, err
	}
	return product.FindPublished(dir, pub.Manifest(q), pub.Overwrite, pub.Accepted)
}

// fieldFiles lists the files that contain the used fields of an initialisation.
func (in *openInput) fieldFiles(init ensemble.Init) []string {
	var out []string
	seen := map[string]bool{}
	for _, e := range in.selection.Entries {
		if e.Init == init && !seen[e.File] {
			seen[e.File], out = true, append(out, e.File)
		}
	}
	return out
}

// inputFiles lists the input files of an initialisation, by name. Order and folders of the command line do not
// influence a product.
func (in *openInput) inputFiles(files []string) ([]manifest.File, error) {
	var out []manifest.File
	unknown := slices.DeleteFunc(slices.Clone(files), func(f string) bool { _, ok := in.checksums[f]; return ok })
	sums := make([]manifest.File, len(unknown))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range unknown {
		g.Go(func() error {
			s, err := manifest.Sum(file)
			if err == nil {
				sums[i] = s[0]
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, file := range unknown {
		in.checksums[file] = sums[i]
	}
	for _, file := range files {
		s := in.checksums[file]
		s.Path = filepath.Base(s.Path)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b manifest.File) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.SHA256, b.SHA256))
	})
	return out, nil
}

// lockPoll is the time between attempts to take a lock that another process holds.
const lockPoll = time.Second

// lockWait limits the time that a rank waits for a lock; after a longer silence the others would count it as
// lost.
const lockWait = config.DefaultStallTimeout / 2

// lock takes the lock of an initialisation's products. If another process holds it, it waits until the
// deadline of the input; products that the other process published meanwhile are returned, as by
// findExisting. Of ranks that predict together rank 0 holds the lock.
//
// Errors: exit 73 if another process still holds the lock at the deadline, or without a deadline; ctx.Err().
func (in *openInput) lock(ctx context.Context, init ensemble.Init) (l *lease.Lease, there *product.Manifest, err error) {
	f := in.p.forecaster
	if f.ranks.IsRoot() {
		if l, err = in.takeLock(ctx, init); err == nil {
			there, err = in.readExisting(ctx, init)
		}
	}
	if there, err = f.broadcast(there, err); err != nil || there != nil {
		return nil, there, errors.Join(err, l.Release())
	}
	return l, nil, nil
}

// takeLock takes the lock on one rank.
func (in *openInput) takeLock(ctx context.Context, init ensemble.Init) (*lease.Lease, error) {
	p, until := in.p, in.found.deadline
	clock := p.options.Clock
	if most := clock.Now().Add(lockWait); p.multiRank && until.After(most) {
		until = most
	}
	return clock.waitForLease(ctx, until, func() (*lease.Lease, error) { return product.Lock(p.options.Out, init) }, p.options.Warn)
}

// waitForLease takes a lease, again and again while another process holds it, until a time. The first time warn gets what it waits for; nil
// drops it.
//
// Errors: those of take; ctx.Err().
func (c Clock) waitForLease(ctx context.Context, until time.Time, take func() (*lease.Lease, error), warn func(string)) (*lease.Lease, error) {
	for first := true; ; first = false {
		l, err := take()
		left := until.Sub(c.Now())
		var e *exit.Error
		if !errors.Is(err, lease.ErrHeld) || left <= 0 || !errors.As(err, &e) {
			return l, err
		}
		if first && warn != nil {
			warn(fmt.Sprintf("waiting until %s: %s: %s: %s", until.UTC().Format(time.RFC3339), e.What, e.At, e.Why))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.Pauses.After(min(lockPoll, left)):
		}
	}
}

// cleanUp removes temporary files that a killed process left at a complete initialisation. Failure to do so is
// only a warning.
func (p *prediction) cleanUp(init ensemble.Init) {
	if !p.forecaster.ranks.IsRoot() {
		return
	}
	if err := product.RemoveAbandoned(p.options.Out, init); err != nil && p.options.Warn != nil {
		p.options.Warn("temporary files of a killed process were not removed: " + strings.ReplaceAll(err.Error(), "\n", ": "))
	}
}

// broadcast gives the result of rank 0 to all ranks that predict together.
func (f *forecaster) broadcast(there *product.Manifest, err error) (*product.Manifest, error) {
	if f.ranks == nil {
		return there, err
	}
	all, err := team.AllGatherOutcomes(f.ranks, team.Outcome[*product.Manifest]{Result: there}, err)
	if err != nil {
		return nil, err
	}
	return all[0].Result, nil
}
