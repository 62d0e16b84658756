package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// setDeviceLimits tells the passes what a device with memory of its own offers, and gives their
// limit of the memory: that of the options, or what the device has left beside parameters,
// what moves them, states, inputs under way, and a reserve for libraries and their scratch.
func setDeviceLimits(u *pass.Unit, dev backend.Backend, o Options) error {
	r, ok := dev.(backend.Remote)
	if !ok {
		return nil
	}
	u.Links = func() (toHost, fromHost float64, err error) {
		err = dev.Do(func() (err error) {
			toHost, fromHost, err = r.CopyRates()
			return err
		})
		return toHost, fromHost, err
	}
	u.Seconds = r.EstimateSeconds
	if u.MemoryLimit > 0 {
		return nil
	}
	var free int64
	if err := dev.Do(func() (err error) {
		free, err = r.FreeBytes()
		return err
	}); err != nil {
		return err
	}
	const elem, reserve = 4, 16 // bytes of an element, and the part that is left
	s := o.Store
	own := len(s.flatParams) + len(s.flatStates)
	if o.Mode == Train { // gradients, two moments, and an average of parameters and states
		own += 4*len(s.flatParams) + len(s.flatStates)
	}
	for _, n := range u.Graph.Nodes {
		if n.Kind == graph.KindInput {
			own += 2 * n.ArenaElems() // one on its way, one staged
		}
	}
	u.MemoryLimit = max(free-free/reserve-elem*int64(own), 1)
	return nil
}

// deviceMemoryError says of a limit that nobody set that it is the device's.
func deviceMemoryError(err error, o Options) error {
	var small *pass.MemoryLimitError
	if o.Memory.Limit > 0 || !errors.As(err, &small) {
		return err
	}
	return &exit.Error{Code: exit.NoDevice, What: "the device has too little memory",
		Why: fmt.Sprintf("the plan needs %.1f MiB at least beside parameters and gradients, %.1f MiB are left for it", mib(small.Smallest), mib(small.Limit)),
		Fix: "choose precision bf16, a smaller batch or crop, or more devices", Err: err}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// pendingCopies makes the kernels of copies to the program's memory and back: what begins one
// leaves for what ends it how it is waited for.
type pendingCopies map[int]func() error

// kernel makes the one of n.
func (o pendingCopies) kernel(r *remote, n *graph.Node, q backend.Request) backend.Kernel {
	k := backend.Kernel{Name: "copy asynchronously"}
	if n.Op == op.OffloadDoneOp || n.Op == op.FetchDoneOp {
		k.Run = func() error { return o[n.In[0]]() }
		return k
	}
	to, _ := arenaSlice(q.Out)
	from, _ := arenaSlice(q.In[0])
	k.Run = func() (err error) {
		o[n.ID], err = r.CopyAsync(to, from)
		return err
	}
	return k
}

// unrecordedKernels marks the kernels that are not recorded although they do not wait for the device:
// those between beginning and end of what goes on aside, which one recording must hold, if one
// among them waits or is marked. also are some that are marked.
func (p *Plan) unrecordedKernels(also []bool) []bool {
	begun := map[int]int{} // by node: place of what begins its copy
	var spans [][2]int
	marked := make([]bool, len(p.kernels))
	for i := range p.kernels {
		k := &p.kernels[i]
		marked[i] = waitsForDevice(k) || also != nil && also[i]
		switch {
		case k.node.Op == op.OffloadStartOp || k.node.Op == op.FetchStartOp:
			begun[k.node.ID] = i
		case k.node.Op == op.OffloadDoneOp || k.node.Op == op.FetchDoneOp:
			spans = append(spans, [2]int{begun[k.node.In[0]], i})
		case k.Async:
			spans = append(spans, [2]int{i, min(k.firstReader, len(p.kernels)-1)})
		}
	}
	for more := true; more; {
		more = false
		for _, c := range spans {
			between := marked[c[0] : c[1]+1]
			if slices.Contains(between, true) && slices.Contains(between, false) {
				more = true
				for i := range between {
					between[i] = true
				}
			}
		}
	}
	return marked
}

// waitsForDevice tells whether a kernel waits for the device.
func waitsForDevice(k *kernel) bool { return k.Blocking || k.waitsForHost }
