//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// Parts of the kind of variants: of filters that are sums of parts, whose tiles go through the products in chunks of
// channels; of variants in which a thread takes rows of points through all tiles; and of those that transform all tiles before
// the first product.
const (
	rowsKind  = " rows"
	wideKind  = " wide"
	wholeKind = " whole"
)

// leastCells is the least number of results of a tile along an axis. A filter that needs more points for them than its tiles have is a sum of parts.
const leastCells = 4

// work describes a variant of a pass for expected times, but for int8, AMX and masks.
//
// Scratch is an affine function of the tiles of a block. Its slope is a transformed tile,
// the rest the transformed filter or the sums of its gradient.
//
// Errors: those of preparing a variant.
func (p winoPass) work(w kern.WinoVariant) (tune.Work, error) {
	const few, more = 2, 4 // even, since tiles of bfloat16 lie in pairs
	var scratch [2]float64
	for i, tiles := range []int{few, more} {
		j, err := p.prepare(nil, kern.WinoVariant{Tiles: tiles})
		if err != nil {
			return tune.Work{}, err
		}
		scratch[i] = 4 * float64(j.ScratchLen())
	}
	tile := (scratch[1] - scratch[0]) / (more - few)
	work := tune.Work{Name: p.variantName(w), Kind: p.name, Items: p.Tiles(), Block: w.Tiles, Shared: scratch[0] - few*tile, Item: tile}
	if p.Points() < leastCells+p.Side-1 {
		work.Kind += wideKind
	}
	if w.Rows > 0 {
		work.Kind += rowsKind
	}
	if w.Whole {
		work.Kind, work.Block = work.Kind+wholeKind, work.Items
	}
	return work, nil
}

// expect sets the expected times and kinds of the candidates of variants, but where times depend on more
// than shapes: int8, AMX and masks; and those of rows of points on instruction sets where they were not measured.
//
// Errors: those of preparing a variant.
func (p winoPass) expect(candidates []tune.Candidate, variants []kern.WinoVariant) error {
	for i, w := range variants {
		if p.scales != nil || w.Direct || w.Sparse {
			continue
		}
		work, err := p.work(w)
		if err != nil {
			return err
		}
		candidates[i].Kind, candidates[i].Expected = work.Kind, tune.Fitted().Time(kern.ISA(), tune.SecondCache(), work)
	}
	return nil
}

// VariantWork returns the work of the variants of a kernel, the default first, from its key in the
// timing table; nothing for other kernels and for keys with a suffix.
//
// Errors: those of preparing a variant.
func VariantWork(key string) (works []tune.Work, err error) {
	k, ok := parseWinoKey(key)
	if !ok {
		return nil, nil
	}
	p := winoPass{name: k.pass, WinoSpec: kern.WinoSpec{N: k.samples, Parts: k.in, K: k.out, Size: k.size, KD: k.levels, Side: k.side, Wrap: k.wrap,
		FilterIn: k.in[0] + k.in[1]}}
	for _, w := range p.variants() {
		work, err := p.work(w)
		if err != nil {
			return nil, err
		}
		works = append(works, work)
	}
	return works, nil
}
