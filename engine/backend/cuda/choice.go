package cuda

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// variant is one way to compute an operation.
type variant struct {
	name         string
	scratch      int // elements of float32
	calls        func(w *work, mem []float32)
	onChosen     func() // told if it is taken; nil if there is nothing to do
	close        func()
	savedSeconds float64 // seconds beside an exchange, estimated, where the first calls run before it has ended; else 0
}

// libraryVariants are the ways of a library: to make its plans takes long. The zero value has none.
type libraryVariants struct {
	b         *Backend
	c         cudnn.Convolution
	variantOf func(p ConvPlan) variant // without what planned knows
}

// prefix begins the names of ways of the library; names hold for one version of it.
func (l libraryVariants) prefix() string { return "cuDNN " + l.b.library.Version() + " " }

// all are those that the library proposes, if cut is true also in pieces.
func (l libraryVariants) all(cut bool) (ways []variant) {
	if l.variantOf == nil {
		return nil
	}
	var parts []ConvPlan
	for _, p := range l.b.library.Plans(l.c, libraryLimits) {
		w, ok := l.variant(p)
		if !ok {
			continue
		}
		ways = append(ways, w)
		for _, n := range pieceCounts {
			if !cut || p.Workspace() < pieceWorkspace {
				break
			}
			if part := l.planIn(p.Name(), n); part != nil {
				parts = append(parts, part)
			}
		}
	}
	for _, p := range parts {
		if w, ok := l.variant(p); ok {
			ways = append(ways, w)
		}
	}
	return ways
}

// named is that of a name; ok is false if it is none of the library or cannot be had.
func (l libraryVariants) named(name string) (w variant, ok bool) {
	if l.variantOf == nil {
		return w, false
	}
	plan, ok := strings.CutPrefix(name, l.prefix())
	if !ok {
		return w, false
	}
	p := l.planIn(parsePieces(plan))
	if p == nil {
		return w, false
	}
	return l.variant(p)
}

// variant is that of a plan, which is closed if it leaves bias or ReLU to others.
func (l libraryVariants) variant(p ConvPlan) (variant, bool) {
	if (l.c.Bias || l.c.ReLU) && !p.Fused() {
		_ = p.Close() // it has nothing to tell
		return variant{}, false
	}
	w := l.variantOf(p)
	w.name, w.onChosen, w.close = l.prefix()+p.Name(), func() { l.cache(p) }, func() { _ = p.Close() }
	return w, true
}

// prepareFastest makes the kernel of the fastest way: that of the request's cut, or the one that was chosen
// before for the same operation, by an earlier backend or on this machine, else the fastest of three
// runs each on a device that has a clock, else the first. Those that are not taken are closed.
func (b *Backend) prepareFastest(q backend.Request, own []variant, library libraryVariants, err error) (backend.Kernel, error) {
	if err != nil || own == nil {
		return backend.Kernel{}, err
	}
	key := describe(q)
	ways, i := own, -1
	for _, name := range []string{q.Variant, b.choices[key], b.fastestKnown(key)} {
		if name == "" || i >= 0 {
			continue
		}
		if i = slices.IndexFunc(ways, func(w variant) bool { return w.name == name }); i < 0 {
			if w, ok := library.named(name); ok {
				ways, i = append(ways, w), len(ways)
			}
		}
	}
	if i < 0 {
		ways, i = append(ways, library.all(false)...), 0
		if clock, ok := b.dev.(device.Profiler); ok && len(ways) > 1 {
			if i, err = b.benchmark(clock, key, ways); err != nil {
				return backend.Kernel{}, err
			}
		}
	}
	if len(ways) > 1 || q.Variant != "" {
		b.choices[key] = ways[i].name
	}
	i = b.preferOverlap(key, ways, i)
	for k, w := range ways {
		if k != i && w.close != nil {
			w.close()
		}
	}
	v := ways[i]
	if v.onChosen != nil {
		v.onChosen()
	}
	w := &work{b: b}
	k := w.withScratch(v.name, v.scratch, v.calls)
	k.Close = v.close
	if v.savedSeconds > 0 {
		k.Name += ", the interior first"
		k.RunEarly = func() error { return runAll(w.calls[:w.early]) }
	}
	return k, nil
}

