package engine

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
)

// memory is the memory plan bound to slices. On a backend of float32,
// parameters, gradients and states are the memory of the store. On ref they
// have float64 mirrors, loaded before and stored after each run. On a device
// with memory of its own they are copies.
type memory struct {
	tensors []backend.Tensor // by node
	arena   []float32        // of a float32 backend
	bytes   []byte           // of the arena in host memory
	loads   []mirror         // float32 to float64, before a run
	stores  []mirror         // float64 to float32, after a run
	pinner  runtime.Pinner   // devices keep addresses between calls
	remote  *remote          // nil if tensors lie in host memory
	file    *offloadFile     // nil if no activation leaves the memory
}

// mirror is one value in float32 and in float64.
type mirror struct {
	narrow []float32
	wide   []float64
}

// load converts to float64 before a run.
func (m *memory) load() {
	for _, p := range m.loads {
		for i, v := range p.narrow {
			p.wide[i] = float64(v)
		}
	}
}

// store converts to float32 after a run.
func (m *memory) store() {
	for _, p := range m.stores {
		for i, v := range p.wide {
			p.narrow[i] = float32(v)
		}
	}
}

// release unpins the memory, so that the garbage collector can free it.
func (m *memory) release() { m.pinner.Unpin() }

// bind allocates the arena and assigns every value its slice. It sets the
// inputs, outputs, loss and final copies of the plan. Call it within Do.
//
// Errors: *exit.Error (exit.NoDevice) if the device has too little memory.
func (m *memory) bind(p *Plan) (err error) {
	g, plan, wide := p.graph, p.unit.Memory, p.dev.Elem() == graph.Float64
	var arena32 []float32
	var arena64 []float64
	dev, isRemote := p.dev.(backend.Remote)
	switch {
	case wide:
		arena64 = bigmem.Make[float64](plan.ArenaSize)
	case isRemote:
		m.remote = &remote{Remote: dev}
		arena32, err = m.remote.bind(p)
	default:
		arena32 = bigmem.Make[float32](plan.ArenaSize)
		m.pin(arena32, p.opts.Store.flatParams, p.opts.Store.flatStates)
		if plan.HostSize > 0 {
			m.file, err = newOffloadFile(p.opts.Memory.OffloadFolder, elemBytes*int64(plan.HostSize), len(p.unit.Sequence))
		}
	}
	if err != nil {
		return err
	}
	if p.opts.Mode == Train && p.unit.ExternalGrads == nil && !isRemote {
		m.pin(p.opts.Store.grads())
	}
	outside := map[[2]int]backend.Tensor{} // tensors of the store, by memory space and node
	m.tensors = make([]backend.Tensor, len(g.Nodes))
	for i, n := range g.Nodes {
		at := plan.Places[i]
		if at.Space == pass.Host && m.file != nil {
			// the place is in the file
		} else if at.Space == pass.Host {
			m.tensors[i] = tensorIn(m.remote.host[at.Offset:at.Offset+at.Size:at.Offset+at.Size], n.DType, n.Elems())
		} else if at.Space == pass.Arena {
			if wide {
				m.tensors[i].F64 = arena64[at.Offset : at.Offset+at.Size : at.Offset+at.Size]
			} else {
				m.tensors[i] = tensorIn(arena32[at.Offset:at.Offset+at.Size:at.Offset+at.Size], n.DType, n.Elems())
			}
		} else {
			key := [2]int{int(at.Space), at.Owner}
			t, ok := outside[key]
			if !ok {
				t = m.storeTensor(p, at, wide)
				outside[key] = t
			}
			m.tensors[i] = t
		}
		m.tensors[i].Shape, m.tensors[i].Layout = n.Shape, n.Layout
	}
	m.arena = arena32
	if isRemote {
		return m.remote.fill(p)
	}
	m.bytes = bigmem.Bytes(arena32)
	if wide {
		m.bytes = bigmem.Bytes(arena64)
	}
	m.fill(p, wide)
	m.finish(p)
	return nil
}

// tensorIn is a tensor of n elements of type d in a slice of the arena, or in
// other memory of the same kind.
func tensorIn(place []float32, d graph.DType, n int) backend.Tensor {
	switch d {
	case graph.BFloat16, graph.Float16:
		return backend.Tensor{DType: d, U16: unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(place))), n)}
	case graph.UInt8:
		return backend.Tensor{U8: unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(place))), n)}
	}
	return backend.Tensor{F32: place}
}

// arenaSlice is the memory of a tensor as elements of the arena, with the
// stored type.
func arenaSlice(t backend.Tensor) ([]float32, graph.DType) {
	n := t.Layout.Elems(t.Shape)
	switch {
	case t.U16 != nil:
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(t.U16))), (n+1)/2), t.Stored()
	case t.U8 != nil:
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(t.U8))), (n+3)/4), t.Stored()
	}
	return t.F32, t.Stored()
}

