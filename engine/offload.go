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

// setDeviceLimits sets the properties of a device with memory of its own for
// the passes: copy rates, kernel times and the memory limit. The limit is that
// of the options. Otherwise it is the free memory, less the memory of the store
// and of inputs, less a reserve for libraries and their workspaces. Training
// counts parameters five times: gradients, two moments of the optimiser, and an
// average. Inputs count twice, since one buffer is copied while the other one
// is staged.
func setDeviceLimits(u *pass.Unit, dev backend.Backend, o Options) error {
	r, ok := dev.(backend.Remote)
	if !ok {
		if o.Memory.OffloadFolder != "" && dev.Elem() == graph.Float32 {
			setFileLinks(u, o)
		}
		return nil
	}
	u.LinksTo = "host memory"
	u.Links = func() (by pass.Links, err error) {
		err = dev.Do(func() (err error) {
			by.ToHost, by.FromHost, err = r.CopyRates()
			return err
		})
		return by, err
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
	const elem, reserve = 4, 16 // bytes per element; a 16th of the free memory is reserved
	s := o.Store
	own := len(s.flatParams) + len(s.flatStates)
	if o.Mode == Train { // gradients, two moments, and an average of parameters and states
		own += 4*len(s.flatParams) + len(s.flatStates)
	}
	for _, n := range u.Graph.Nodes {
		if n.Kind == graph.KindInput {
			own += 2 * n.ArenaElems() // one being copied, one staged
		}
	}
	u.MemoryLimit = max(free-free/reserve-elem*int64(own), 1)
	return nil
}

// deviceMemoryError explains an exceeded limit that comes from the device, not
// from the options.
func deviceMemoryError(err error, o Options) error {
	var small *pass.MemoryLimitError
	if o.Memory.Limit > 0 || !errors.As(err, &small) {
		return err
	}
	return &exit.Error{Code: exit.NoDevice, What: "the device has too little memory",
		Why: fmt.Sprintf("the plan needs at least %.1f MiB in addition to parameters and gradients, %.1f MiB are available", mib(small.Smallest), mib(small.Limit)),
		Fix: "use precision bf16, a smaller batch or crop, or more devices", Err: err}
}

// mib converts bytes to MiB.
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// pendingCopies holds, by node, the functions that wait for copies in progress
// between device and host memory. The kernel that starts a copy sets one, and
// the kernel that ends the copy calls it.
type pendingCopies map[int]func() error

// kernel returns the kernel of a copy operation n. The operand of an operation that ends a
// copy is the one that started it.
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

// unrecordedKernels marks the kernels that are not recorded, although they do
// not wait for the device. An asynchronous copy must start and end within one
// recording. So if a kernel between its start and end waits, or is marked, all
// of them are marked. also marks further kernels.
//
// Cost: each round marks a span or is the last, so there are at most as many rounds as spans.
func (p *Plan) unrecordedKernels(also []bool) []bool {
	started := map[int]int{} // by node: position of the kernel that starts its copy
	var spans [][2]int
	marked := make([]bool, len(p.kernels))
	for i := range p.kernels {
		k := &p.kernels[i]
		marked[i] = waitsForDevice(k) || also != nil && also[i]
		switch {
		case k.node.Op == op.OffloadStartOp || k.node.Op == op.FetchStartOp:
			started[k.node.ID] = i
		case k.node.Op == op.OffloadDoneOp || k.node.Op == op.FetchDoneOp:
			spans = append(spans, [2]int{started[k.node.In[0]], i})
		case k.Async:
			spans = append(spans, [2]int{i, min(k.firstReader, len(p.kernels)-1)})
		}
	}
	// Marking one span may mark kernels of another that overlaps it, so repeat
	// until nothing changes.
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

// waitsForDevice reports whether a kernel waits for the device.
func waitsForDevice(k *kernel) bool { return k.Blocking || k.waitsForHost }
