package cuda

import (
	"errors"
	"math"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
)

var sweeping = kernels.Program("optim.cu")

// sweepConstantsOf are the constants of a step in the order of optim.cu.
func sweepConstantsOf(c backend.SweepConstants) [sweepConstants]float32 {
	var out [sweepConstants]float32
	for i, x := range [...]float64{c.Rate, c.Beta1, c.Beta2, 1 - c.Beta1, 1 - c.Beta2, c.Eps, c.Momentum, c.Factor, c.Blend, c.Correct1, c.Correct2, c.Clip, c.Trust} {
		out[i] = float32(x)
	}
	return out
}

// Sizes of what a sweep reads and finds.
const (
	sweepConstants = 13
	sweepFound     = 3
)

var _ backend.Updater = (*Backend)(nil)

// sweep is the optimiser of flat parameters on the device. Its rules are numbered as those of optim.cu.
type sweep struct {
	b                    *Backend
	rule                 backend.Rule
	measure, join, ratio work
	moments, move        work
	constants, found     []float32 // on the device
	constantsHost        []float32 // and where the program has them
	foundHost            []float32
	owned                [][]float32
	pieces               device.Pointer
	count                int
}

// NewSweep prepares the sweeps of a rule over pieces.
//
// Errors: too little memory.
func (b *Backend) NewSweep(rule backend.Rule, pieces []backend.SweepPiece, tensors []backend.SweepTensor, a backend.SweepArrays) (_ backend.Sweep, err error) {
	s := &sweep{b: b, rule: rule, count: len(pieces)}
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
	s.constants, s.constantsHost = room(sweepConstants, b.Make), room(sweepConstants, b.MakeHost)
	s.found, s.foundHost = room(sweepFound, b.Make), room(sweepFound, b.MakeHost)
	const double = 2 // float32 of one
	parts, sums := room(2*double*len(pieces), b.Make), room(2*double*len(tensors), b.Make)
	decay, ratio := room(len(tensors), b.Make), room(len(tensors), b.Make)
	pieceTable, tensorTable := room(8*len(pieces), b.Make), room(3*(len(tensors)+1), b.Make)
	if err == nil {
		err = s.tables(pieceTable, tensorTable, pieces, tensors)
	}
	if err != nil {
		return s, err
	}
	s.pieces = start(pieceTable)
	table, of, c, found := s.pieces, start(tensorTable), start(s.constants), start(s.found)
	each := device.Size{Grid: [3]int{len(pieces)}, Block: [3]int{threads}}
	if len(pieces) == 0 {
		each.Grid[0] = -1
	}
	n, one := int32(len(tensors)), device.Size{Block: [3]int{threads}}
	for _, w := range []*work{&s.measure, &s.join, &s.ratio, &s.moments, &s.move} {
		w.b = b
	}
	w := start(a.W)
	if rule != backend.RuleLARS {
		w = nil
	}
	s.measure.call(sweeping, "opt_squares", each, table, w, start(a.G), start(parts))
	s.join.call(sweeping, "opt_join", over(int64(n)), of, start(parts), start(sums), n)
	s.measure.calls = append(s.measure.calls, s.join.calls...)
	s.ratio.call(sweeping, "opt_norm", one, start(sums), c, found, n)
	if rule == backend.RuleLAMB {
		s.moments.call(sweeping, "opt_moments", each, table, of, c, found, start(a.W), start(a.M), start(a.V), start(a.G), start(parts))
		s.moments.calls = append(s.moments.calls, s.join.calls...)
	}
	s.move.call(sweeping, "opt_ratio", over(int64(n)), of, start(sums), c, found, start(decay), start(ratio), n, int32(rule))
	s.move.call(sweeping, "opt_move", each, table, c, found, start(decay), start(ratio), start(a.W), start(a.M), start(a.V), start(a.E), start(a.G), int32(rule))
	return s, errors.Join(s.measure.err, s.join.err, s.ratio.err, s.moments.err, s.move.err)
}

