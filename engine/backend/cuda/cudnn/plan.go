//go:build cgo && linux

package cudnn

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// Plan is a prepared convolution. The rules of its Handle apply.
type Plan struct {
	h         *Handle
	c         Convolution
	name      string
	fused     bool
	notes     []string
	workspace int64
	parts     *descriptors // graph, engine and plan
	plan      descriptor
	pack      *descriptors // pointers of the last run
	packed    descriptor
	last      Operands
}

// noteNames are the texts of cuDNN's numerical notes.
var noteNames = map[C.int]string{
	C.CUDNN_NUMERICAL_NOTE_TENSOR_CORE:                 "tensor cores",
	C.CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:         "rounds inputs",
	C.CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: "accumulates in less than float32",
	C.CUDNN_NUMERICAL_NOTE_FFT:                         "FFT",
	C.CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:            "nondeterministic",
	C.CUDNN_NUMERICAL_NOTE_WINOGRAD:                    "Winograd",
	C.CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:           "Winograd 4×4",
	C.CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:           "Winograd 6×6",
	C.CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:         "Winograd 13×13",
	C.CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:             "keeps NaN",
}

// refused returns why an engine with a numerical note is excluded; "" if it is not. Sums
// in an order that varies, or in float16, would make training irreproducible or
// inaccurate; other notes only describe.
func refused(c *Convolution, note C.int) string {
	switch note {
	case C.CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, C.CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, C.CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
		return noteNames[note]
	case C.CUDNN_NUMERICAL_NOTE_TENSOR_CORE: // multiply float32 as TF32
		if c.Type == Float32 && !c.TF32 {
			return "TF32"
		}
	}
	return ""
}

// modes are the heuristics that propose engines, the best first.
var modes = []struct {
	mode C.int
	name string
}{{C.CUDNN_HEUR_MODE_A, "A"}, {C.CUDNN_HEUR_MODE_B, "B"}, {C.CUDNN_HEUR_MODE_FALLBACK, "fallback"}}

// Plans returns plans in the order of their expected speed: first those that include
// bias and ReLU, then those that leave them to the caller, Limits.MaxPlans of each. The
// caller closes each of them.
//
// Errors: ErrUnsupported with the reasons if there is none; *CallError of a call that
// does not depend on the engine.
func (h *Handle) Plans(c Convolution, limits Limits) ([]*Plan, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	f := finder{h: h, c: &c, limits: limits, seen: map[string]bool{}}
	err := f.find(c.Bias || c.ReLU)
	if err == nil && (c.Bias || c.ReLU) {
		err = f.find(false)
	}
	if err == nil && len(f.plans) == 0 {
		err = fmt.Errorf("cudnn: %v of %v with at most %d bytes of workspace: %w", c.Pass, c.Size, limits.Workspace, errors.Join(append([]error{ErrUnsupported}, f.reasons...)...))
	}
	if err != nil {
		for _, p := range f.plans {
			err = errors.Join(err, p.Close())
		}
		return nil, err
	}
	return f.plans, nil
}

// Plan makes the plan of a name from Plans, for the same convolution and version of
// cuDNN.
//
// Errors: ErrUnsupported with the reason if this cuDNN has no such engine.
func (h *Handle) Plan(c Convolution, name string) (*Plan, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	want, err := parse(name)
	if err != nil {
		return nil, err
	}
	m := &descriptors{l: h.l}
	p, err := h.named(m, &c, want)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cudnn: plan %q of a %v of %v: %w: %w", name, c.Pass, c.Size, ErrUnsupported, err), m.close())
	}
	return p, nil
}

