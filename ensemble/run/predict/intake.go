package predict

import (
	"context"
	"math"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
)

// intake makes the network's input of one start while its fields are read: as soon as all
// members of a field are there its channels are made, and the memory of the members is used
// for other fields. No more than a few fields of all members are in memory at once.
type intake struct {
	p       *prediction
	init    ensemble.Init
	axes    ensemble.Axes
	members []ensemble.Member
	grid    *ensemble.Grid
	started
	keep bool // the members of the targets

	mu     sync.Mutex
	groups []group // [lead][variable][level]
	free   [][]float32
	rooms  []*ensemble.Room
	ready  func() error // makes the model ready for as many members
	absent []float32    // a field that is missing
}

// group is a field of all members.
type group struct {
	members [][]float32 // nil for one that is not there
	left    int         // fields that are still to come
}

// started is what is left of the members of a start when the network's input is made: the
// statistics of the targets, [variable][level], and the members of the targets if they are
// asked for, as RawMembers gives them.
type started struct {
	stats []model.Statistics
	raw   []float32
	input []model.Strangeness // of the fields, where the model knows those of the training, in any order
}

// newIntake is one for the fields that are wanted of a start, of some members.
func newIntake(p *prediction, init ensemble.Init, members []ensemble.Member, wanted []ensemble.Entry) *intake {
	k := &p.model.Task
	targets := len(k.Targets) * len(p.in.Axes.Levels)
	in := &intake{p: p, init: init, axes: p.in.Axes, members: members, grid: p.in.Grid, keep: p.keepsMembers(), groups: make([]group, p.in.Axes.Fields())}
	in.ready = sync.OnceValue(func() error {
		return setup.NamedMemory(p.model.ReadMembers(len(members)), setup.FlagMemory, setup.FlagWorkspace)
	})
	in.stats = make([]model.Statistics, targets)
	if in.keep {
		in.raw = make([]float32, len(members)*targets*in.grid.Size())
	}
	for i := range in.groups {
		in.groups[i].members = make([][]float32, len(members))
	}
	for _, e := range wanted {
		if g, _ := in.place(e.Key); g >= 0 {
			in.groups[g].left++
		}
	}
	return in
}

// place gives the group of a field and its member, −1 for a field that is not asked for.
func (in *intake) place(k ensemble.Key) (g, m int) {
	t, v, l, ok := in.axes.Find(k)
	if m = slices.Index(in.members, k.Member); !ok || m < 0 {
		return -1, m
	}
	return (t*len(in.axes.Variables)+v)*len(in.axes.Levels) + l, m
}

