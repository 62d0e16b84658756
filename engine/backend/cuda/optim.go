package cuda

import (
	"errors"
	"math"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
)

// optimProgram holds the kernels of optimisers.
var optimProgram = kernels.Program("optim.cu")

// packConstants returns the constants of a step in the order of optim.cu.
func packConstants(c backend.OptimConstants) [numConstants]float32 {
	var out [numConstants]float32
	for i, x := range [...]float64{c.Rate, c.Beta1, c.Beta2, 1 - c.Beta1, 1 - c.Beta2, c.Eps, c.Momentum, c.GradScale, c.EMAWeight, c.Correct1, c.Correct2, c.ClipNorm, c.TrustCoefficient} {
		out[i] = float32(x)
	}
	return out
}

// Numbers of constants and results of optim.cu.
const (
	numConstants = 13
	numResults   = 3
)

// The compiler checks that Backend implements the interface.
var _ backend.Updater = (*Backend)(nil)

// optimiser updates flat parameters on the device. Its rules are numbered as in
// optim.cu; kern.OptStep has their formulas.
type optimiser struct {
	b                    *Backend
	rule                 backend.Rule
	measure, join, ratio work // squares of gradients and weights; their sums; the norm and trust ratios
	moments, move        work // moments of LAMB; the update
	// results are the norm, the clipping factor and whether the gradient is finite, on the
	// device.
	constants, results []float32
	constantsHost      []float32 // page-locked copies
	resultsHost        []float32
	owned              [][]float32    // memory to free
	pieces             device.Pointer // table of the ranges on the device
	count              int            // number of ranges
}

// NewOptimiser prepares an optimiser with an update rule for the given ranges.
//
// A step computes the squares of each range, their sums by tensor, the gradient norm
// and the clipping factor, for LAMB the moments and their norms, trust ratios, and the
// update. All kernels read the constants from the device, so that a recording can be
// repeated.
//
// Memory: constants, tables of ranges and tensors, and sums of squares in float64.
// Errors: the memory of the device does not suffice.
// Source: package optim names the equations of each rule; You et al. 2020,
// arXiv:1904.00962 (LAMB).
func (b *Backend) NewOptimiser(rule backend.Rule, pieces []backend.ParamRange, tensors []backend.ParamTensor, a backend.OptimArrays) (_ backend.Optimiser, err error) {
	s := &optimiser{b: b, rule: rule, count: len(pieces)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	room := func(n int, make func(int) ([]float32, error)) []float32 {
		x, e := make(n)
		err = errors.Join(err, e)
		s.owned = append(s.owned, x)
		return x
	}
	s.constants, s.constantsHost = room(numConstants, b.Alloc), room(numConstants, b.AllocHost)
	s.results, s.resultsHost = room(numResults, b.Alloc), room(numResults, b.AllocHost)
	const double = 2 // a float64 takes the memory of two float32
	parts, sums := room(2*double*len(pieces), b.Alloc), room(2*double*len(tensors), b.Alloc)
	decay, ratio := room(len(tensors), b.Alloc), room(len(tensors), b.Alloc)
	pieceTable, tensorTable := room(8*len(pieces), b.Alloc), room(3*(len(tensors)+1), b.Alloc)
	if err == nil {
		err = s.tables(pieceTable, tensorTable, pieces, tensors)
	}
	if err != nil {
		return s, err
	}
	s.pieces = start(pieceTable)
	table, of, c, found := s.pieces, start(tensorTable), start(s.constants), start(s.results)
	each := device.Size{Grid: [3]int{len(pieces)}, Block: [3]int{threads}}
	if len(pieces) == 0 {
		each.Grid[0] = -1
	}
	n, one := int32(len(tensors)), device.Size{Block: [3]int{threads}}
	for _, w := range []*work{&s.measure, &s.join, &s.ratio, &s.moments, &s.move} {
		w.b = b
	}
	// Before the update only LARS needs the norms of weights; LAMB gets them from opt_moments.
	w := start(a.W)
	if rule != backend.RuleLARS {
		w = nil
	}
	s.measure.call(optimProgram, "opt_squares", each, table, w, start(a.G), start(parts))
	s.join.call(optimProgram, "opt_join", gridFor(int64(n)), of, start(parts), start(sums), n)
	s.measure.calls = append(s.measure.calls, s.join.calls...)
	s.ratio.call(optimProgram, "opt_norm", one, start(sums), c, found, n)
	if rule == backend.RuleLAMB {
		s.moments.call(optimProgram, "opt_moments", each, table, of, c, found, start(a.W), start(a.M), start(a.V), start(a.G), start(parts))
		s.moments.calls = append(s.moments.calls, s.join.calls...)
	}
	s.move.call(optimProgram, "opt_ratio", gridFor(int64(n)), of, start(sums), c, found, start(decay), start(ratio), n, int32(rule))
	s.move.call(optimProgram, "opt_move", each, table, c, found, start(decay), start(ratio), start(a.W), start(a.M), start(a.V), start(a.E), start(a.G), int32(rule))
	return s, errors.Join(s.measure.err, s.join.err, s.ratio.err, s.moments.err, s.move.err)
}

// tables copies the tables of ranges and tensors to the device.
func (s *optimiser) tables(pieceTable, tensorTable []float32, pieces []backend.ParamRange, tensors []backend.ParamTensor) error {
	p, err := s.b.AllocHost(max(len(pieceTable), 2))
	if err != nil {
		return err
	}
	t, err := s.b.AllocHost(len(tensorTable))
	if err != nil {
		return errors.Join(err, s.b.Free(p))
	}
	// struct piece of optim.cu: four int64 for each range. struct tensor: its first range,
	// whether it is plain, and its decay, four bytes each; one more marks the end.
	words := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/2)
	first := make([]int, len(tensors)+1)
	for i, x := range pieces {
		copy(words[4*i:], []int64{int64(x.Lo), int64(x.Hi), int64(x.At), int64(x.Tensor)})
		first[x.Tensor+1] = i + 1
	}
	for i := range tensors {
		first[i+1] = max(first[i], first[i+1]) // a tensor without ranges
	}
	whole := func(n int) float32 { return math.Float32frombits(uint32(n)) }
	for i, f := range first {
		t[3*i] = whole(f)
		if i < len(tensors) {
			t[3*i+2] = float32(tensors[i].Decay)
			if tensors[i].Plain {
				t[3*i+1] = whole(1)
			}
		}
	}
	return errors.Join(s.b.Copy(pieceTable, p), s.b.Copy(tensorTable, t), s.b.Wait(), s.b.Free(p), s.b.Free(t))
}

