package train

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// ready is a batch on its way from the goroutine that prepares it.
type ready struct {
	batch  *task.Batch
	starts []int // of its samples, by their numbers among those of the training
	err    error
	in     *network.Network // whose inputs hold it already; nil otherwise
}

// feed is the goroutine that prepares batches.
type feed struct {
	next  <-chan ready
	stop  context.CancelFunc
	done  chan struct{}
	early *ready // received beside the step before it; nil otherwise
}

// end ends the goroutine and waits for it.
func (f *feed) end() {
	if f != nil {
		f.stop()
		<-f.done
	}
}

// startFeed prepares the batches of the present network ahead of their use, from where the
// trainer stands on. Two batches are in flight; the receiver's next receive gives the
// previous one back.
func (t *trainer) startFeed(ctx context.Context) *feed {
	ctx, stop := context.WithCancel(ctx)
	ch, done := make(chan ready), make(chan struct{})
	schedule, reader := t.schedule()
	var reads []int
	for epoch := t.at.Epoch; epoch < t.now.cfg.Epochs; epoch++ {
		reads = append(reads, schedule.Epoch(reader, epoch)...)
	}
	n, rows := t.batches(), t.now.train.Rows
	reads = reads[t.at.Batch*rows.Len():]
	f := &feeder{job: &t.job, from: &t.from, seed: schedule.Seed, next: t.data.Train.Stream(ctx, reads), reads: reads,
		batches: n, samples: t.samplesOf(t.turn()), lo: rows.Lo, size: rows.Len(), at: t.at.Epoch*n + t.at.Batch, end: t.now.cfg.Epochs * n}
	for i := range f.room {
		f.room[i] = t.newBatch(rows.Len())
	}
	go func() {
		defer close(done)
		defer close(ch)
		f.run(ctx, ch)
	}()
	return &feed{next: ch, stop: stop, done: done}
}

// newBatch is room for a batch of so many samples of the present network.
func (t *trainer) newBatch(size int) task.Batch {
	grid := t.ranks.Own().Part(t.model.Grid)
	spec := t.model.Spec
	spec.Teach = t.from.teacher.share()
	b := spec.NewBatch(t.local, grid, size, len(t.local.Used), true)
	if t.now.corrections != nil {
		b.Corrected = make([]float32, len(b.Residual))
	}
	return b
}

// feeder fills the batches of a network, of each the samples of this rank.
type feeder struct {
	job      *job
	from     *inputs
	seed     uint64
	next     samples.Starts // in the order of reads
	reads    []int          // samples that are left to read
	batches  int            // of an epoch
	samples  int            // of an epoch
	lo, size int            // first and number of this rank's samples of a batch
	at, end  int            // the next batch, and the one behind the last, counted over all epochs
	room     [2]task.Batch
}

// run fills batch after batch and hands them over, until one fails or the receiver has enough.
func (f *feeder) run(ctx context.Context, to chan<- ready) {
	defer f.next.Close()
	for ; f.at < f.end; f.at++ {
		b, starts := &f.room[f.at%2], f.reads[:f.size]
		f.reads = f.reads[f.size:]
		err := f.build(ctx, b, starts)
		select {
		case to <- ready{batch: b, starts: starts, err: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// build fills the next batch with those training samples. The last batch of an epoch starts over with
// the first samples, at weight zero, when the samples do not fill it.
func (f *feeder) build(ctx context.Context, b *task.Batch, starts []int) error {
	epoch, batch := f.at/f.batches, f.at%f.batches
	left := f.samples - (batch*f.job.base.BatchSize + f.lo)
	if f.job.model.Spec.ReadsMembers() {
		b.Count = countOf(f.job.local.Least, len(f.job.local.Used), f.seed, uint64(epoch), uint64(batch))
	}
	for i, start := range starts {
		if err := f.sample(ctx, b, slot{at: i, start: start}, uint64(epoch)); err != nil {
			return err
		}
		if i >= left {
			w := len(b.Weight) / len(starts)
			clear(b.Weight[i*w : (i+1)*w])
		}
	}
	return nil
}

// slot is a place of a batch, and the training sample that fills it.
type slot struct {
	at    int // in the batch
	start int // number of the sample
	fc    *ensemble.Forecast
	used  []int // members of fc
}

// sample fills a slot of a batch of an epoch with the next sample.
func (f *feeder) sample(ctx context.Context, b *task.Batch, s slot, epoch uint64) error {
	fc, analyses, err := f.next.NextForecast()
	if err != nil {
		return err
	}
	s.fc = fc
	if s.used, err = f.job.members(fc, b.Count, f.seed, epoch, uint64(s.start)); err != nil {
		return err
	}
	local := f.job.local
	if err := f.from.references.task(local, s.start).Input(b, s.at, fc, s.used); err != nil {
		return err
	}
	if err := local.Answer(b, s.at, fc, s.used, analyses); err != nil {
		return err
	}
	return f.from.teacher.fill(ctx, local, b, s)
}

// members are the positions of those that are input of a training sample in an epoch: count of them, or
// as many as chance decides if it is 0.
func (j *job) members(fc *ensemble.Forecast, count int, seed, epoch, start uint64) ([]int, error) {
	used, err := task.Positions(fc, j.local.Used)
	if err != nil {
		return nil, err
	}
	if j.sampling == randomMembers {
		used = loader.Members(seed, epoch, start, len(fc.Members), len(used), used[0] == 0)
	}
	if count > 0 {
		return someOf(used, count, seed, epoch, start), nil
	}
	return fewer(used, j.local.Least, seed, epoch, start), nil
}

// randomMembers is the sampling that draws members anew in every epoch.
const randomMembers = "random"

// purposeFewer keeps the draws of how many members are input apart from those of which.
const purposeFewer = 0x6665776572

// fewer leaves out some of the used members of one sample of one epoch, so that as many
// as least are left, or more, each number as often as the others. The first one stays.
func fewer(used []int, least int, seed, epoch, sample uint64) []int {
	return someOf(used, countOf(least, len(used), seed, epoch, sample), seed, epoch, sample)
}

// countOf draws how many members are input of something of an epoch.
func countOf(least, most int, seed, epoch, of uint64) int {
	if least == 0 || least >= most {
		return most
	}
	return least + loader.Members(seed^purposeFewer, epoch, of, most-least+1, 1, false)[0]
}

// someOf keeps so many of the used members of one sample of one epoch, among them the first.
func someOf(used []int, kept int, seed, epoch, sample uint64) []int {
	if kept == len(used) {
		return used
	}
	out := make([]int, 0, kept)
	for _, i := range loader.Members(seed^^uint64(purposeFewer), epoch, sample, len(used), kept, true) {
		out = append(out, used[i])
	}
	return out
}
