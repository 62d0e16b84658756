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

// batchFiller makes the network's input of one init while its fields are read: as soon as all
// members of a field are there its channels are made, and the memory of the members is used
// for other fields. No more than a few fields of all members are in memory at once.
type batchFiller struct {
	task       *task.Task
	axes       ensemble.Axes
	members    []ensemble.Member
	grid       *ensemble.Grid
	batch      func() (*task.Batch, error)                                            // of the network, which it waits for; nil where there is none
	driftScore func(k ensemble.Key, fields [][]float32) (_ model.DriftScore, ok bool) // compares a field of all members with those of the training; nil where these are not known
	preparedInput

	mu     sync.Mutex
	groups []memberFields // [lead][variable][level]
	free   freeMemory
}

// memberFields is a field of all members.
type memberFields struct {
	members [][]float32 // nil for one that is missing
	left    int         // fields that are still to come
}

// freeMemory is memory that is used again.
type freeMemory struct {
	fields  [][]float32
	rooms   []*ensemble.Scratch
	missing []float32 // a field that is missing
}

// preparedInput is what is left of the members of an init when the network's input is made: the
// statistics of the targets, [variable][level], and the members of the targets if they are
// asked for, as RawMembers gives them.
type preparedInput struct {
	stats       []task.Statistics
	raw         []float32
	driftScores []model.DriftScore // of the fields, where the model knows those of the training, in any order
}

// newBatchFiller is one for the fields that are wanted of an init, of some members.
func newBatchFiller(t *task.Task, s *input.Selection, members []ensemble.Member, wanted []ensemble.Entry) *batchFiller {
	b := &batchFiller{task: t, axes: s.Axes, members: members, grid: s.Grid, groups: make([]memberFields, s.Axes.Fields())}
	b.stats = make([]task.Statistics, len(t.Targets)*len(s.Axes.Levels))
	for i := range b.groups {
		b.groups[i].members = make([][]float32, len(members))
	}
	for _, e := range wanted {
		if g, _ := b.position(e.Key); g >= 0 {
			b.groups[g].left++
		}
	}
	return b
}

// keepMembers has the members of the targets be kept.
func (b *batchFiller) keepMembers() {
	b.raw = make([]float32, len(b.members)*len(b.stats)*b.grid.Size())
}

// position gives the group of a field and its member, −1 for a field that is not asked for.
func (b *batchFiller) position(k ensemble.Key) (g, m int) {
	t, v, l, ok := b.axes.Find(k)
	if m = slices.Index(b.members, k.Member); !ok || m < 0 {
		return -1, m
	}
	return (t*len(b.axes.Variables)+v)*len(b.axes.Levels) + l, m
}

// buffer gives the memory for a field.
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

// fieldRead counts a field that was read, and makes the channels when it was the last member.
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

// makeChannels makes the channels of a field.
func (b *batchFiller) makeChannels(g int) error {
	to, err := b.batch()
	if err != nil || to == nil {
		return err
	}
	d := len(b.axes.Levels)
	t, v, l := g/d/len(b.axes.Variables), g/d%len(b.axes.Variables), g%d
	fields, room := b.takeFields(g)
	var strange model.DriftScore
	known := false
	if b.driftScore != nil {
		strange, known = b.driftScore(ensemble.Key{Variable: b.axes.Variables[v], Level: b.axes.Levels[l], Lead: b.axes.Leads[t]}, fields)
	}
	if err := b.task.Features.WriteField(to.Features, fields, t, v, l, room); err != nil {
		return err
	}
	if to.Members != nil {
		if err := b.task.Features.WriteMemberField(to.Members, fields, t, v, l, room); err != nil {
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
		b.driftScores = append(b.driftScores, strange)
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

// takeFields gives the members of a field, and memory to work in.
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

// missingField is a field without values. The caller has the lock.
func (b *batchFiller) missingField() []float32 {
	if b.free.missing == nil {
		b.free.missing = slices.Repeat([]float32{float32(math.NaN())}, b.grid.Size())
	}
	return b.free.missing
}

// addTarget takes what is needed of the members of a target: its statistics, and the members where they are kept or read.
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

// read reads the members of an init and makes the network's input of them, with warnings
// about their values.
//
// Errors: as Selection.Read.
func (b *batchFiller) read(ctx context.Context, s *input.Selection, wanted []ensemble.Entry) (warnings []string, err error) {
	for g := range b.groups { // before the others: none of its fields will come
		if b.groups[g].left == 0 {
			if err := b.makeChannels(g); err != nil {
				return nil, err
			}
		}
	}
	c := input.NewValueStats(input.FileOrder(wanted))
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

// readOrder gives the places of the entries that are read, in the order of reading: GRIB messages can be read in any, so the members
// of a field one after the other.
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
