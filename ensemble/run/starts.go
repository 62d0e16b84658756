package run

import (
	"context"
	"io"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
)

// source has the starts of a training, of each this rank's slab: those of the training
// first, then those of validation and test.
type source = loader.Loader[*store.Sample]

// examples are the starts of a part of the split, ascending. They are read as they are
// needed.
type examples struct {
	inits    []ensemble.Init
	from     *source
	first    int  // number of the first start among the samples
	analysed bool // they have analyses
}

// starts gives some starts one after the other.
type starts struct{ *loader.Stream[*store.Sample] }

// stream begins to read the examples in an order; nil is that of their dates.
func (e examples) stream(ctx context.Context, order []int) starts {
	reads := make([]int, len(order))
	if order == nil {
		reads = make([]int, len(e.inits))
		for i := range reads {
			reads[i] = e.first + i
		}
	}
	for i, k := range order {
		reads[i] = e.first + k
	}
	return starts{e.from.Stream(ctx, reads)}
}

// next gives the next start, which may be used until the next call, with the analyses of the target
// leads; none for a task that needs none.
func (s starts) next() (*ensemble.Forecast, []*ensemble.Analysis, error) {
	x, err := s.Next()
	if err != nil {
		return nil, nil, err
	}
	return x.Forecast, x.Analyses, nil
}

// each calls f with all examples in order. Several ranks, which then all call it, end
// together when one of them cannot read.
func (e examples) each(ctx context.Context, ranks *team.Team, f func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error) error {
	s := e.stream(ctx, nil)
	defer s.Close()
	for i := range e.inits {
		fc, a, err := s.next()
		if err := ranks.Together(err); err != nil {
			return err
		}
		if err := f(i, fc, a); err != nil {
			return err
		}
	}
	return nil
}

// divided gives each part of a split its examples of the samples.
func (d *data) divided(from *source, analysed bool) {
	d.source = from
	first := 0
	for _, p := range []struct {
		inits []ensemble.Init
		to    *examples
	}{{d.split.Train, &d.train}, {d.split.Validation, &d.validation}, {d.split.Test, &d.test}} {
		*p.to = examples{p.inits, from, first, analysed}
		first += len(p.inits)
	}
}

// inits are those of all samples.
func inits(s ensemble.Split) []ensemble.Init {
	var all []ensemble.Init
	for _, p := range [][]ensemble.Init{s.Train, s.Validation, s.Test} {
		all = append(all, p...)
	}
	return all
}

// past are the examples before the test.
func (d *data) past() examples {
	p := d.train
	p.inits = inits(ensemble.Split{Train: d.split.Train, Validation: d.split.Validation})
	return p
}

// schedule says which starts this rank reads when, in the training of one network from some of
// those of the training; nil are all.
func (d *data) schedule(c config.Training, network int, only []int) (s loader.Schedule, reader int) {
	s = loader.Schedule{Seed: seedOf(c, network), Samples: len(d.train.inits), Only: only, Epochs: c.Epochs, Batch: c.BatchSize, Readers: 1, Fill: true,
		Validation: len(d.validation.inits), Test: len(d.test.inits)}
	if d.ranks != nil && d.ranks.Rows > 0 {
		s.Readers, reader = d.ranks.Rows, d.ranks.Mesh.Along(d.ranks.Comm.Rank(), "data")
	}
	return s, reader
}

// inputCosts is what steps of a training have cost a rank, and what of it they waited for
// their batches.
type inputCosts struct {
	steps, waited time.Duration
	counts        loader.Counts
}

// since is what was added to earlier costs.
func (c inputCosts) since(earlier inputCosts) inputCosts {
	return inputCosts{c.steps - earlier.steps, c.waited - earlier.waited, c.counts.Since(earlier.counts)}
}

// share is the part of the time of steps that they waited.
func (c inputCosts) share() float64 {
	if c.steps == 0 {
		return 0
	}
	return c.waited.Seconds() / c.steps.Seconds()
}

func (c inputCosts) result() TrainInput {
	return TrainInput{c.steps.Seconds(), c.waited.Seconds(), c.share(), c.counts.Memory, c.counts.Disk, c.counts.Peers, c.counts.FileSystem}
}

// values are the costs as values of an event; of starts that are not read from a store only
// the time.
func (c inputCosts) values(stored bool) []rundir.Value {
	out := []rundir.Value{{Name: "steps_s", Value: c.steps.Seconds()}, {Name: "input_waited_s", Value: c.waited.Seconds()}}
	if !stored {
		return out
	}
	out = append(out, rundir.Value{Name: "starts_waited_s", Value: c.counts.Waited.Seconds()})
	for _, from := range []struct {
		name string
		n    loader.Count
	}{{"staged", c.counts.Staged}, {"memory", c.counts.Memory}, {"disk_cache", c.counts.Disk}, {"peers", c.counts.Peers}, {"file_system", c.counts.FileSystem}} {
		out = append(out, rundir.Value{Name: from.name + "_reads", Value: from.n.Reads}, rundir.Value{Name: from.name + "_bytes", Value: from.n.Bytes})
	}
	return out
}

// storedStarts reads starts from a store.
type storedStarts struct {
	*store.Selected
	inits []ensemble.Init
}

// Read is that of loader.Origin.
func (s storedStarts) Read(ctx context.Context, k int, room *store.Sample, copy io.WriterAt) (*store.Sample, error) {
	return s.Selected.Read(ctx, s.inits[k], room, copy)
}

// ReadCopy is that of loader.Origin.
func (s storedStarts) ReadCopy(ctx context.Context, k int, room *store.Sample, copy io.ReaderAt) (*store.Sample, error) {
	return s.Selected.ReadCopy(ctx, s.inits[k], room, copy)
}

// Room is that of loader.Portable.
func (s storedStarts) Room(k int, room *store.Sample) *store.Sample {
	return s.Selected.Room(s.inits[k], room)
}

// Memory is that of loader.Portable.
func (s storedStarts) Memory(x *store.Sample) [][]byte {
	values := [][]byte{bigmem.Bytes(x.Forecast.Values)}
	for _, a := range x.Analyses {
		values = append(values, bigmem.Bytes(a.Values))
	}
	return values
}

// bytesOfValue is the size of a value in memory.
const bytesOfValue = 4

// bytesOf is the memory of each of some samples, which are alike.
func bytesOf(s []*store.Sample) (bytes int64) {
	if len(s) > 0 {
		bytes = bytesOfValue * int64(len(s[0].Forecast.Values))
		for _, a := range s[0].Analyses {
			bytes += bytesOfValue * int64(len(a.Values))
		}
	}
	return bytes
}

// Size is that of loader.Origin.
func (s storedStarts) Size() loader.Size {
	stored, span := s.Bytes()
	return loader.Size{Memory: bytesOfValue * s.Values(), Stored: stored, Span: span}
}
