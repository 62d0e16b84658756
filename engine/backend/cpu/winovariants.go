//go:build cgo && linux

package cpu

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// winoPass is one pass of a convolution by Winograd's minimal filtering.
//
// Source: Lavin and Gray 2016, doi:10.1109/CVPR.2016.435.
type winoPass struct {
	kern.WinoSpec
	name    string         // forward, data, filter or int8
	scales  *op.Int8Scales // of an int8 convolution; nil for the others
	direct  bool           // of an int8 convolution: without a transform
	threads int            // that share the work
}

// filter reports whether the pass computes the gradient of the filter.
func (p winoPass) filter() bool { return p.name == "filter" }

// winoPassOf returns the pass for a request on the blocked layout. ok is false if the
// operation is not a convolution or not supported.
func (b *Backend) winoPassOf(q backend.Request) (p winoPass, ok bool) {
	q, halos := withoutHalo(q)
	shapes := q.InShapes()
	switch conv := q.Op.Conv; {
	case conv.Is(graph.ConvForward):
		parts, w, a := forwardOperands(q.Attrs, shapes)
		p.name = "forward"
		p.WinoSpec, ok = b.partsSpec(parts, w, a.Conv)
		p.ReLU = a.ReLU
	case conv.Is(graph.ConvData):
		p.name = "data"
		p.WinoSpec, ok = b.dataSpec(shapes[0], shapes[1], dataAttrs(q.Attrs))
	case conv.Is(graph.ConvFilter):
		a := q.Attrs.(op.ConvGrad)
		p.name = "filter"
		p.WinoSpec, ok = b.partsSpec(shapes[:len(shapes)-1], a.To, a.Conv)
	case conv.Is(graph.ConvInt8):
		n := len(shapes) - 2
		p, ok = int8Pass(shapes[:n], shapes[n], q.Attrs.(op.Int8Conv)), true
	}
	p.BF16 = ok && p.scales == nil && b.multipliesBF16(q)
	p.Halo, p.threads = halos.widths, b.pool.Threads()
	return p, ok
}

// multipliesBF16 reports whether a convolution multiplies bfloat16: Options.BF16Products is set and all its fields
// are stored as bfloat16.
func (b *Backend) multipliesBF16(q backend.Request) bool {
	return b.options.BF16Products && !slices.ContainsFunc(q.Op.Conv.Fields(len(q.In)), func(i int) bool { return q.In[i].U16 == nil && q.In[i].DType != graph.BFloat16 })
}

// sparsePrefix begins the names of variants that skip masked blocks of a filter.
const sparsePrefix = "wino sparse"

// variantName names a variant in plans and timing tables.
func (p winoPass) variantName(w kern.WinoVariant) string {
	switch {
	case p.scales != nil && w.Direct:
		return "int8 direct"
	case p.scales != nil && w.Sparse:
		return fmt.Sprintf("wino int8 sparse %d", w.Tiles)
	case p.scales != nil:
		return "wino int8"
	case w.Direct:
		return "direct"
	case w.Whole:
		return "wino whole"
	case w.Sparse:
		return fmt.Sprintf("%s %d", sparsePrefix, w.Tiles)
	case w.Rows > 0:
		return fmt.Sprintf("wino %d rows %d", w.Tiles, w.Rows)
	}
	return fmt.Sprintf("wino %d", w.Tiles)
}

// wholeTiles is the number of tiles up to which a variant is tried that transforms all
// tiles before the first product. Above it that variant was never faster, and it needs
// more scratch than a filter with as many output channels.
func (p winoPass) wholeTiles() int { return max(256, p.K) }

// fewTiles is the number of tiles up to which variants with blocks of tiles are not
// tried. On the processors measured they save at most 8 %, lose up to a factor of 4 and
// need up to 30 times the scratch.
const fewTiles = 16