// pin fixes the addresses of memory that devices keep.
func (m *memory) pin(bufs ...[]float32) {
	for _, b := range bufs {
		if len(b) > 0 {
			m.pinner.Pin(unsafe.SliceData(b))
		}
	}
}

// storeTensor binds a parameter, gradient or state of the store. All nodes with one
// name share its memory.
//
// Memory: with wide, a float64 mirror, which is loaded before or stored after a run.
func (m *memory) storeTensor(p *Plan, at pass.Place, wide bool) backend.Tensor {
	s := p.opts.Store
	e := s.byName[p.graph.Nodes[at.Owner].Name]
	if m.remote != nil {
		return backend.Tensor{F32: m.remote.storeSlice(at.Space, e)}
	}
	v := s.slice(e)
	if at.Space == pass.Grad {
		v = s.grads()[e.Offset : e.Offset+e.Size()]
	}
	if !wide {
		return backend.Tensor{F32: v}
	}
	w := make([]float64, len(v))
	if at.Space == pass.Grad {
		m.stores = append(m.stores, mirror{v, w})
	} else {
		m.loads = append(m.loads, mirror{v, w})
	}
	return backend.Tensor{F64: w}
}

// fill writes constants and sets the inputs, outputs and loss of the plan.
//
// Memory: with wide, one float32 copy of each input and output; else none.
func (m *memory) fill(p *Plan, wide bool) {
	// narrow is the float32 memory of a value: its own, or that of a mirror.
	narrow := func(id int, list *[]mirror) []float32 {
		t := m.tensors[id]
		if !wide {
			return t.F32
		}
		f := make([]float32, len(t.F64))
		*list = append(*list, mirror{f, t.F64})
		return f
	}
	for i, n := range p.graph.Nodes {
		switch n.Kind {
		case graph.KindConst:
			copy(m.tensors[i].F32, n.Data)
			for j := range m.tensors[i].F64 {
				m.tensors[i].F64[j] = float64(n.Data[j])
			}
		case graph.KindInput:
			p.inputs[n.Name] = narrow(i, &m.loads)
		}
	}
	for _, o := range p.graph.Outputs {
		p.outputs[o.Name] = narrow(o.ID, &m.stores)
	}
	if p.graph.Loss >= 0 {
		p.loss = narrow(p.graph.Loss, &m.stores)
	}
}

// finish collects the work after the last kernel: gradients that are still in
// the arena, gradients of parameters that do not affect the loss, and
// assignments. Assignments come last, because all of them read the states
// before the step. A state that is assigned the old value of another state
// needs a copy of it.
func (m *memory) finish(p *Plan) {
	g, s := p.graph, p.opts.Store
	do := func(f func()) {
		p.after = append(p.after, func() error { f(); return nil })
	}
	switch {
	case p.opts.Mode == Infer:
	case p.unit.ExternalGrads != nil:
		for _, id := range p.unit.Memory.ZeroGrads {
			name := g.Nodes[id].Name
			do(func() { p.extension.TakeGrad(name, backend.Tensor{}) })
		}
		for _, c := range p.unit.Memory.GradCopies {
			name, x := g.Nodes[c.Param].Name, m.tensors[c.Value]
			do(func() { p.extension.TakeGrad(name, x) })
		}
	default:
		for _, id := range p.unit.Memory.ZeroGrads {
			dst, _ := s.Grad(g.Nodes[id].Name)
			do(func() { clear(dst) })
		}
		for _, c := range p.unit.Memory.GradCopies {
			dst, _ := s.Grad(g.Nodes[c.Param].Name)
			do(copyOut(dst, m.tensors[c.Value]))
		}
	}
	var assigns []func()
	for _, a := range g.Assigns {
		dst := s.slice(s.byName[g.Nodes[a.State].Name])
		src := m.tensors[a.Value]
		if p.unit.Memory.Places[a.Value].Space == pass.State { // the value of a state before the step
			old := backend.Tensor{Shape: src.Shape, F32: slices.Clone(src.F32), F64: slices.Clone(src.F64)}
			now := src
			do(func() { copy(old.F32, now.F32); copy(old.F64, now.F64) })
			src = old
		}
		assigns = append(assigns, copyOut(dst, src))
	}
	for _, f := range assigns {
		do(f)
	}
}

// copyOut returns a function that copies a value to float32 memory of the
// store.
func copyOut(dst []float32, src backend.Tensor) func() {
	if src.F64 == nil {
		return func() { copy(dst, src.F32) }
	}
	return func() {
		for i, v := range src.F64 {
			dst[i] = float32(v)
		}
	}
}
