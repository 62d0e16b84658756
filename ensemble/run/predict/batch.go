package predict

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
)

// batchFiller builds the network's input of one initialisation while its fields are read. When all members of
// a field are read, its channels are computed and the members' memory is reused. Only a few fields are in
// memory at once.
type batchFiller struct {
	task       *task.Task
	axes       ensemble.Axes
	members    []ensemble.Member
	grid       *ensemble.Grid
	batch      func() (*task.Batch, error)                                            // the network's batch, waits until it is open; nil without a network
	driftScore func(k ensemble.Key, fields [][]float32) (_ model.DriftScore, ok bool) // compares a field of all members with those of training; nil if the model has no drift detector
	preparedInput

	mu     sync.Mutex
	groups []memberFields // [lead][variable][level]
	free   freeMemory
}

// memberFields is one field of all members.
type memberFields struct {
	members [][]float32 // nil for a missing member
	left    int         // fields not read yet
}

// freeMemory is memory for reuse.
type freeMemory struct {
	fields  [][]float32
	rooms   []*ensemble.Scratch
	missing []float32 // field of NaN
}

// preparedInput is what remains of an initialisation's members after the network's input is built.
type preparedInput struct {
	stats       []task.Statistics  // statistics of the targets, [variable][level]
	raw         []float32          // members of the targets, as members.RawMembers returns them; nil if not needed
	driftScores []model.DriftScore // drift scores of the fields, in any order
}

// newBatchFiller returns a filler for the wanted fields of an initialisation.
func newBatchFiller(t *task.Task, s *input.Selection, members []ensemble.Member, entries []ensemble.Entry) *batchFiller {
	b := &batchFiller{task: t, axes: s.Axes, members: members, grid: s.Grid, groups: make([]memberFields, s.Axes.Fields())}
	b.stats = make([]task.Statistics, len(t.Targets)*len(s.Axes.Levels))
	for i := range b.groups {
		b.groups[i].members = make([][]float32, len(members))
	}
	for _, e := range entries {
		if g, _ := b.position(e.Key); g >= 0 {
			b.groups[g].left++
		}
	}
	return b
}

// keepMembers keeps the members of the targets.
func (b *batchFiller) keepMembers() {
	b.raw = make([]float32, len(b.members)*len(b.stats)*b.grid.Size())
}

// position returns the group of a field and the index of its member; −1 for fields that are not wanted.
func (b *batchFiller) position(k ensemble.Key) (g, m int) {
	t, v, l, ok := b.axes.Find(k)
	if m = slices.Index(b.members, k.Member); !ok || m < 0 {
		return -1, m
	}
	return (t*len(b.axes.Variables)+v)*len(b.axes.Levels) + l, m
}