// variants returns the variants to be timed, the default first. It leaves out those
// that are identical for this number of tiles.
//
// Where there is AMX, the products of bfloat16 and of int8 values that an algorithm spares are worth less than its
// transforms: the only variant is the direct one, so that the shape alone determines the bits.
func (p winoPass) variants() []kern.WinoVariant {
	if p.direct || p.scales == nil && kern.SupportsDirect(p.WinoSpec) {
		return []kern.WinoVariant{{Direct: true}}
	}
	if p.scales != nil { // measured, dense variants of 14, 28 and 42 tiles differ by a few per cent
		return append([]kern.WinoVariant{kern.DefaultWinoInt8}, p.sparseVariants()...)
	}
	guess, all, tiles := kern.DefaultWino(p.WinoSpec), kern.WinoVariants, p.Tiles()
	if p.filter() {
		guess, all = kern.DefaultWinoFilter(p.WinoSpec, p.threads), kern.WinoFilterVariants(p.WinoSpec, p.threads)
	}
	variants := append([]kern.WinoVariant{guess}, p.sparseVariants()...) // early, so that they run before the time limit of the benchmark
	for _, w := range all {
		// If one block of a smaller variant holds all tiles, w would be identical to it.
		smaller := func(o kern.WinoVariant) bool {
			return !o.Whole && o.Rows == w.Rows && o.Tiles >= tiles && o.Tiles < w.Tiles
		}
		if w == guess || w.Whole && tiles > p.wholeTiles() || !w.Whole && (tiles <= fewTiles || slices.ContainsFunc(all, smaller)) {
			continue
		}
		variants = append(variants, w)
	}
	return variants
}

// sparseVariants returns the variants that multiply only the kept blocks of a masked
// filter. None of them is the default: they are used only if measured to be faster.
func (p winoPass) sparseVariants() (variants []kern.WinoVariant) {
	if !kern.SupportsSparseWino(p.WinoSpec) {
		return nil
	}
	all, tiles := kern.WinoSparseVariants, p.Tiles()
	switch {
	case p.filter():
		all = kern.WinoSparseFilterVariants
	case p.scales != nil:
		all = kern.WinoSparseInt8Variants
	}
	for _, w := range all {
		smaller := func(o kern.WinoVariant) bool { return o.Tiles >= tiles && o.Tiles < w.Tiles }
		if !slices.ContainsFunc(all, smaller) {
			variants = append(variants, w)
		}
	}
	return variants
}

// preparedWino is a prepared pass with the name of its variant.
type preparedWino struct {
	*kern.Wino
	variant string
}

// kernel returns a backend kernel. If the input has a halo, tiles that do not read it
// run in RunEarly, before the halo has arrived, and the others in Run.
func (j preparedWino) kernel(run func(part kern.WinoPart)) (backend.Kernel, error) {
	if !j.HasInner() {
		return kernel(j.variant, func() { run(kern.Whole) })
	}
	k, err := kernel(j.variant, func() { run(kern.Outer) })
	k.RunEarly = func() error { run(kern.Inner); return nil }
	return k, err
}

// prepare prepares a variant of a pass in float32 or bfloat16; a nil pool has one thread.
func (p winoPass) prepare(pool *kern.Pool, w kern.WinoVariant) (*kern.Wino, error) {
	if p.filter() {
		return kern.NewWinoFilter(pool, p.WinoSpec, w)
	}
	return kern.NewWino(pool, p.WinoSpec, w)
}

// newWino prepares a pass in a variant.
func (b *Backend) newWino(p winoPass, w kern.WinoVariant) (preparedWino, error) {
	j, err := p.prepare(b.pool, w)
	return preparedWino{j, p.variantName(w)}, err
}

// scratchLen returns the number of float32 values of scratch that a variant needs.
func (b *Backend) scratchLen(p winoPass, w kern.WinoVariant) (int, error) {
	if p.scales != nil {
		j, err := b.newWinoInt8(p, w)
		if err != nil {
			return 0, err
		}
		defer j.Close()
		return j.ScratchLen(), nil
	}
	j, err := b.newWino(p, w)
	if err != nil {
		return 0, err
	}
	return j.ScratchLen(), nil
}