// named makes a plan from an engine and its knobs.
func (h *Handle) named(m *descriptors, c *Convolution, want choice) (*Plan, error) {
	if want.fused && !c.Bias && !c.ReLU {
		return nil, errors.New("the convolution has nothing to fuse: no bias, no ReLU")
	}
	g, err := h.graph(m, c, want.fused)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("engine %d", want.engine)
	engine, err := m.make(what, C.CUDNN_BACKEND_ENGINE_DESCRIPTOR, h.target(C.CUDNN_ATTR_ENGINE_DEVICEPROP,
		values(C.CUDNN_ATTR_ENGINE_OPERATION_GRAPH, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, g),
		values(C.CUDNN_ATTR_ENGINE_GLOBAL_INDEX, C.CUDNN_TYPE_INT64, want.engine))...)
	if err != nil {
		return nil, err
	}
	attributes := []attribute{values(C.CUDNN_ATTR_ENGINECFG_ENGINE, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, engine)}
	var knobs []descriptor
	for _, k := range want.knobs {
		d, err := m.make(fmt.Sprintf("knob %d of %s", k.kind, what), C.CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
			values(C.CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, C.CUDNN_TYPE_KNOB_TYPE, C.int(k.kind)),
			values(C.CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, C.CUDNN_TYPE_INT64, k.value))
		if err != nil {
			return nil, err
		}
		knobs = append(knobs, d)
	}
	if len(knobs) > 0 {
		attributes = append(attributes, values(C.CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, knobs...))
	}
	config, err := m.make("the settings of "+what, C.CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, attributes...)
	if err != nil {
		return nil, err
	}
	notes, why, err := h.notes(c, engine, what)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	if err != nil {
		return nil, err
	}
	p := &Plan{h: h, c: *c, name: want.String(), fused: want.fused, notes: notes, parts: m}
	return p, p.build(config)
}

// target adds the described device, if any, to attributes.
func (h *Handle) target(name C.int, a ...attribute) []attribute {
	if h.described.p != nil {
		a = append(a, values(name, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, h.described))
	}
	return a
}

// notes returns the properties of an engine, and why it is excluded, or "".
func (h *Handle) notes(c *Convolution, engine descriptor, what string) (notes []string, why string, err error) {
	var list [64]C.int // more than there are kinds of notes
	n, err := get(h.l, engine, what, C.CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, C.CUDNN_TYPE_NUMERICAL_NOTE, list[:])
	if err != nil {
		return nil, "", err
	}
	for _, note := range list[:min(n, len(list))] {
		name, known := noteNames[note]
		if !known {
			name = fmt.Sprintf("numerical note %d", note)
		}
		notes = append(notes, name)
		if why == "" {
			why = refused(c, note)
		}
	}
	n, err = get(h.l, engine, what, C.CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, C.CUDNN_TYPE_BEHAVIOR_NOTE, list[:])
	if slices.Contains(list[:min(n, len(list))], C.CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) {
		notes = append(notes, compiledNote)
	}
	return notes, why, err
}

// finder collects plans.
type finder struct {
	h       *Handle
	c       *Convolution
	limits  Limits
	seen    map[string]bool
	plans   []*Plan
	before  int     // plans of the other graph
	reasons []error // why engines were excluded
}

// isFull reports whether the limit of plans of one graph is reached.
func (f *finder) isFull() bool {
	return f.limits.MaxPlans > 0 && len(f.plans)-f.before >= f.limits.MaxPlans
}

// skip records why an engine or a heuristic is skipped.
func (f *finder) skip(err error) {
	if len(f.reasons) < 8 {
		f.reasons = append(f.reasons, err)
	}
}

// find collects plans of the fused or the plain graph.
func (f *finder) find(fused bool) error {
	f.before = len(f.plans)
	for _, mode := range modes {
		if f.isFull() {
			return nil
		}
		if err := f.ask(fused, mode.mode, "heuristics "+mode.name); err != nil {
			return err
		}
	}
	return nil
}

// isUnexpected reports whether an error has another cause than a request that cuDNN does
// not support. Statuses from 3000 to 3999 are CUDNN_STATUS_NOT_SUPPORTED and its
// variants.
func isUnexpected(err error) bool {
	var e *CallError
	return !errors.As(err, &e) || e.Status/1000 != 3
}

// ask makes the plans that one heuristic proposes.
func (f *finder) ask(fused bool, mode C.int, what string) error {
	m := &descriptors{l: f.h.l}
	choices, err := f.choices(m, fused, mode, what)
	if closing := m.close(); closing != nil {
		return errors.Join(err, closing)
	}
	if err != nil {
		// Fused graphs that cuDNN does not support fail here, and so do heuristics without
		// convolutions over three axes.
		if isUnexpected(err) {
			return fmt.Errorf("cudnn: %v of %v: %w", f.c.Pass, f.c.Size, err)
		}
		f.skip(err)
		return nil
	}
	for _, choice := range choices {
		if f.isFull() {
			return nil
		}
		if err := f.try(choice); err != nil {
			return err
		}
	}
	return nil
}