// buffer returns the memory for a field.
func (b *batchFiller) buffer(k ensemble.Key) ([]float32, error) {
	g, m := b.position(k)
	if g < 0 {
		_, err := (&ensemble.Forecast{Init: k.Init, Axes: b.axes, Members: b.members, Grid: b.grid}).FieldAt(k)
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	to := &b.groups[g].members[m]
	if *to == nil {
		if n := len(b.free.fields); n > 0 {
			*to, b.free.fields = b.free.fields[n-1], b.free.fields[:n-1]
		} else {
			*to = make([]float32, b.grid.Size())
		}
	}
	return *to, nil
}

// fieldRead counts a field that was read, and makes the channels after the last member.
func (b *batchFiller) fieldRead(k ensemble.Key) error {
	g, _ := b.position(k)
	b.mu.Lock()
	b.groups[g].left--
	complete := b.groups[g].left == 0
	b.mu.Unlock()
	if !complete {
		return nil
	}
	return b.makeChannels(g)
}

// makeChannels computes the channels of a field.
func (b *batchFiller) makeChannels(g int) error {
	to, err := b.batch()
	if err != nil || to == nil {
		return err
	}
	d := len(b.axes.Levels)
	t, v, l := g/d/len(b.axes.Variables), g/d%len(b.axes.Variables), g%d
	fields, room := b.takeFields(g)
	var score model.DriftScore
	known := false
	if b.driftScore != nil {
		score, known = b.driftScore(ensemble.Key{Variable: b.axes.Variables[v], Level: b.axes.Levels[l], Lead: b.axes.Leads[t]}, fields)
	}
	if err := b.task.Features.WriteField(to.Features, fields, t, v, l, room); err != nil {
		return err
	}
	if to.Members != nil {
		if err := b.task.Features.WriteMemberField(to.MemberInput(), fields, t, v, l, room); err != nil {
			return err
		}
	}
	for i := range b.task.Targets {
		if lead, variable := b.task.TargetAt(i); lead == t && variable == v {
			b.addTarget(to, i*d+l, fields)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if known {
		b.driftScores = append(b.driftScores, score)
	}
	b.free.rooms = append(b.free.rooms, room)
	for m, x := range b.groups[g].members {
		if x != nil {
			b.free.fields = append(b.free.fields, x)
		}
		b.groups[g].members[m] = nil
	}
	return nil
}

// takeFields returns the members of a field, and memory to work in.
func (b *batchFiller) takeFields(g int) (fields [][]float32, room *ensemble.Scratch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fields = slices.Clone(b.groups[g].members)
	for i := range fields {
		if fields[i] == nil {
			fields[i] = b.missingField()
		}
	}
	if n := len(b.free.rooms); n > 0 {
		room, b.free.rooms = b.free.rooms[n-1], b.free.rooms[:n-1]
	} else {
		room = ensemble.NewScratch(b.grid.Size())
	}
	return fields, room
}

// missingField returns a field of NaN. The caller holds the lock.
func (b *batchFiller) missingField() []float32 {
	if b.free.missing == nil {
		b.free.missing = slices.Repeat([]float32{float32(math.NaN())}, b.grid.Size())
	}
	return b.free.missing
}

// addTarget stores the statistics of a target, and its members if they are kept or read by the network.
func (b *batchFiller) addTarget(to *task.Batch, at int, fields [][]float32) {
	st := task.Statistics{Mean: make([]float32, b.grid.Size()), Std: make([]float32, b.grid.Size())}
	b.task.Features.MeanStd(st.Mean, st.Std, fields)
	b.stats[at] = st
	for m := range fields {
		for _, kept := range [][]float32{b.raw, to.Raw} {
			if kept != nil {
				copy(kept[(m*len(b.stats)+at)*b.grid.Size():], fields[m])
			}
		}
	}
}

// read reads the members of an initialisation and builds the network's input, with warnings about their
// values.
//
// Errors: as input.Selection.Read.
func (b *batchFiller) read(ctx context.Context, s *input.Selection, entries []ensemble.Entry) (warnings []string, err error) {
	for g := range b.groups { // fields that are missing for all members: no read will complete them
		if b.groups[g].left == 0 {
			if err := b.makeChannels(g); err != nil {
				return nil, err
			}
		}
	}
	c := input.NewValueStats(input.FileOrder(entries))
	list := b.readOrder(c.Entries)
	own := make([]ensemble.Entry, len(list))
	for i, at := range list {
		own[i] = c.Entries[at]
	}
	into := make([][]float32, len(own))
	err = s.Reader.Fill(ctx, own, s.InputWindow(ensemble.Window{}), func(i int) (_ []float32, err error) {
		into[i], err = b.buffer(own[i].Key)
		return into[i], err
	}, func(i int) error {
		c.Add(list[i], into[i])
		return b.fieldRead(own[i].Key)
	})
	if err != nil {
		return nil, err
	}
	b.free = freeMemory{}
	return input.SplitFaults(c.Faults())
}

// readOrder returns the reading order of entries. GRIB messages can be read in any order, so the members of a
// field come one after the other.
func (b *batchFiller) readOrder(entries []ensemble.Entry) (list []int) {
	for i, e := range entries {
		if ensemble.FindLevel(b.axes.Levels, e.Variable, e.Level) >= 0 {
			list = append(list, i)
		}
	}
	if !slices.ContainsFunc(entries, func(e ensemble.Entry) bool { return e.Length == 0 }) {
		slices.SortStableFunc(list, func(x, y int) int {
			i, _ := b.position(entries[x].Key)
			j, _ := b.position(entries[y].Key)
			return i - j
		})
	}
	return list
}
