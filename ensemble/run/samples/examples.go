package samples

import (
	"context"
	"io"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
)

// source loads the samples of a training, of each this rank's slab: training samples first, then validation
// and test.
type source = loader.Loader[*store.Sample]

// Examples are the samples of one part of the split, ascending. They are read when needed.
type Examples struct {
	Inits    []ensemble.Init
	from     *source
	first    int  // index of the first sample in the source
	Analysed bool // they have analyses
}

// ExampleStream iterates over samples.
type ExampleStream struct{ *loader.Stream[*store.Sample] }

// Stream starts to read the samples in an order; nil is by date.
func (e Examples) Stream(ctx context.Context, order []int) ExampleStream {
	return ExampleStream{e.from.Stream(ctx, e.reads(order))}
}

// reads returns the numbers of samples in the source.
func (e Examples) reads(order []int) []int {
	reads := make([]int, len(order))
	if order == nil {
		reads = make([]int, len(e.Inits))
		for i := range reads {
			reads[i] = e.first + i
		}
	}
	for i, k := range order {
		reads[i] = e.first + k
	}
	return reads
}

// NextForecast returns the next sample, valid until the next call, with the analyses of the target leads; nil
// for tasks that need none.
func (s ExampleStream) NextForecast() (*ensemble.Forecast, []*ensemble.Analysis, error) {
	x, err := s.Next()
	if err != nil {
		return nil, nil, err
	}
	return x.Forecast, x.Analyses, nil
}

// Each calls f for all samples by date. Ranks of a team call it together. If one of them cannot read, or its f fails, all
// return its error after the same sample: an f that exchanges messages has to do so before it returns an error.
func (e Examples) Each(ctx context.Context, ranks *team.Team, f func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error) error {
	task := progress.Start(ctx, "samples", int64(len(e.Inits)))
	defer task.Done()
	s := e.Stream(ctx, nil)
	defer s.Close()
	var own error
	for i := range e.Inits {
		var fc *ensemble.Forecast
		var a []*ensemble.Analysis
		if own == nil {
			fc, a, own = s.NextForecast()
		}
		if err := ranks.AgreeOnError(own); err != nil {
			return err
		}
		if own = f(i, fc, a); team.IsAgreed(own) { // all ranks have it
			return own
		}
		task.Set(int64(i+1), "")
	}
	return ranks.AgreeOnError(own)
}

// AssignSamples assigns the samples of a source to the parts of the split.
func (d *Data) AssignSamples(from *source, analysed bool) {
	d.Source = from
	first := 0
	for _, p := range []struct {
		inits []ensemble.Init
		to    *Examples
	}{{d.Split.Train, &d.Train}, {d.Split.Validation, &d.Validation}, {d.Split.Test, &d.Test}} {
		*p.to = Examples{p.inits, from, first, analysed}
		first += len(p.inits)
	}
}

// SplitInits lists the initialisations of all samples in the order of the source.
func SplitInits(s ensemble.Split) []ensemble.Init {
	var all []ensemble.Init
	for _, p := range [][]ensemble.Init{s.Train, s.Validation, s.Test} {
		all = append(all, p...)
	}
	return all
}

// BeforeTest are the samples before the test period: training and validation.
func (d *Data) BeforeTest() Examples {
	p := d.Train
	p.Inits = SplitInits(ensemble.Split{Train: d.Split.Train, Validation: d.Split.Validation})
	return p
}

// Schedule returns the reading order of all ranks in the training of one network on some of the training
// samples (nil: all), and the index of this reader.
func (d *Data) Schedule(c config.Training, network int, only []int) (s loader.Schedule, reader int) {
	s = loader.Schedule{Seed: setup.SeedOf(c, network), Samples: len(d.Train.Inits), Subset: only, Epochs: c.Epochs, Batch: c.BatchSize, Readers: 1, PadLastBatch: true,
		Validation: len(d.Validation.Inits), Test: len(d.Test.Inits)}
	if d.Ranks != nil && d.Ranks.DataGroups > 0 {
		s.Readers, reader = d.Ranks.DataGroups, d.Ranks.DataGroup(d.Ranks.Comm.Rank())
	}
	return s, reader
}