// variant returns the variant that a request names, or the default one.
//
// Errors: the variant does not exist.
func (p winoPass) variant(q backend.Request) (kern.WinoVariant, error) {
	variants := p.variants()
	if q.Variant == "" {
		return variants[0], nil
	}
	i := slices.IndexFunc(variants, func(w kern.WinoVariant) bool { return p.variantName(w) == q.Variant })
	if i < 0 {
		return kern.WinoVariant{}, fmt.Errorf("%s: unknown kernel variant %q", q.Op.Name, q.Variant)
	}
	return variants[i], nil
}

// prepareWino prepares the pass of a request, in the variant that it names or in the
// default one.
//
// Errors: the variant does not exist; kern.ErrUnsupported.
func (b *Backend) prepareWino(q backend.Request) (preparedWino, error) {
	p, _ := b.winoPassOf(q)
	variant, err := p.variant(q)
	if err != nil {
		return preparedWino{}, err
	}
	j, err := b.newWino(p, variant)
	if err != nil {
		return j, err
	}
	b.needScratch(j.ScratchLen())
	if _, f := withoutHalo(q); f.values[0].Len() > 0 {
		j.SetHalos(f.values[0], f.values[1])
	}
	return j, nil
}

// benchmarkFLOPs is the least work of a pass whose variants are timed. Smaller passes
// take less than a millisecond, of which the choice of a variant changes a tenth.
const benchmarkFLOPs = 2e8

// Variants lists the variants of a Winograd convolution on blocked fields, the default
// first; none for other operations. All variants give the same bits.
//
// With a timing table, variants of large convolutions are timed once. Otherwise Time is
// an estimate for the default and increases by 1/16 from one variant to the next, so
// that the default is chosen.
//
// Errors: those of preparing a variant or of the benchmark.
func (b *Backend) Variants(q backend.Request) ([]backend.Variant, error) {
	if f, ok := b.form(q); !ok || !f.wino && !q.Op.Conv.Is(graph.ConvInt8) {
		return nil, nil
	}
	p, _ := b.winoPassOf(q)
	variants := p.variants()
	list := make([]backend.Variant, len(variants))
	flops := q.Op.FLOPs(q.InShapes(), q.Out.Shape, withoutMask(q.Attrs)) // of a dense variant
	estimate := time.Duration(winoCost(flops, p.WinoSpec) / float64(b.pool.Threads()) * float64(time.Second))
	for i, w := range variants {
		scratch, err := b.scratchLen(p, w)
		if err != nil {
			return nil, err
		}
		list[i] = backend.Variant{Name: p.variantName(w), Bytes: 4 * int64(scratch), Time: estimate + estimate*time.Duration(i)/16}
	}
	if b.options.Timings == nil || float64(flops) < benchmarkFLOPs || len(variants) == 1 {
		return list, nil
	}
	part := p.excerpt()
	entry, known := b.options.Timings.Lookup(part.key())
	if !known {
		if err := b.Do(func() (err error) { entry, err = b.benchmarkVariants(part, variants, estimate); return err }); err != nil {
			return nil, err
		}
		b.options.Timings.Record(part.key(), entry)
	}
	p.setTimes(list, variants, entry, float64(p.Tiles())/float64(part.Tiles()))
	return list, nil
}

// setTimes sets the wall-clock times of variants: processor times of an entry of the timing table, scaled, divided by the number
// of busy threads. Variants that were skipped since they are expected to be slower rank after the best that was timed, whatever
// their threads, and others without a time after all.
func (p winoPass) setTimes(list []backend.Variant, variants []kern.WinoVariant, entry tune.Entry, scale float64) {
	best, all := math.Inf(1), 0.
	for i, w := range variants {
		if cpu, _ := entry.CPUOf(list[i].Name); cpu > 0 {
			list[i].Time = time.Duration(float64(cpu) * scale / p.meanBusyThreads(w))
			all += float64(cpu) * scale
		}
		if entry.Timed(list[i].Name) {
			best = min(best, float64(list[i].Time))
		}
	}
	for i := range list {
		switch cpu, _ := entry.CPUOf(list[i].Name); {
		case cpu == 0:
			list[i].Time = time.Duration(all)
		case !entry.Timed(list[i].Name) && best < math.Inf(1):
			list[i].Time = max(list[i].Time, time.Duration(best*(1+tune.Fitted().Error)))
		}
	}
}