// choices returns the engines and settings that a heuristic proposes, the best first,
// without excluded and repeated ones. The caller closes m; a choice is numbers only and
// needs none of its descriptors.
func (f *finder) choices(m *descriptors, fused bool, mode C.int, what string) ([]choice, error) {
	g, err := f.h.graph(m, f.c, fused)
	if err != nil {
		return nil, err
	}
	heuristics, err := m.make(what, C.CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, f.h.target(C.CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
		values(C.CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, g),
		values(C.CUDNN_ATTR_ENGINEHEUR_MODE, C.CUDNN_TYPE_HEUR_MODE, mode))...)
	if err != nil {
		return nil, err
	}
	n, err := get[descriptor](f.h.l, heuristics, what, C.CUDNN_ATTR_ENGINEHEUR_RESULTS, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, nil)
	if err != nil || n == 0 {
		return nil, err
	}
	configs, err := m.filled(heuristics, what, C.CUDNN_ATTR_ENGINEHEUR_RESULTS, C.CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, n)
	if err != nil {
		return nil, err
	}
	var all []choice
	for _, config := range configs {
		c, engine, err := readChoice(m, config, what)
		if err != nil {
			return nil, err
		}
		c.fused = fused
		if f.seen[c.String()] {
			continue
		}
		f.seen[c.String()] = true
		_, why, err := f.h.notes(f.c, engine, what)
		switch {
		case err != nil:
			return nil, err
		case why != "":
			f.skip(fmt.Errorf("%v: %s", c, why))
		default:
			all = append(all, c)
		}
	}
	return all, nil
}

// maxKnobs exceeds the number of kinds of knobs.
const maxKnobs = 64

// readChoice reads the engine and settings of a configuration.
func readChoice(m *descriptors, config descriptor, what string) (choice, descriptor, error) {
	var c choice
	engines, err := m.filled(config, what, C.CUDNN_ATTR_ENGINECFG_ENGINE, C.CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)
	if err == nil && len(engines) != 1 {
		err = fmt.Errorf("cudnnBackendGetAttribute of %s: a configuration of %d engines, want 1", what, len(engines))
	}
	if err != nil {
		return c, descriptor{}, err
	}
	if c.engine, err = one[int64](m.l, engines[0], what, C.CUDNN_ATTR_ENGINE_GLOBAL_INDEX, C.CUDNN_TYPE_INT64); err != nil {
		return c, descriptor{}, err
	}
	knobs, err := m.filled(config, what, C.CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, C.CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, maxKnobs)
	if err != nil {
		return c, descriptor{}, err
	}
	for _, d := range knobs {
		kind, err := one[C.int](m.l, d, what, C.CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, C.CUDNN_TYPE_KNOB_TYPE)
		if err != nil {
			return c, descriptor{}, err
		}
		value, err := one[int64](m.l, d, what, C.CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, C.CUDNN_TYPE_INT64)
		if err != nil {
			return c, descriptor{}, err
		}
		c.knobs = append(c.knobs, knob{int32(kind), value})
	}
	return c, engines[0], nil
}

// try makes the plan of a choice, and keeps it if its workspace is small enough. Only
// then does cuDNN report that an engine does not support the convolution.
func (f *finder) try(want choice) error {
	m := &descriptors{l: f.h.l}
	p, err := f.h.named(m, f.c, want)
	if err != nil {
		f.skip(fmt.Errorf("%v: %w", want, err))
		return m.close()
	}
	if p.workspace > f.limits.Workspace {
		f.skip(fmt.Errorf("%v: %d bytes of workspace", want, p.workspace))
		return p.Close()
	}
	f.plans = append(f.plans, p)
	return nil
}

// build makes the plan of a configuration.
func (p *Plan) build(config descriptor) error {
	return p.finish([]attribute{values(C.CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, config)})
}

// finish makes the plan from attributes.
func (p *Plan) finish(attributes []attribute) (err error) {
	what := "the plan of " + p.name
	if p.h.handle != nil {
		attributes = append(attributes, values(C.CUDNN_ATTR_EXECUTION_PLAN_HANDLE, C.CUDNN_TYPE_HANDLE, p.h.handle))
	}
	if p.plan, err = p.parts.make(what, C.CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, attributes...); err != nil {
		return err
	}
	p.workspace, err = one[int64](p.h.l, p.plan, what, C.CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, C.CUDNN_TYPE_INT64)
	return err
}

// Compiled reports whether cuDNN compiled a kernel for the plan, which takes a second
// or two.
func (p *Plan) Compiled() bool { return slices.Contains(p.notes, compiledNote) }

const compiledNote = "compiled here"

