package engine

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Store holds the values that outlive a step: parameters, their gradients and
// states, by name. All parameters lie in one slice and the gradients, in the
// same layout, in another. So an optimiser makes one sweep, and an exchange
// between ranks is one call. The first graph compiled with a Store determines
// the layout. Later graphs may use any part of it.
//
// If a plan trains on a device with memory of its own, the values stay there
// from step to step. Methods that return memory download newer values first.
// The memory is then up to date, and may be changed, until the next run of a
// plan or the next step of an optimiser.
//
// Use a Store and its plans from one goroutine at a time.
type Store struct {
	params, states []Entry          // in order of the layout
	byName         map[string]Entry // parameters and states
	flatParams     []float32        // memory of parameters, gradients and states
	flatGrads      []float32
	flatStates     []float32
	laidOut        bool // whether a graph has determined the layout
	// device is the copy on a device that trains the store; nil if there is
	// none.
	device *deviceCopy
	// version counts, by kind, how often the values may have changed, for
	// devices with copies.
	version [pass.Grad + 1]int
	// choices are the kernels and layouts of plans of this store. A second plan
	// reuses them instead of measuring again.
	choices map[string]string
}

// Entry is the place of one parameter or state in the flat slice of its kind. Entries
// are aligned to 64 bytes. The gaps between them are zero and stay zero. Zeros in the
// gaps do not change under the updates of optimisers, since their gradients are zero.
type Entry struct {
	Name   string // name of the parameter or state
	Shape  graph.Shape
	Offset int        // elements from the start of the slice
	State  bool       // state, not parameter
	Role   graph.Role // of a parameter
}

// where is the memory space of the entry.
func (e Entry) where() pass.MemorySpace {
	if e.State {
		return pass.State
	}
	return pass.Param
}

// Size is the number of elements.
func (e Entry) Size() int { return e.Shape.Size() }

// NewStore returns an empty store. The first Compile with it creates the layout.
func NewStore() *Store {
	return &Store{byName: map[string]Entry{}, choices: map[string]string{}}
}

// align is the alignment of entries in float32 elements.
const align = bigmem.Align / 4

// LayOut creates the layout for g and initialises parameters and states, as Compile
// does with an empty store. If there is a layout already, it checks that g fits.
//
// Errors: *exit.Error (exit.Usage) for values that the layout lacks or has with
// another shape.
func (s *Store) LayOut(g *graph.Graph) error {
	var nParams, nStates int
	for _, n := range g.Nodes {
		if n.Kind != graph.KindParam && n.Kind != graph.KindState {
			continue
		}
		if s.laidOut {
			e, ok := s.byName[n.Name]
			if !ok || !e.Shape.Equal(n.Shape) || e.State != (n.Kind == graph.KindState) {
				why := fmt.Sprintf("the store has no %s of that name", n.Kind)
				if ok {
					why = fmt.Sprintf("the store has shape %v", e.Shape)
				}
				return &exit.Error{Code: exit.Usage, At: n.At,
					What: fmt.Sprintf("the network does not match the stored parameters: %s %q %v", n.Kind, n.Name, n.Shape),
					Why:  why, Fix: "use the options with which the parameters were created, or an empty store"}
			}
			continue
		}
		e := Entry{Name: n.Name, Shape: n.Shape.Clone(), State: n.Kind == graph.KindState, Role: n.Role}
		// Aligned entries let vector kernels of optimisers run over the whole
		// slice, and no two parameters share a cache line.
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

// grads allocates the gradients on first use, since predictions need none.
func (s *Store) grads() []float32 {
	if s.flatGrads == nil {
		s.flatGrads = bigmem.Make[float32](len(s.flatParams))
	}
	return s.flatGrads
}

// Names lists the parameters in order of the layout.
func (s *Store) Names() []string { return names(s.params) }

// StateNames lists the states in order of the layout.
func (s *Store) StateNames() []string { return names(s.states) }

// names lists the names of entries.
func names(es []Entry) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = e.Name
	}
	return out
}

// Entries lists parameters, then states, with their places.
func (s *Store) Entries() []Entry { return slices.Concat(s.params, s.states) }

// Get returns the parameter or state of that name: its memory, not a copy. ok is false
// for an unknown name. The caller may write to v until the next run.
func (s *Store) Get(name string) (v []float32, shape graph.Shape, ok bool) {
	e, ok := s.byName[name]
	if !ok {
		return nil, nil, false
	}
	s.touch(e.where())
	return s.slice(e), e.Shape, true
}

// Grad returns the gradient of the parameter of that name: its memory, not a copy. The
// result is false for states, which have none.
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

// Params is the memory of all parameters, in the layout of Entries. Gaps between entries
// are included, as an optimiser sweeps over all.
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

// Err returns the error with which values could not be copied from the device. What Get, Grad, Params, Grads and States returned
// since the last run is then not valid. The next run returns the error too.
func (s *Store) Err() error {
	if s.device == nil {
		return nil
	}
	return s.device.err
}

// touch downloads parameters or states, and counts a change: the caller may
// modify them.
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

// Bytes is the size of parameters, states and gradients. Gradients count from
// their first use.
func (s *Store) Bytes() int64 {
	return 4 * int64(len(s.flatParams)+len(s.flatGrads)+len(s.flatStates))
}

// ParamCount is the number of trained values, without the gaps between entries. It is
// the size of a network as papers state it.
func (s *Store) ParamCount() int {
	n := 0
	for _, e := range s.params {
		n += e.Size()
	}
	return n
}
