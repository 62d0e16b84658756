package engine

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Store holds what outlives a step: parameters, their gradients and states, by
// name. Parameters lie in one slice and gradients, in the same layout, in
// another, so that an optimiser is one sweep and an exchange between ranks one
// call. The first graph compiled with a Store lays it out; later graphs may use
// any part of it.
//
// Where a plan trains on a device with memory of its own, they lie there from step to
// step. Methods that give memory bring it up to date first; it is so until the next run of
// a plan, or the next step of an optimiser, and what is written to it until then counts.
//
// A Store and its plans are used by one goroutine at a time.
type Store struct {
	params, states []Entry
	byName         map[string]Entry
	flatParams     []float32
	flatGrads      []float32
	flatStates     []float32
	laidOut        bool
	// device is where a device that trains has them too; nil if none has.
	device *deviceCopy
	// version counts how often parameters and states may have changed, for devices that have
	// copies of them.
	version [pass.Grad + 1]int
	// choices are the kernels and layouts that plans of this store chose, so that a
	// second plan neither measures nor chooses again.
	choices map[string]string
}

// Entry is the place of one parameter or state: Offset elements into the flat
// slice of its kind. Entries start at multiples of 64 bytes; the gaps are zero
// and stay zero.
type Entry struct {
	Name   string
	Shape  graph.Shape
	Offset int
	State  bool
}

// where is the kind of memory in which it lies.
func (e Entry) where() pass.MemorySpace {
	if e.State {
		return pass.State
	}
	return pass.Param
}

// Size is the number of elements.
func (e Entry) Size() int { return e.Shape.Size() }

// NewStore gives an empty store.
func NewStore() *Store {
	return &Store{byName: map[string]Entry{}, choices: map[string]string{}}
}

// align is the alignment of parameters in elements of float32.
const align = bigmem.Align / 4

// layout lays the store out for g and starts parameters and states, or checks
// that g fits the layout there is.
func (s *Store) layout(g *graph.Graph) error {
	var nParams, nStates int
	for _, n := range g.Nodes {
		if n.Kind != graph.KindParam && n.Kind != graph.KindState {
			continue
		}
		if s.laidOut {
			e, ok := s.byName[n.Name]
			if !ok || !e.Shape.Equal(n.Shape) || e.State != (n.Kind == graph.KindState) {
				why := fmt.Sprintf("the store has no %s of this name", n.Kind)
				if ok {
					why = fmt.Sprintf("the store has it with shape %v", e.Shape)
				}
				return &exit.Error{Code: exit.Usage, At: n.At,
					What: fmt.Sprintf("the network does not fit the parameters: %s %q %v", n.Kind, n.Name, n.Shape),
					Why:  why, Fix: "use the options the parameters were made with, or an empty store"}
			}
			continue
		}
		e := Entry{Name: n.Name, Shape: n.Shape.Clone(), State: n.Kind == graph.KindState}
		room := (n.Shape.Size() + align - 1) / align * align
		if e.State {
			e.Offset = nStates
			nStates += room
			s.states = append(s.states, e)
		} else {
			e.Offset = nParams
			nParams += room
			s.params = append(s.params, e)
		}
		s.byName[n.Name] = e
	}
	if s.laidOut {
		return nil
	}
	s.laidOut = true
	s.flatParams, s.flatStates = bigmem.Make[float32](nParams), bigmem.Make[float32](nStates)
	for _, n := range g.Nodes {
		if n.Kind == graph.KindParam || n.Kind == graph.KindState {
			n.Init.Fill(s.slice(s.byName[n.Name]), g.Seed, n.Name)
		}
	}
	return nil
}

// slice is the memory of an entry.
func (s *Store) slice(e Entry) []float32 {
	flat := s.flatParams
	if e.State {
		flat = s.flatStates
	}
	return flat[e.Offset : e.Offset+e.Size() : e.Offset+e.Size()]
}

// grads allocates the gradients on first use: prediction needs none.
func (s *Store) grads() []float32 {
	if s.flatGrads == nil {
		s.flatGrads = bigmem.Make[float32](len(s.flatParams))
	}
	return s.flatGrads
}

// Names lists the parameters in the order of the layout.
func (s *Store) Names() []string { return names(s.params) }

// StateNames lists the states in the order of the layout.
func (s *Store) StateNames() []string { return names(s.states) }

func names(es []Entry) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = e.Name
	}
	return out
}

// Entries lists parameters, then states, with their places.
func (s *Store) Entries() []Entry { return slices.Concat(s.params, s.states) }

// Get gives the parameter or state of that name: its memory, not a copy.
func (s *Store) Get(name string) (v []float32, shape graph.Shape, ok bool) {
	e, ok := s.byName[name]
	if !ok {
		return nil, nil, false
	}
	s.touch(e.where())
	return s.slice(e), e.Shape, true
}

// Grad gives the gradient of the parameter of that name: its memory.
func (s *Store) Grad(name string) ([]float32, bool) {
	e, ok := s.byName[name]
	if !ok || e.State {
		return nil, false
	}
	s.device.download(pass.Grad)
	return s.grads()[e.Offset : e.Offset+e.Size()], true
}

// Set copies v into the parameter or state of that name.
//
// Errors: an unknown name, or another number of elements.
func (s *Store) Set(name string, v []float32) error {
	e, ok := s.byName[name]
	if !ok {
		return fmt.Errorf("store: no parameter or state %q", name)
	}
	if len(v) != e.Size() {
		return fmt.Errorf("store: %q %v has %d elements, got %d", name, e.Shape, e.Size(), len(v))
	}
	s.touch(e.where())
	copy(s.slice(e), v)
	return nil
}

// Params is the memory of all parameters. See Entry for the layout.
func (s *Store) Params() []float32 {
	s.touch(pass.Param)
	return s.flatParams
}

// Grads is the memory of all gradients, in the layout of Params.
func (s *Store) Grads() []float32 {
	s.device.download(pass.Grad)
	return s.grads()
}

// States is the memory of all states.
func (s *Store) States() []float32 {
	s.touch(pass.State)
	return s.flatStates
}

// touch brings parameters or states up to date for somebody who may change them.
func (s *Store) touch(where pass.MemorySpace) {
	s.device.download(where)
	s.version[where]++
}

// flat is the memory of parameters, states or gradients.
func (s *Store) flat(where pass.MemorySpace) []float32 {
	switch where {
	case pass.Param:
		return s.flatParams
	case pass.State:
		return s.flatStates
	}
	return s.grads()
}

// Bytes is the size of the memory of all of them. Gradients count from their first use on.
func (s *Store) Bytes() int64 {
	return 4 * int64(len(s.flatParams)+len(s.flatGrads)+len(s.flatStates))
}

// ParamCount is the number of trained numbers, without the gaps between entries.
func (s *Store) ParamCount() int {
	n := 0
	for _, e := range s.params {
		n += e.Size()
	}
	return n
}