// Save returns the plan with its compiled kernels as text, from which Restore makes it
// for the same device and version of cuDNN.
//
// Errors: *CallError.
func (p *Plan) Save() ([]byte, error) {
	what := "the text of " + p.name
	n, err := get[byte](p.h.l, p.plan, what, C.CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, C.CUDNN_TYPE_CHAR, nil)
	if err != nil {
		return nil, err
	}
	text := make([]byte, n)
	n, err = get(p.h.l, p.plan, what, C.CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, C.CUDNN_TYPE_CHAR, text)
	return text[:min(n, len(text))], err
}

// Restore makes the plan of a name from the text of Save. It has no notes.
//
// Errors: ErrUnsupported with the reason if cuDNN rejects the text.
func (h *Handle) Restore(c Convolution, name string, text []byte) (*Plan, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	want, err := parse(name)
	if err != nil {
		return nil, err
	}
	p := &Plan{h: h, c: c, name: want.String(), fused: want.fused, parts: &descriptors{l: h.l}}
	if err := p.finish(h.target(C.CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, values(C.CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, C.CUDNN_TYPE_CHAR, text...))); err != nil {
		return nil, errors.Join(fmt.Errorf("cudnn: saved plan %q of a %v of %v: %w: %w", name, c.Pass, c.Size, ErrUnsupported, err), p.parts.close())
	}
	return p, nil
}

// Name identifies the plan among those of the same convolution.
func (p *Plan) Name() string { return p.name }

// Workspace returns the bytes of workspace that Run needs.
func (p *Plan) Workspace() int64 { return p.workspace }

// Fused reports whether Run includes bias and ReLU. If not, y is the convolution only.
func (p *Plan) Fused() bool { return p.fused }

// Notes returns cuDNN's notes on the numerics of the plan.
func (p *Plan) Notes() []string { return p.notes }

// Run enqueues the convolution. It allocates nothing if the operands are those of the
// previous call. It can be recorded after it has run once, because the first run may
// load kernels.
//
// Errors: an operand is missing or not aligned; *CallError.
func (p *Plan) Run(o Operands) error {
	if o != p.last || p.pack == nil {
		if err := p.bind(o); err != nil {
			return err
		}
	}
	if status := C.ens_cudnn_execute(p.h.l.t, p.h.handle, p.plan.p, p.packed.p); status != 0 {
		return p.h.l.call("cudnnBackendExecute", p.name, func() C.int { return status })
	}
	return nil
}

// bind describes the operands to cuDNN.
func (p *Plan) bind(o Operands) error {
	if p.h.handle == nil || p.plan.p == nil {
		return fmt.Errorf("cudnn: %s: cannot run a plan that is closed or belongs to a described device", p.name)
	}
	scratch := o.Workspace
	if p.workspace == 0 {
		scratch = nil
	}
	ids, pointers := []int64{idX, idW, idY}, []unsafe.Pointer{o.X, o.W, o.Y}
	if p.fused && p.c.Bias {
		ids, pointers = append(ids, idBias), append(pointers, o.Bias)
	}
	wanted := pointers
	if p.workspace > 0 {
		wanted = append(slices.Clone(pointers), scratch)
	}
	for i, x := range wanted {
		if x == nil || uintptr(x)%Alignment != 0 {
			return fmt.Errorf("cudnn: %s: operand %d of %d: address %#x, want memory of the device, aligned to %d bytes", p.name, i+1, len(wanted), uintptr(x), Alignment)
		}
	}
	m := &descriptors{l: p.h.l}
	pack, err := m.make("the operands of "+p.name, C.CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
		values(C.CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, C.CUDNN_TYPE_INT64, ids...),
		values(C.CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, C.CUDNN_TYPE_VOID_PTR, pointers...),
		values(C.CUDNN_ATTR_VARIANT_PACK_WORKSPACE, C.CUDNN_TYPE_VOID_PTR, scratch))
	if err != nil {
		return errors.Join(err, m.close())
	}
	old := p.pack
	p.pack, p.packed, p.last = m, pack, o
	if old != nil {
		return old.close()
	}
	return nil
}

// Close frees the plan; no recording may contain it any more. It may be called more
// than once.
func (p *Plan) Close() error {
	var err error
	if p.pack != nil {
		err = p.pack.close()
	}
	p.pack, p.plan, p.last = nil, descriptor{}, Operands{}
	return errors.Join(err, p.parts.close())
}