// room gives the memory for a field.
func (in *intake) room(k ensemble.Key) ([]float32, error) {
	g, m := in.place(k)
	if g < 0 {
		_, err := (&ensemble.Forecast{Init: k.Init, Axes: in.axes, Members: in.members, Grid: in.grid}).Place(k)
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	to := &in.groups[g].members[m]
	if *to == nil {
		if n := len(in.free); n > 0 {
			*to, in.free = in.free[n-1], in.free[:n-1]
		} else {
			*to = make([]float32, in.grid.Size())
		}
	}
	return *to, nil
}

// done is told that a field is there.
func (in *intake) done(k ensemble.Key) error {
	g, _ := in.place(k)
	in.mu.Lock()
	in.groups[g].left--
	complete := in.groups[g].left == 0
	in.mu.Unlock()
	if !complete {
		return nil
	}
	return in.make(g)
}

// make makes the channels of a field.
func (in *intake) make(g int) error {
	if in.p.opened() != nil {
		return nil // which is told when all is read: faults of the input say more
	}
	if err := in.ready(); err != nil {
		return err
	}
	k := &in.p.model.Task
	d := len(in.axes.Levels)
	t, v, l := g/d/len(in.axes.Variables), g/d%len(in.axes.Variables), g%d
	in.mu.Lock()
	fields := slices.Clone(in.groups[g].members)
	for i := range fields {
		if fields[i] == nil {
			fields[i] = in.missing()
		}
	}
	var room *ensemble.Room
	if n := len(in.rooms); n > 0 {
		room, in.rooms = in.rooms[n-1], in.rooms[:n-1]
	} else {
		room = ensemble.NewRoom(in.grid.Size())
	}
	in.mu.Unlock()
	strange, known := in.judge(t, v, l, fields)
	b := &in.p.model.Network.Batch
	if err := k.Features.Field(b.Features, fields, t, v, l, room); err != nil {
		return err
	}
	if b.Members != nil {
		if err := k.Features.MemberField(b.Members, fields, t, v, l, room); err != nil {
			return err
		}
	}
	for i := range k.Targets {
		if lead, variable := k.TargetAt(i); lead == t && variable == v {
			at := i*d + l
			st := model.Statistics{Mean: make([]float32, in.grid.Size()), Std: make([]float32, in.grid.Size())}
			k.Features.Statistics(st.Mean, st.Std, fields)
			in.stats[at] = st
			for m := range fields {
				if in.keep {
					copy(in.raw[(m*len(in.stats)+at)*in.grid.Size():], fields[m])
				}
				if b.Raw != nil {
					copy(b.Raw[(m*len(in.stats)+at)*in.grid.Size():], fields[m])
				}
			}
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if known {
		in.input = append(in.input, strange)
	}
	in.rooms = append(in.rooms, room)
	for m, x := range in.groups[g].members {
		if x != nil {
			in.free = append(in.free, x)
		}
		in.groups[g].members[m] = nil
	}
	return nil
}

// judge compares a field of all members with those of the training, where the model knows them.
func (in *intake) judge(t, v, l int, fields [][]float32) (x model.Strangeness, ok bool) {
	d := in.p.model.Drift
	if d == nil {
		return x, false
	}
	mean, std := make([]float32, in.grid.Size()), make([]float32, in.grid.Size())
	ensemble.MeanStd(mean, std, fields, samples.SpreadDivisor(len(fields)))
	k := ensemble.Key{Variable: in.axes.Variables[v], Level: in.axes.Levels[l], Lead: in.axes.Leads[t]}
	return d.Judge(in.init, k, d.Boxes.Summarise(mean, std))
}

// missing is a field without values. The caller has the lock.
func (in *intake) missing() []float32 {
	if in.absent == nil {
		in.absent = slices.Repeat([]float32{float32(math.NaN())}, in.grid.Size())
	}
	return in.absent
}

// read reads the members of a start and makes the network's input of them, with warnings
// about their values.
//
// Errors: as selection.read.
func (in *intake) read(ctx context.Context, wanted []ensemble.Entry) (*started, []string, error) {
	s := in.p.in
	for g := range in.groups { // before the others: none of its fields will come
		if in.groups[g].left == 0 {
			if err := in.make(g); err != nil {
				return nil, nil, err
			}
		}
	}
	c := input.NewValueStats(input.ByPlace(wanted))
	var list []int
	for i, e := range c.Entries {
		if ensemble.FindLevel(in.axes.Levels, e.Variable, e.Level) >= 0 {
			list = append(list, i)
		}
	}
	if !slices.ContainsFunc(c.Entries, func(e ensemble.Entry) bool { return e.Length == 0 }) {
		// GRIB messages can be read in any order: the members of a field one after the other.
		slices.SortStableFunc(list, func(a, b int) int {
			i, _ := in.place(c.Entries[a].Key)
			j, _ := in.place(c.Entries[b].Key)
			return i - j
		})
	}
	own := make([]ensemble.Entry, len(list))
	for i, at := range list {
		own[i] = c.Entries[at]
	}
	into := make([][]float32, len(own))
	err := s.From.Fill(ctx, own, s.Within(ensemble.Window{}), func(i int) (_ []float32, err error) {
		into[i], err = in.room(own[i].Key)
		return into[i], err
	}, func(i int) error {
		c.Add(list[i], into[i])
		return in.done(own[i].Key)
	})
	if err != nil {
		return nil, nil, err
	}
	warnings, err := input.Refusal(c.Faults())
	if err != nil || in.p.opened() != nil {
		return nil, warnings, err
	}
	in.p.model.InOrder(len(in.members))
	in.p.model.Task.Fixed(&in.p.model.Network.Batch, in.init, in.grid, in.stats)
	if in.free, in.rooms = nil, nil; len(wanted)*in.grid.Size() > largeForecast {
		debug.FreeOSMemory() // before the network needs memory
	}
	return &in.started, warnings, nil
}