// SetConstants copies the constants of the next steps to the device.
func (s *optimiser) SetConstants(c backend.OptimConstants) error {
	if err := s.b.Wait(); err != nil {
		return err
	}
	list := packConstants(c)
	copy(s.constantsHost, list[:])
	return s.b.Copy(s.constants, s.constantsHost)
}

// Step updates the parameters once. If the gradient is not finite, nothing changes; see
// GradNorm.
func (s *optimiser) Step() error {
	return errors.Join(s.measure.run(), s.ratio.run(), s.moments.run(), s.move.run(), s.b.Copy(s.resultsHost, s.results))
}

// GradNorm waits and returns the norm of the last gradient before clipping, and whether
// the gradient was finite.
func (s *optimiser) GradNorm() (norm float64, finite bool, err error) {
	err = s.b.Wait()
	return float64(s.resultsHost[0]), s.resultsHost[2] != 0, err
}

// Finite waits and reports whether the gradient of the next step is finite.
func (s *optimiser) Finite() (bool, error) {
	err := errors.Join(s.measure.run(), s.ratio.run(), s.b.Copy(s.resultsHost, s.results))
	if err != nil {
		return false, err
	}
	_, finite, err := s.GradNorm()
	return finite, err
}

// paramMask holds a mask of parameters, one byte each, on the device and on the host.
type paramMask struct {
	b            *Backend
	device, host []float32
}

// NewMask allocates a mask of n parameters.
//
// Errors: the memory of the device does not suffice.
func (b *Backend) NewMask(n int) (_ backend.ParamMask, err error) {
	const parameters = elem // in an element of four bytes
	m := &paramMask{b: b}
	if m.device, err = b.Alloc(ceil(n, parameters)); err == nil {
		m.host, err = b.AllocHost(ceil(n, parameters))
	}
	return m, err
}

// Set copies a mask to the device.
func (m *paramMask) Set(keep []bool) error {
	if err := m.b.Wait(); err != nil {
		return err
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(m.host))), elem*len(m.host))
	for i, k := range keep {
		bytes[i] = 0
		if k {
			bytes[i] = 1
		}
	}
	return m.b.Copy(m.device, m.host)
}

// PrepareMask returns a function that sets x, laid out as the moments, to 0 where the
// mask is false.
func (s *optimiser) PrepareMask(x []float32, m backend.ParamMask) (func() error, error) {
	w := &work{b: s.b}
	if s.count > 0 {
		w.call(optimProgram, "opt_mask", device.Size{Grid: [3]int{s.count}, Block: [3]int{threads}}, s.pieces, start(m.(*paramMask).device), start(x))
	}
	return w.run, w.err
}

// PrepareAccumulate returns a function that adds weight·g to sum; weight is one number
// on the device.
func (b *Backend) PrepareAccumulate(sum, g, weight []float32) (func() error, error) {
	w := &work{b: b}
	w.call(optimProgram, "opt_add", gridFor(int64(len(sum))), start(sum), start(g), start(weight), int64(len(sum)))
	return w.run, w.err
}

// Close frees the memory of the optimiser.
func (s *optimiser) Close() error {
	var err error
	for _, x := range s.owned {
		if x != nil {
			err = errors.Join(err, s.b.Free(x))
		}
	}
	s.owned = nil
	return err
}
