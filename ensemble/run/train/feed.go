package train

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// readyBatch is a batch on its way from the goroutine that prepares it.
type readyBatch struct {
	batch  *task.Batch
	starts []int // of its samples, by their numbers among those of the training
	err    error
	loaded *network.Network // whose inputs hold it already; nil otherwise
}

// feed is the goroutine that prepares batches.
type feed struct {
	next       <-chan readyBatch
	stop       context.CancelFunc
	done       chan struct{}
	prefetched *readyBatch // received beside the step before it; nil otherwise
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
	ch, done := make(chan readyBatch), make(chan struct{})
	schedule, reader := t.schedule()
	var reads []int
	for epoch := t.pos.Epoch; epoch < t.current.cfg.Epochs; epoch++ {
		reads = append(reads, schedule.Epoch(reader, epoch)...)
	}
	n, rows := t.epochBatches(), t.current.train.Rows
	reads = reads[t.pos.Batch*rows.Len():]
	f := &feeder{job: &t.job, from: &t.inputs, seed: schedule.Seed, stream: t.data.Train.Stream(ctx, reads), remaining: reads,
		batches: n, samples: t.sampleCount(t.training()), lo: rows.Lo, size: rows.Len(), batch: t.pos.Epoch*n + t.pos.Batch, endBatch: t.current.cfg.Epochs * n}
	for i := range f.buffers {
		f.buffers[i] = t.newBatch(rows.Len())
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
	grid := t.ranks.Shard().LocalGrid(t.model.Grid)
	spec := t.model.Spec
	spec.TeacherWeight = t.inputs.teacher.lossWeight()
	b := spec.NewBatch(t.local, grid, size, len(t.local.UsedMembers), true)
	if t.current.corrections != nil {
		b.Corrected = make([]float32, len(b.Residual))
	}
	return b
}

// feeder fills the batches of a network, of each the samples of this rank.
type feeder struct {
	job             *job
	from            *auxiliaryInputs
	seed            uint64
	stream          samples.ExampleStream // in the order of reads
	remaining       []int                 // samples that are left to read
	batches         int                   // of an epoch
	samples         int                   // of an epoch
	lo, size        int                   // first and number of this rank's samples of a batch
	batch, endBatch int                   // the next batch, and the one behind the last, counted over all epochs
	buffers         [2]task.Batch
}

// run fills batch after batch and hands them over, until one fails or the receiver has enough.
func (f *feeder) run(ctx context.Context, to chan<- readyBatch) {
	defer f.stream.Close()
	for ; f.batch < f.endBatch; f.batch++ {
		b, starts := &f.buffers[f.batch%2], f.remaining[:f.size]
		f.remaining = f.remaining[f.size:]
		err := f.build(ctx, b, starts)
		select {
		case to <- readyBatch{batch: b, starts: starts, err: err}:
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
	epoch, batch := f.batch/f.batches, f.batch%f.batches
	left := f.samples - (batch*f.job.base.BatchSize + f.lo)
	if f.job.model.Spec.ReadsMembers() {
		b.MemberCount = drawCount(f.job.local.MinMembers, len(f.job.local.UsedMembers), f.seed, uint64(epoch), uint64(batch))
	}
	for i, start := range starts {
		if err := f.sample(ctx, b, slot{index: i, sample: start}, uint64(epoch)); err != nil {
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
	index  int // in the batch
	sample int // number of the sample
	fc     *ensemble.Forecast
	used   []int // members of fc
}

// sample fills a slot of a batch of an epoch with the next sample.
func (f *feeder) sample(ctx context.Context, b *task.Batch, s slot, epoch uint64) error {
	fc, analyses, err := f.stream.NextForecast()
	if err != nil {
		return err
	}
	s.fc = fc
	if s.used, err = f.job.members(fc, b.MemberCount, f.seed, epoch, uint64(s.sample)); err != nil {
		return err
	}
	local := f.job.local
	if err := f.from.references.taskFor(local, s.sample).FillInput(b, s.index, fc, s.used); err != nil {
		return err
	}
	if err := local.FillTarget(b, s.index, fc, s.used, analyses); err != nil {
		return err
	}
	return f.from.teacher.fill(ctx, local, b, s)
}

// members are the positions of those that are input of a training sample in an epoch: count of them, or
// as many as chance decides if it is 0.
func (j *job) members(fc *ensemble.Forecast, count int, seed, epoch, start uint64) ([]int, error) {
	used, err := task.MemberPositions(fc, j.local.UsedMembers)
	if err != nil {
		return nil, err
	}
	if j.sampling == randomMembers {
		used = loader.DrawMembers(seed, epoch, start, len(fc.Members), len(used), used[0] == 0)
	}
	if count > 0 {
		return drawMembers(used, count, seed, epoch, start), nil
	}
	return drawFewerMembers(used, j.local.MinMembers, seed, epoch, start), nil
}

// randomMembers is the sampling that draws members anew in every epoch.
const randomMembers = "random"

// purposeMemberCount keeps the draws of how many members are input apart from those of which.
const purposeMemberCount = 0x6665776572

// drawFewerMembers leaves out some of the used members of one sample of one epoch, so that as many
// as least are left, or more, each number as often as the others. The first one stays.
func drawFewerMembers(used []int, least int, seed, epoch, sample uint64) []int {
	return drawMembers(used, drawCount(least, len(used), seed, epoch, sample), seed, epoch, sample)
}

// drawCount draws how many members are input of something of an epoch.
func drawCount(least, most int, seed, epoch, of uint64) int {
	if least == 0 || least >= most {
		return most
	}
	return least + loader.DrawMembers(seed^purposeMemberCount, epoch, of, most-least+1, 1, false)[0]
}

// drawMembers keeps so many of the used members of one sample of one epoch, among them the first.
func drawMembers(used []int, kept int, seed, epoch, sample uint64) []int {
	if kept == len(used) {
		return used
	}
	out := make([]int, 0, kept)
	for _, i := range loader.DrawMembers(seed^^uint64(purposeMemberCount), epoch, sample, len(used), kept, true) {
		out = append(out, used[i])
	}
	return out
}