// preferOverlap gives the number of the way that is there first: beside an exchange one of ours that begins with the interior may
// be, although one of the library, the i-th, takes less time. It has no more scratch: that was settled for the i-th.
func (b *Backend) preferOverlap(key string, ways []variant, i int) int {
	e, _ := b.timingsOf(key)
	took := map[string]float64{}
	for _, c := range e.Candidates {
		took[c.Name] = c.Wall.Seconds()
	}
	best, known := took[ways[i].name]
	if !known || ways[i].savedSeconds > 0 {
		return i
	}
	for k, w := range ways {
		if t, known := took[w.name]; known && w.savedSeconds > 0 && w.scratch <= ways[i].scratch && t-w.savedSeconds < best {
			best, i = t-w.savedSeconds, k
		}
	}
	return i
}

// describe is an operation in what plans keep of their choices.
func describe(q backend.Request) string {
	s := fmt.Sprintf("%s %s:", q.Op.Name, graph.AttrText(q.Attrs))
	for _, t := range q.In {
		s += fmt.Sprintf(" %v %v %s", t.Shape, t.Layout, stored(t))
	}
	return s + fmt.Sprintf(" to %v %v %s", q.Out.Shape, q.Out.Layout, stored(q.Out))
}

// benchmark gives the number of the fastest way, and remembers the times; one that fails is out, but
// for the first.
func (b *Backend) benchmark(clock device.Profiler, key string, ways []variant) (fastest int, err error) {
	e := tune.Entry{}
	least := -1.0
	for i, v := range ways {
		seconds, err := b.time(clock, v)
		if err != nil && i == 0 {
			return 0, err
		}
		if err != nil {
			continue
		}
		took := time.Duration(seconds * float64(time.Second))
		e.Candidates = append(e.Candidates, tune.Timing{Name: v.name, CPU: took, Wall: took, Runs: timedRuns, Bytes: elem * int64(v.scratch)})
		if least < 0 || seconds < least {
			fastest, least = i, seconds
		}
	}
	e.Candidates = sorted(e.Candidates)
	e.Choice = ways[fastest].name
	b.estimates[b.timesKey(key)] = e
	b.timings.Record(b.timesKey(key), e)
	_ = b.timings.Save() // or it is measured again
	return fastest, nil
}

// timedRuns are those of which the least time counts, behind one that does not.
const timedRuns = 3

// time takes the time of a way.
func (b *Backend) time(clock device.Profiler, v variant) (least float64, err error) {
	p, err := b.dev.Alloc(elem * int64(max(v.scratch, 1)))
	if err != nil {
		return 0, noMemory(err)
	}
	w := &work{b: b}
	v.calls(w, elements(p, v.scratch))
	for run := range timedRuns + 1 {
		var seconds float64
		if err = w.err; err == nil {
			seconds, err = clock.Time(w.run)
		}
		if err != nil {
			break
		}
		if run == 1 || run > 1 && seconds < least {
			least = seconds
		}
	}
	if e := b.dev.Free(p); err == nil {
		err = e
	}
	return least, err
}

// SetTimings has the backend keep what it measures in a table of this device, and take the ways
// that stand there without asking for others. Nil keeps nothing.
func (b *Backend) SetTimings(t *tune.Table) { b.timings = t }

// Machine is what times on the device depend on, other than the operation.
func (b *Backend) Machine() tune.Machine {
	p, about := b.dev.Properties(), b.DeviceInfo()
	m := tune.Machine{CPU: strings.ToValidUTF8(p.Name, "?"), Arch: fmt.Sprintf("sm_%d", p.Architecture), Threads: p.Multiprocessors, Kernels: kernels.Digest()}
	for name, version := range about.Versions {
		m.Libraries = append(m.Libraries, name+" "+version)
	}
	slices.Sort(m.Libraries)
	return m
}

// fastestKnown is the way of an operation that was fastest on this machine; "" if nobody knows.
func (b *Backend) fastestKnown(key string) string {
	e, _ := b.timingsOf(key)
	return e.Choice
}

// timesKey is the key of an operation in the table, in which long ones have no place.
func (b *Backend) timesKey(key string) string {
	const longest = 1000
	if b.tf32 {
		key = "tf32 " + key
	}
	if len(key) > longest {
		key = fmt.Sprintf("%.100s… %x", strings.ToValidUTF8(key[:100], "?"), sha256.Sum256([]byte(key)))
	}
	return key
}

// Choices are the ways that were chosen by their time, by the operation.
func (b *Backend) Choices() map[string]string { return b.choices }

// SetChoices has operations take the ways of an earlier backend, where they are served.
func (b *Backend) SetChoices(choices map[string]string) {
	for k, v := range choices {
		b.choices[k] = v
	}
}
