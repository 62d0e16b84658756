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

// variant is one implementation of an operation.
type variant struct {
	name    string
	scratch int // float32 elements
	// calls adds the calls to w; mem is the scratch. It is called whenever the scratch
	// moves.
	calls func(w *work, mem []float32)
	// onChosen is called if the variant is used, before its first call; may be nil.
	onChosen func()
	close    func() // frees what the variant holds; may be nil
	// savedSeconds is the estimated time saved by computing the interior before a halo
	// exchange has ended; 0 if the variant cannot.
	savedSeconds float64
}

// libraryVariants makes the variants of a library on demand, because its plans take
// long to make. The zero value has none.
type libraryVariants struct {
	b         *Backend
	c         cudnn.Convolution
	variantOf func(p ConvPlan) variant // variant of a plan, without name, onChosen and close
}

// prefix begins the names of the library's variants; they are valid for one version of
// it.
func (l libraryVariants) prefix() string { return "cuDNN " + l.b.library.Version() + " " }

// all returns the variants that the library proposes; with cut set also those in
// pieces.
func (l libraryVariants) all(cut bool) (variants []variant) {
	if l.variantOf == nil {
		return nil
	}
	var parts []ConvPlan
	for _, p := range l.b.library.Plans(l.c, libraryLimits) {
		variants = append(variants, l.variant(p))
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
		variants = append(variants, l.variant(p))
	}
	return variants
}

// named returns the variant of a name; ok is false if the name is not one of the
// library's or its plan cannot be made.
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
	return l.variant(p), true
}

// variant returns the variant of a plan.
func (l libraryVariants) variant(p ConvPlan) variant {
	w := l.variantOf(p)
	w.name, w.onChosen, w.close = l.prefix()+p.Name(), func() { l.cache(p) }, func() { _ = p.Close() }
	return w
}

// prepareFastest returns the kernel of the fastest variant. In order of precedence, it
// uses the variant that
//
//   - the request names,
//   - an earlier backend chose for the same operation (SetChoices),
//   - is in the timing table,
//   - is the fastest in a benchmark, on a device that can time,
//   - is the first of our own.
//
// All others are closed.
//
// Cost: a benchmark compiles and runs every variant a few times, the first time on a
// machine.
func (b *Backend) prepareFastest(q backend.Request, own []variant, library libraryVariants, err error) (backend.Kernel, error) {
	if err != nil || own == nil {
		return backend.Kernel{}, err
	}
	// A plan of the library that is known by name is made without asking for others,
	// which takes long.
	key := describe(q)
	variants, i := own, -1
	for _, name := range []string{q.Variant, b.choices[key], b.fastestKnown(key)} {
		if name == "" || i >= 0 {
			continue
		}
		if i = slices.IndexFunc(variants, func(w variant) bool { return w.name == name }); i < 0 {
			if w, ok := library.named(name); ok {
				variants, i = append(variants, w), len(variants)
			}
		}
	}
	if i < 0 {
		variants, i = append(variants, library.all(false)...), 0
		if clock, ok := b.dev.(device.Profiler); ok && len(variants) > 1 {
			if i, err = b.benchmark(clock, key, variants); err != nil {
				return backend.Kernel{}, err
			}
		}
	}
	// The choice is stored before preferOverlap: it must not depend on a halo exchange.
	if len(variants) > 1 || q.Variant != "" {
		b.choices[key] = variants[i].name
	}
	i = b.preferOverlap(key, variants, i)
	for k, w := range variants {
		if k != i && w.close != nil {
			w.close()
		}
	}
	v := variants[i]
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

// preferOverlap returns the index of the variant with the earliest result. During a
// halo exchange that may be one of ours that starts with the interior, although variant
// i of the library takes less time. Variants that need more scratch than variant i are
// excluded, because scratch is already planned.
func (b *Backend) preferOverlap(key string, variants []variant, i int) int {
	e, _ := b.timingsOf(key)
	took := map[string]float64{}
	for _, c := range e.Candidates {
		took[c.Name] = c.Wall.Seconds()
	}
	best, known := took[variants[i].name]
	if !known || variants[i].savedSeconds > 0 {
		return i
	}
	for k, w := range variants {
		if t, known := took[w.name]; known && w.savedSeconds > 0 && w.scratch <= variants[i].scratch && t-w.savedSeconds < best {
			best, i = t-w.savedSeconds, k
		}
	}
	return i
}

// describe returns the key of an operation in choices and timing tables.
func describe(q backend.Request) string {
	s := fmt.Sprintf("%s %s:", q.Op.Name, graph.AttrText(q.Attrs))
	for _, t := range q.In {
		s += fmt.Sprintf(" %v %v %s", t.Shape, t.Layout, stored(t))
	}
	return s + fmt.Sprintf(" to %v %v %s", q.Out.Shape, q.Out.Layout, stored(q.Out))
}

// benchmark times all variants, stores the times, and returns the index of the fastest.
// A variant that fails is left out; if the first one fails, so does benchmark.
func (b *Backend) benchmark(clock device.Profiler, key string, variants []variant) (fastest int, err error) {
	e := tune.Entry{}
	least := -1.0
	for i, v := range variants {
		seconds, err := b.time(clock, v, least)
		// A plan of the library may fail; our own first variant must not.
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
	e.Choice = variants[fastest].name
	b.estimates[b.timesKey(key)] = e
	b.timings.Record(b.timesKey(key), e)
	_ = b.timings.Save() // on failure it is measured again
	return fastest, nil
}

// timedRuns is the largest number of runs of which the least time counts, after one
// warm-up run.
const timedRuns = 3

// A variant slower than the fastest by this factor is not timed again: in its
// warm-up, which loads code, or in a timed run.
const (
	tooSlowFirst = 20
	tooSlow      = 1.5
)

// time returns the least time of a variant in seconds, measured with CUDA events. best
// is the time of the fastest variant before it, negative if there is none.
func (b *Backend) time(clock device.Profiler, v variant, best float64) (least float64, err error) {
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
		if run <= 1 || seconds < least {
			least = seconds
		}
		if best >= 0 && (run == 0 && least > tooSlowFirst*best || run > 0 && least > tooSlow*best) {
			break
		}
	}
	if e := b.dev.Free(p); err == nil {
		err = e
	}
	return least, err
}

// SetTimings sets the timing table of this device. Operations in the table use their
// variant without a benchmark. Nil stores nothing.
func (b *Backend) SetTimings(t *tune.Table) { b.timings = t }

// Machine returns the key of the timing table: GPU, libraries and kernels.
func (b *Backend) Machine() tune.Machine {
	p, about := b.dev.Properties(), b.DeviceInfo()
	m := tune.Machine{CPU: strings.ToValidUTF8(p.Name, "?"), Arch: fmt.Sprintf("sm_%d", p.Architecture), Threads: p.Multiprocessors, Kernels: kernels.Digest()}
	for name, version := range about.Versions {
		m.Libraries = append(m.Libraries, name+" "+version)
	}
	slices.Sort(m.Libraries)
	return m
}

// fastestKnown returns the variant that was fastest on this machine; "" if it is not
// known.
func (b *Backend) fastestKnown(key string) string {
	e, _ := b.timingsOf(key)
	return e.Choice
}

// timesKey returns the key of an operation in the timing table. Long keys are replaced
// by their hash.
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

// Choices returns the variants that were chosen by time, by operation.
func (b *Backend) Choices() map[string]string { return b.choices }

// SetChoices makes operations use the variants of an earlier backend, where they are
// supported.
func (b *Backend) SetChoices(choices map[string]string) {
	for k, v := range choices {
		b.choices[k] = v
	}
}
