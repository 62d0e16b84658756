package train

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// readyBatch is a batch received from the goroutine that prepares batches.
type readyBatch struct {
	batch  *task.Batch
	starts []int // indices of its samples among the training samples
	err    error
	loaded *network.Network // network whose inputs already contain the batch; nil for none
}

// feed is the goroutine that prepares batches.
type feed struct {
	next       <-chan readyBatch
	stop       context.CancelFunc
	done       chan struct{}
	prefetched *readyBatch // received during the preceding step; nil for none
}

// end stops the goroutine and waits for it.
func (f *feed) end() {
	if f != nil {
		f.stop()
		<-f.done
	}
}

// startFeed starts to prepare the batches of the current network, from the current position on. Two batches
// are in flight; receiving the next one returns the previous one for reuse.
func (t *trainer) startFeed(ctx context.Context) *feed {
	ctx, stop := context.WithCancel(ctx)
	ch, done := make(chan readyBatch), make(chan struct{})
	schedule, reader := t.schedule()
	var reads []int
	for epoch := t.pos.Epoch; epoch < t.current.cfg.Epochs; epoch++ {
		reads = append(reads, schedule.Epoch(reader, epoch)...)
	}
	n, rows := t.epochBatches(), t.current.rows
	reads = reads[t.pos.Batch*rows.Len():]
	f := &feeder{job: &t.job, phase: t.training().Phase, from: &t.inputs, seed: schedule.Seed, stream: t.data.Train.Stream(ctx, reads), remaining: reads,
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

// newBatch allocates a batch of size samples of the current network.
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

// feeder fills the batches of a network, of each batch the samples of this rank.
type feeder struct {
	job             *job
	phase           setup.Phase
	from            *auxiliaryInputs
	seed            uint64
	stream          samples.ExampleStream // samples in reading order
	remaining       []int                 // samples left to read
	batches         int                   // batches per epoch
	samples         int                   // samples per epoch
	lo, size        int                   // first and number of this rank's samples in a batch
	batch, endBatch int                   // index of the next batch, and end of the last, counted over all epochs
	buffers         [2]task.Batch         // double buffer
}

// run fills and sends batches until one fails or the context ends.
func (f *feeder) run(ctx context.Context, to chan<- readyBatch) {
	defer f.stream.Close()
	for ; f.batch < f.endBatch; f.batch++ {
		b, reads := &f.buffers[f.batch%2], f.remaining[:f.size]
		f.remaining = f.remaining[f.size:]
		err := f.build(ctx, b, reads)
		select {
		case to <- readyBatch{batch: b, starts: reads, err: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// build fills the next batch with these training samples. If the samples do not fill the last batch of an
// epoch, it is completed with the first samples, at weight zero.
func (f *feeder) build(ctx context.Context, b *task.Batch, reads []int) error {
	epoch, batch := f.batch/f.batches, f.batch%f.batches
	left := f.samples - (batch*f.job.base.BatchSize + f.lo)
	if f.job.model.Spec.ReadsMembers() {
		b.MemberCount = drawCount(f.job.local.MinMembers, len(f.job.local.UsedMembers), f.seed, uint64(epoch), uint64(batch))
	}
	b.Noise.Draw = f.job.local.Features.TrainingDraw(epoch)
	for i, sample := range reads {
		if err := f.sample(ctx, b, slot{index: i, sample: sample}, uint64(epoch)); err != nil {
			return err
		}
		if i >= left {
			w := len(b.Weight) / len(reads)
			clear(b.Weight[i*w : (i+1)*w])
		}
	}
	return nil
}

// slot is a position in a batch and the training sample that fills it.
type slot struct {
	index  int // in the batch
	sample int // index of the training sample
	fc     *ensemble.Forecast
	used   []int // positions of the input members of fc
}

// sample fills a slot of a batch of an epoch with the next sample.
func (f *feeder) sample(ctx context.Context, b *task.Batch, s slot, epoch uint64) error {
	fc, analyses, err := f.stream.NextForecast()
	if err != nil {
		return err
	}
	s.fc = fc
	if s.used, analyses, err = f.verified(fc, analyses, b.MemberCount, epoch, uint64(s.sample)); err != nil {
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

// members draws the positions of the input members of a training sample in an epoch: count of them, or a
// random number if count is 0.
func (j *job) members(fc *ensemble.Forecast, count int, seed, epoch, sample uint64) ([]int, error) {
	used, err := task.MemberPositions(fc, j.local.UsedMembers)
	if err != nil {
		return nil, err
	}
	if j.sampling == randomMembers {
		used = loader.DrawMembers(seed, epoch, sample, len(fc.Members), len(used), used[0] == 0 && j.hasControl())
	}
	return j.fewerMembers(used, count, seed, epoch, sample), nil
}

// hasControl reports whether the first member may be a control, which every draw includes.
func (j *job) hasControl() bool { return j.model.Control != ensemble.NoControl }

// fewerMembers drops some of the drawn members of a training sample in an epoch: all but count, or a random number if count is 0.
func (j *job) fewerMembers(used []int, count int, seed, epoch, sample uint64) []int {
	if count > 0 {
		return drawMembers(used, count, seed, epoch, sample, j.hasControl())
	}
	return drawFewerMembers(used, j.local.MinMembers, seed, epoch, sample, j.hasControl())
}

// randomMembers selects members anew in every epoch.
const randomMembers = "random"

// purposeMemberCount separates the random stream of member counts from that of member choices.
const purposeMemberCount = 0x6665776572

// drawFewerMembers drops some of the used members of a sample in an epoch. The number that remains is uniform between
// least and all; keepFirst as in drawMembers.
func drawFewerMembers(used []int, least int, seed, epoch, sample uint64, keepFirst bool) []int {
	return drawMembers(used, drawCount(least, len(used), seed, epoch, sample), seed, epoch, sample, keepFirst)
}

// drawCount draws the number of input members, uniform from least to most.
func drawCount(least, most int, seed, epoch, of uint64) int {
	if least == 0 || least >= most {
		return most
	}
	return least + loader.DrawMembers(seed^purposeMemberCount, epoch, of, most-least+1, 1, false)[0]
}

// drawMembers draws kept of the used members of a sample in an epoch, with keepFirst always including the first.
func drawMembers(used []int, kept int, seed, epoch, sample uint64, keepFirst bool) []int {
	if kept == len(used) {
		return used
	}
	out := make([]int, 0, kept)
	for _, i := range loader.DrawMembers(seed^^uint64(purposeMemberCount), epoch, sample, len(used), kept, keepFirst) {
		out = append(out, used[i])
	}
	return out
}