// meanBusyThreads estimates how many threads have work on average. Threads take work
// items one at a time, and in the last round some may be idle.
func (p winoPass) meanBusyThreads(w kern.WinoVariant) float64 {
	// The numbers of items are those of wino.inc.h.
	ceil := func(n, d int) int { return (n + d - 1) / d }
	const columns, chunk = 2 * kern.Block, 2 * kern.Block
	switch {
	case p.filter() && w.Whole:
		return busyThreads(ceil(p.K, columns)*(ceil(p.Parts[0], chunk)+ceil(p.Parts[1], chunk)), 1, p.threads)
	case p.filter() && w.Rows > 0:
		return busyThreads(p.Points(), w.Rows, p.threads)
	case p.filter():
		return float64(p.threads) // one item for each point of a transformed tile, which are many
	case w.Whole: // items are blocks of columns, and half blocks in the last round
		halves := ceil(p.K, columns/2)
		full := halves / 2 / p.threads * p.threads
		return float64(halves) / float64(2*full/p.threads+ceil(halves-2*full, p.threads))
	}
	return busyThreads(p.Tiles(), w.Tiles, p.threads)
}

// busyThreads is how many of the threads are busy on average if they take work in blocks, of which the last may be smaller:
// all the work over that of the thread with the most.
func busyThreads(work, block, threads int) float64 {
	blocks := work / block
	most := blocks / threads * block
	if blocks%threads > 0 {
		most += block
	} else {
		most += work % block
	}
	return float64(work) / float64(most)
}

// excerpt returns a smaller pass, of fewer samples and latitudes and with zeros in place of the halo, on
// which variants rank as on the whole.
func (p winoPass) excerpt() winoPass {
	for axis := 1; axis < 3; axis++ {
		p.Before[axis] = max(0, p.Before[axis]-p.Halo[2*axis-2])
		p.After[axis] = max(0, p.After[axis]-p.Halo[2*axis-1])
	}
	p.Halo = [4]int{}
	for p.Tiles() > p.wholeTiles() {
		switch {
		case p.N > 1:
			p.N = (p.N + 1) / 2
		case p.Size[1] >= 8*p.Side:
			p.Size[1] /= 2
		default:
			return p
		}
	}
	return p
}

// key returns the key of a pass in the timing table (winoKey). Suffixes distinguish
// bfloat16 products, fields with extra rows and masked filters. Of a mask only the
// counts matter, not the positions of its blocks.
func (p winoPass) key() string {
	products := ""
	if p.BF16 {
		products = " bf16"
	}
	if p.Before != [3]int{} || p.After != [3]int{} {
		products += fmt.Sprintf(" more %v %v", p.Before, p.After)
	}
	if kern.SupportsSparseWino(p.WinoSpec) { // the counts decide the speed, not the positions
		kept, read, used := p.SparseLoad()
		products += fmt.Sprintf(" kept %d of %d from %d to %d", kept, len(p.Mask), read, used)
	}
	return fmt.Sprintf(winoKey+"%s", p.name, p.N, p.Parts[0], p.Parts[1], p.K, p.Size, p.KD, p.Side, p.Wrap, products)
}