// tables brings pieces and tensors to the device.
func (s *sweep) tables(pieceTable, tensorTable []float32, pieces []backend.SweepPiece, tensors []backend.SweepTensor) error {
	p, err := s.b.MakeHost(max(len(pieceTable), 2))
	if err != nil {
		return err
	}
	t, err := s.b.MakeHost(len(tensorTable))
	if err != nil {
		return errors.Join(err, s.b.Free(p))
	}
	words := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/2)
	first := make([]int, len(tensors)+1)
	for i, x := range pieces {
		copy(words[4*i:], []int64{int64(x.Lo), int64(x.Hi), int64(x.At), int64(x.Tensor)})
		first[x.Tensor+1] = i + 1
	}
	for i := range tensors {
		first[i+1] = max(first[i], first[i+1]) // of one without pieces
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

// Set brings the constants of the next steps to the device.
func (s *sweep) Set(c backend.SweepConstants) error {
	if err := s.b.Wait(); err != nil {
		return err
	}
	list := sweepConstantsOf(c)
	copy(s.constantsHost, list[:])
	return s.b.Copy(s.constants, s.constantsHost)
}

// Step moves the parameters once. A gradient that is not finite changes nothing; see Found.
func (s *sweep) Step() error {
	return errors.Join(s.measure.run(), s.ratio.run(), s.moments.run(), s.move.run(), s.b.Copy(s.foundHost, s.found))
}

// Found waits, and gives the norm of the gradient of the last step before clipping, and whether it was finite.
func (s *sweep) Found() (norm float64, finite bool, err error) {
	err = s.b.Wait()
	return float64(s.foundHost[0]), s.foundHost[2] != 0, err
}

// Finite tells whether the gradient is that the next step moves along. It waits.
func (s *sweep) Finite() (bool, error) {
	err := errors.Join(s.measure.run(), s.ratio.run(), s.b.Copy(s.foundHost, s.found))
	if err != nil {
		return false, err
	}
	_, finite, err := s.Found()
	return finite, err
}

// sweepMask is which parameters are kept, a byte each, on the device and where the program has them.
type sweepMask struct {
	b           *Backend
	there, here []float32
}

// NewMask makes room for a mask of n parameters.
//
// Errors: too little memory.
func (b *Backend) NewMask(n int) (_ backend.SweepMask, err error) {
	const parameters = elem // in an element of four bytes
	m := &sweepMask{b: b}
	if m.there, err = b.Make(ceil(n, parameters)); err == nil {
		m.here, err = b.MakeHost(ceil(n, parameters))
	}
	return m, err
}

// Set brings a mask to the device.
func (m *sweepMask) Set(keep []bool) error {
	if err := m.b.Wait(); err != nil {
		return err
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(m.here))), elem*len(m.here))
	for i, k := range keep {
		bytes[i] = 0
		if k {
			bytes[i] = 1
		}
	}
	return m.b.Copy(m.there, m.here)
}

// Masked makes what sets x, which lies as the moments do, to 0 where a mask does not keep the parameter.
func (s *sweep) Masked(x []float32, m backend.SweepMask) (func() error, error) {
	w := &work{b: s.b}
	if s.count > 0 {
		w.call(sweeping, "opt_mask", device.Size{Grid: [3]int{s.count}, Block: [3]int{threads}}, s.pieces, start(m.(*sweepMask).there), start(x))
	}
	return w.run, w.err
}

// Gathered makes what adds g, times a number that lies on the device, to sum.
func (b *Backend) Gathered(sum, g, weight []float32) (func() error, error) {
	w := &work{b: b}
	w.call(sweeping, "opt_add", over(int64(len(sum))), start(sum), start(g), start(weight), int64(len(sum)))
	return w.run, w.err
}

// Close gives back the memory of its own.
func (s *sweep) Close() error {
	var err error
	for _, x := range s.owned {
		if x != nil {
			err = errors.Join(err, s.b.Free(x))
		}
	}
	s.owned = nil
	return err
}