// InputCosts is the time of training steps of a rank, the part of it spent waiting for batches, and the
// sources of samples.
type InputCosts struct {
	Steps, Waited time.Duration
	Counts        loader.Counts
}

// Since returns the difference to earlier costs.
func (c InputCosts) Since(earlier InputCosts) InputCosts {
	return InputCosts{c.Steps - earlier.Steps, c.Waited - earlier.Waited, c.Counts.Since(earlier.Counts)}
}

// share is the fraction of step time spent waiting.
func (c InputCosts) share() float64 {
	if c.Steps == 0 {
		return 0
	}
	return c.Waited.Seconds() / c.Steps.Seconds()
}

// Result returns the costs for a Result.
func (c InputCosts) Result() InputTiming {
	return InputTiming{c.Steps.Seconds(), c.Waited.Seconds(), c.share(), c.Counts.Memory, c.Counts.Disk, c.Counts.Peers, c.Counts.FileSystem}
}

// Values returns the costs as values of an event.
func (c InputCosts) Values() []rundir.Value {
	return append([]rundir.Value{{Name: "steps_s", Value: c.Steps.Seconds()}, {Name: "input_waited_s", Value: c.Waited.Seconds()},
		{Name: "inits_waited_s", Value: c.Counts.WaitTime.Seconds()}}, c.SourceValues()...)
}

// SourceValues returns the reads of samples by source as values of an event.
func (c InputCosts) SourceValues() (out []rundir.Value) {
	for _, from := range []struct {
		name string
		n    loader.Count
	}{{"staged", c.Counts.Prefetched}, {"memory", c.Counts.Memory}, {"disk_cache", c.Counts.Disk}, {"peers", c.Counts.Peers}, {"file_system", c.Counts.FileSystem}} {
		out = append(out, rundir.Value{Name: from.name + "_reads", Value: from.n.Reads}, rundir.Value{Name: from.name + "_bytes", Value: from.n.Bytes})
	}
	return out
}

// storedExamples implements loader.Origin and loader.Portable for a store.
type storedExamples struct {
	*store.SelectionReader
	inits []ensemble.Init
}

// Read implements loader.Origin.
func (s storedExamples) Read(ctx context.Context, k int, room *store.Sample, copy io.WriterAt) (*store.Sample, error) {
	return s.SelectionReader.Read(ctx, s.inits[k], room, copy)
}

// ReadCopy implements loader.Origin.
func (s storedExamples) ReadCopy(ctx context.Context, k int, room *store.Sample, copy io.ReaderAt) (*store.Sample, error) {
	return s.SelectionReader.ReadCopy(ctx, s.inits[k], room, copy)
}

// Allocate implements loader.Portable.
func (s storedExamples) Allocate(k int, room *store.Sample) *store.Sample {
	return s.SelectionReader.Allocate(s.inits[k], room)
}

// Buffers implements loader.Portable.
func (s storedExamples) Buffers(x *store.Sample) [][]byte {
	values := [][]byte{bigmem.Bytes(x.Forecast.Values)}
	for _, a := range x.Analyses {
		values = append(values, bigmem.Bytes(a.Values))
	}
	return values
}

// bytesOfValue is the size of a float32 in memory.
const bytesOfValue = 4

// SampleBytes is the memory of one of several equal samples.
func SampleBytes(s []*store.Sample) (bytes int64) {
	if len(s) > 0 {
		bytes = bytesOfValue * int64(len(s[0].Forecast.Values))
		for _, a := range s[0].Analyses {
			bytes += bytesOfValue * int64(len(a.Values))
		}
	}
	return bytes
}

// Size implements loader.Origin.
func (s storedExamples) Size() loader.Size {
	stored, span := s.Bytes()
	return loader.Size{Memory: bytesOfValue * s.Values(), Stored: stored, Span: span}
}