// benchmarkVariants times variants of a pass. Fields are float32, or bfloat16 if
// products are; the ranking holds for both storage types. estimate is the expected time
// of one variant on the whole problem and sets the time limit.
func (b *Backend) benchmarkVariants(p winoPass, variants []kern.WinoVariant, estimate time.Duration) (tune.Entry, error) {
	if p.scales != nil {
		return b.benchmarkInt8(p, variants, estimate)
	}
	field := func(channels int, size [3]int) kern.Stored {
		n := kern.Blocked{N: p.N, C: channels, S: size}.Len()
		if p.BF16 {
			return kern.BFloat16(slices.Repeat([]uint16{0x3f00, 0xbe80, 0}, n/3+1)[:n])
		}
		return kern.Float32(benchmarkValues(n))
	}
	// The filter may have more input channels (FilterIn) than the pass uses.
	rows, n := p.K, p.Parts[0]+p.Parts[1]
	if p.Flip {
		rows = n
	}
	filter := benchmarkValues(rows * p.FilterIn * p.KD * p.Side * p.Side)
	x0, y := field(p.Parts[0], p.Source()), field(p.K, p.Size)
	var x1 kern.Stored
	if p.Parts[1] > 0 {
		x1 = field(p.Parts[1], p.Source())
	}
	var scratch []float32
	var runners []tune.Candidate
	for _, w := range variants {
		j, err := b.newWino(p, w)
		if err != nil {
			return tune.Entry{}, err
		}
		if len(scratch) < j.ScratchLen() {
			scratch = benchmarkValues(j.ScratchLen()) // written, so that no run includes page faults
		}
		run := func() { j.Run(kern.WinoValues{Y: y, X0: x0, X1: x1, Filter: filter, Scratch: scratch}) }
		if p.filter() {
			run = func() { j.RunFilter(filter, x0, x1, y, scratch) }
		}
		runners = append(runners, tune.Candidate{Name: j.variant, Bytes: 4 * int64(j.ScratchLen()), Run: func() error { run(); return nil }, Busy: p.meanBusyThreads(w)})
	}
	if err := p.expect(runners, variants); err != nil {
		return tune.Entry{}, err
	}
	return tune.Benchmark(runners, b.options.Timings.Options(p.benchmarkOptions(len(variants), estimate)))
}

// benchmarkValues returns n values with a spread of sizes and signs.
func benchmarkValues(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%17-8) / 8
	}
	return x
}

// benchmarkInt8 is benchmarkVariants of an int8 convolution. Times do not depend on values.
func (b *Backend) benchmarkInt8(p winoPass, variants []kern.WinoVariant, estimate time.Duration) (tune.Entry, error) {
	field := func(channels int) kern.Blocked { return kern.Blocked{N: p.N, C: channels, S: p.Size} }
	filter := benchmarkValues(p.K * p.FilterIn * p.KD * p.Side * p.Side)
	x0, x1, y8, y := make([]uint8, field(p.Parts[0]).Len()), []uint8(nil), []uint8(nil), kern.Stored{}
	if p.Parts[1] > 0 {
		x1 = make([]uint8, field(p.Parts[1]).Len())
	}
	if n := field(p.K).Len(); p.scales.OutScales != nil {
		y8 = make([]uint8, n)
	} else {
		y = kern.Float32(make([]float32, n))
	}
	var scratch []float32
	var runners []tune.Candidate
	for _, w := range variants {
		j, err := b.newWinoInt8(p, w)
		if err != nil {
			return tune.Entry{}, err
		}
		defer j.Close()
		if len(scratch) < j.ScratchLen() {
			scratch = make([]float32, j.ScratchLen())
		}
		run := func() error { j.Run(y8, y, x0, x1, filter, nil, scratch); return nil }
		runners = append(runners, tune.Candidate{Name: p.variantName(w), Bytes: 4 * int64(j.ScratchLen()), Run: run})
	}
	return tune.Benchmark(runners, p.benchmarkOptions(len(variants), estimate))
}

// benchmarkOptions limits the time of a benchmark of n variants. It is long enough that every
// variant of a long pass runs once.
func (p winoPass) benchmarkOptions(n int, estimate time.Duration) tune.BenchmarkOptions {
	budget := 30*time.Millisecond + 2*time.Duration(n)*estimate
	if kern.SupportsSparseWino(p.WinoSpec) { // speeds differ by large factors; more time keeps noise out of the ranking
		budget += 200 * time.Millisecond
	}
	o := tune.ShortRace
	o.Budget = budget
	return o
}
