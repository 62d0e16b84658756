package bench

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// ParallelCheckOptions are the inputs of [CheckParallel].
type ParallelCheckOptions struct {
	Case  Case   // the whole step
	Mesh  string // the only mesh to compare, of at least as many ranks as processes; empty: all possible meshes
	Ranks int    // ranks within this process; under an MPI launcher the number of processes of the job
	Steps int    // training steps; 0: 5
	// Optimizer takes the steps; empty: SGD with momentum and a low rate. Adam divides by the size of gradients
	// and so amplifies the rounding of small ones, on any number of ranks; large steps of SGD do too.
	Optimizer string
}

// CheckOptimizers lists the optimisers for comparisons.
var CheckOptimizers = []string{string(optim.SGD), string(optim.Adam)}

// checkRates are their learning rates.
var checkRates = map[string]float64{string(optim.SGD): 0.002, string(optim.Adam): benchRate}

// checkMomentum is the momentum of SGD.
const checkMomentum = 0.9

// ParallelCheck compares training on all ranks of a job with training on one.
type ParallelCheck struct {
	Processes int    `json:"processes"`
	Ranks     int    `json:"ranks"`     // ranks of each mesh
	Transport string `json:"transport"` // in-process, or an MPI library
	Network   Case   `json:"network"`
	Steps     int    `json:"steps"`
	Optimizer string `json:"optimizer"`
	// SameBits reports whether same_bits holds for all meshes.
	SameBits bool `json:"same_bits"`
	// MaxRelError is the largest relative error of predictions, gradients and losses of all meshes; MaxRelErrors
	// lists the largest of each.
	MaxRelError  float64        `json:"max_rel_error"`
	MaxRelErrors ParallelErrors `json:"max_rel_errors"`
	Losses       []float64      `json:"losses"` // losses of all steps on one rank
	// LossFloor is the sensitivity of these losses to the smallest change: the largest relative difference of a
	// step's loss on one rank if every parameter starts at an adjacent float32. Differences of this size are
	// amplified rounding.
	LossFloor float64 `json:"loss_floor"`
	Checksum  string  `json:"sha256"` // checksum of the parameters after all steps
	// Meshes is empty on ranks other than 0.
	Meshes []ParallelMesh `json:"meshes"`
}

// ParallelErrors are the differences between training on ranks and on one: relative L2 distances of
// predictions and gradients before the first step and of parameters after the last, and the largest relative
// difference of a step's loss. Of gradientDraws draws, predictions use the largest and gradients the smallest
// distance. Rounding across a ReLU's kink changes the gradient of one draw by some 1e-4; a wrong gradient is
// wrong in all draws.
type ParallelErrors struct {
	Forward    float64 `json:"forward"` // predictions
	Gradient   float64 `json:"gradient"`
	Loss       float64 `json:"loss"`
	Parameters float64 `json:"parameters"`
}

// max returns the larger of each error.
func (e ParallelErrors) max(f ParallelErrors) ParallelErrors {
	return ParallelErrors{max(e.Forward, f.Forward), max(e.Gradient, f.Gradient), max(e.Loss, f.Loss), max(e.Parameters, f.Parameters)}
}

// ParallelMesh is the result for one mesh.
type ParallelMesh struct {
	Mesh string `json:"mesh"`
	ParallelErrors
	// Losses are the losses of all steps on this mesh.
	Losses []float64 `json:"losses"`
	// Checksum is the SHA-256 of the parameters after all steps.
	Checksum string `json:"sha256"`
	// SameBits reports whether parameters and losses on every rank equal, bit by bit, those of the same mesh with
	// all ranks in the process of rank 0.
	SameBits bool `json:"same_bits"`
	// BytesSent is sent per step by the rank that sends most.
	BytesSent int64 `json:"bytes_sent"`
}

// CheckParallel trains a small network, with periodic longitudes, for some steps on one rank and on all of
// them, on every mesh that they can form.
//
// Errors: those of training; exit 64 for a case that fits no mesh with this number of ranks.
func CheckParallel(ctx context.Context, o ParallelCheckOptions) (*ParallelCheck, error) {
	if o.Steps == 0 {
		o.Steps = 5
	}
	if o.Optimizer == "" {
		o.Optimizer = CheckOptimizers[0]
	}
	ranks, err := setup.MeshRanks(o.Mesh)
	if err != nil {
		return nil, err
	}
	out := &ParallelCheck{Steps: o.Steps, Optimizer: o.Optimizer, SameBits: true}
	transport, err := team.RunRanks(o.Ranks, ranks, config.DefaultStallTimeout, func(c *comm.Comm) error {
		k := o.Case.shareThreads(c.Size())
		k.Periodic = true // so that halos wrap around
		if err := k.check(); err != nil {
			return err
		}
		meshes, err := k.meshes(o.Mesh, c)
		if err != nil {
			return err
		}
		one, err := k.onOneRank(ctx, c, o)
		if err != nil {
			return err
		}
		var all []ParallelMesh
		for _, m := range meshes {
			r, err := k.onMesh(ctx, c, m, o, one)
			if err != nil {
				return fmt.Errorf("mesh %v: %w", m, err)
			}
			all = append(all, r)
		}
		if c.Rank() == 0 {
			out.Network, out.Processes, out.Ranks = k, team.ProcessCount(c), c.Size()
			out.Meshes, out.Losses, out.LossFloor = all, one.losses, one.floor
			out.Checksum = checksum(one.parameters)
		}
		return nil
	})
	out.Transport = transport
	for _, m := range out.Meshes {
		out.MaxRelErrors = out.MaxRelErrors.max(m.ParallelErrors)
		out.SameBits = out.SameBits && m.SameBits
	}
	out.MaxRelError = max(out.MaxRelErrors.Forward, out.MaxRelErrors.Gradient, out.MaxRelErrors.Loss)
	return out, err
}

// meshes returns all meshes of n ranks for the case, or the one in text.
//
// Errors: exit 64 if there is none.
func (k Case) meshes(text string, c *comm.Comm) ([]spatial.Mesh, error) {
	if text != "" {
		m, err := k.mesh(text, c)
		return []spatial.Mesh{m}, err
	}
	n := c.Size()
	all := spatial.Meshes(n, []spatial.MeshAxis{{Name: "data", Size: k.Batch}, {Name: "level", Size: k.Depth},
		{Name: "lat", Size: k.Crop.Height / 2}, {Name: "lon", Size: k.Crop.Width / 2}})
	if len(all) == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d ranks for %v", n, k), Why: "the case fits no mesh with this number of ranks", Fix: "start fewer ranks, or give a larger crop or batch"}
	}
	return all, nil
}

// trained is the result of training.
type trained struct {
	losses            []float64
	floor             float64                  // LossFloor, on one rank
	forward, gradient [gradientDraws][]float32 // before the first step
	parameters        []float32
}

// bits is a hash of losses and parameters.
func (t trained) bits() int64 {
	sum := sha256.Sum256(bigmem.Bytes(t.parameters))
	h := sha256.New()
	h.Write(sum[:])
	for _, v := range t.losses {
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
	}
	return int64(binary.LittleEndian.Uint64(h.Sum(nil)))
}

// fields returns input and target of a step, the same on every rank.
func (k Case) fields(step uint64, x, y graph.Shape) map[string][]float32 {
	r := rand.New(rand.NewPCG(1, 2+step))
	input, target := make([]float32, x.Size()), make([]float32, y.Size())
	for i := range input {
		input[i] = float32(r.NormFloat64())
	}
	for i := range target {
		target[i] = r.Float32()
	}
	return map[string][]float32{"x": input, "target": target}
}

// train takes steps with a plan; part copies this rank's part of a field.
func (k Case) train(ctx context.Context, g *graph.Graph, plan *engine.Plan, o ParallelCheckOptions, part func(name string, whole []float32, s graph.Shape)) (t trained, err error) {
	a, err := optim.New(plan.Store(), optim.Options{Kind: optim.Kind(o.Optimizer), Momentum: checkMomentum, Threads: k.Threads})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	x, y := g.Find("x").Shape, g.Find("target").Shape
	run := func(n uint64) error {
		for name, whole := range k.fields(n, x, y) {
			part(name, whole, g.Find(name).Shape)
		}
		return plan.Run(ctx, n)
	}
	for n := range t.gradient {
		if err := run(uint64(n)); err != nil {
			return t, err
		}
		t.forward[n], t.gradient[n] = slices.Clone(plan.Output("y")), slices.Clone(plan.Store().Grads())
	}
	for step := range uint64(o.Steps) {
		if err := run(step); err != nil {
			return t, err
		}
		t.losses = append(t.losses, plan.Loss())
		if _, err := a.Step(checkRates[o.Optimizer]); err != nil {
			return t, err
		}
	}
	t.parameters = slices.Clone(plan.Store().Params())
	return t, nil
}

// onOneRank trains on rank 0 alone and broadcasts the result.
func (k Case) onOneRank(ctx context.Context, c *comm.Comm, o ParallelCheckOptions) (t trained, err error) {
	g, err := k.graph(true)
	if err != nil {
		return t, err
	}
	if c.Rank() == 0 {
		if t, err = k.alone(ctx, g, o, func([]float32) {}); err != nil {
			return t, err
		}
		near, err := k.alone(ctx, g, o, nudge)
		if err != nil {
			return t, err
		}
		t.floor = Largest(near.losses, t.losses)
	}
	lengths := []int64{int64(len(t.forward[0])), int64(len(t.parameters))}
	if err := comm.Broadcast(c, 0, lengths); err != nil {
		return t, err
	}
	if c.Rank() > 0 {
		t.losses, t.parameters = make([]float64, o.Steps), make([]float32, lengths[1])
		for n := range t.gradient {
			t.forward[n], t.gradient[n] = make([]float32, lengths[0]), make([]float32, lengths[1])
		}
	}
	all := []comm.Slice{t.losses, t.parameters}
	for n := range t.gradient {
		all = append(all, t.forward[n], t.gradient[n])
	}
	for _, x := range all {
		if err := comm.Broadcast(c, 0, x); err != nil {
			return t, err
		}
	}
	return t, nil
}

// nudge moves parameters to an adjacent float32; zeros stay.
func nudge(parameters []float32) {
	r := rand.New(rand.NewPCG(3, 4))
	for i, v := range parameters {
		to := float32(math.Inf(2*r.IntN(2) - 1))
		if v != 0 {
			parameters[i] = math.Nextafter32(v, to)
		}
	}
}

// alone trains g on a single rank, with parameters modified by change.
func (k Case) alone(ctx context.Context, g *graph.Graph, o ParallelCheckOptions, change func([]float32)) (t trained, err error) {
	plan, err := engine.Compile(g, k.Options(false))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	change(plan.Store().Params())
	return k.train(ctx, g, plan, o, func(name string, whole []float32, _ graph.Shape) { copy(plan.Input(name), whole) })
}

// share is the result of one rank.
type share struct {
	trained
	y    graph.Shape // shape of the complete prediction
	own  spatial.Box // part of the rank
	sent int64       // bytes per step
}

// share trains the part of a rank of c.
func (k Case) share(ctx context.Context, c *comm.Comm, m spatial.Mesh, o ParallelCheckOptions) (s share, err error) {
	g, err := k.graph(true)
	if err != nil {
		return s, err
	}
	plan, err := spatial.Compile(g, c, m, k.Options(false))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	before := c.Traffic()
	s.trained, err = k.train(ctx, g, plan.Plan, o, func(name string, whole []float32, s graph.Shape) {
		spatial.ExtractBox(plan.Input(name), whole, s, plan.OwnedBox(name, s))
	})
	s.sent = c.Traffic().Sub(before).Bytes / int64(o.Steps+gradientDraws)
	s.y = g.Nodes[g.Outputs[0].ID].Shape
	s.own = m.Owned(plan.Outputs["y"], s.y, c.Rank())
	return s, err
}

// inOneProcess returns, on all ranks, the hash of training on a mesh with all ranks in the process of rank 0.
func (k Case) inOneProcess(ctx context.Context, c *comm.Comm, m spatial.Mesh, o ParallelCheckOptions) (int64, error) {
	bits := []int64{0}
	if c.Rank() == 0 {
		err := comm.Run(m.Size(), comm.Parallel, func(c *comm.Comm) error {
			s, err := k.share(ctx, c, m, o)
			if c.Rank() == 0 {
				bits[0] = s.bits()
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	err := comm.Broadcast(c, 0, bits)
	return bits[0], err
}

// onMesh trains on the ranks of c and compares the result with training on one.
func (k Case) onMesh(ctx context.Context, c *comm.Comm, m spatial.Mesh, o ParallelCheckOptions, one trained) (r ParallelMesh, err error) {
	r.Mesh = m.String()
	t, err := k.share(ctx, c, m, o)
	if err != nil {
		return r, err
	}
	bits, err := k.inOneProcess(ctx, c, m, o)
	if err != nil {
		return r, err
	}
	gradients := make([]float64, gradientDraws)
	for n, part := range t.forward {
		want := make([]float32, len(part))
		spatial.ExtractBox(want, one.forward[n], t.y, t.own)
		far := []float64{0, 0}
		for i, v := range want {
			far[0] += math.Pow(float64(part[i])-float64(v), 2)
			far[1] += math.Pow(float64(v), 2)
		}
		if err := comm.AllReduce(c, far, comm.Auto); err != nil {
			return r, err
		}
		r.Forward = max(r.Forward, math.Sqrt(far[0]/far[1]))
		gradients[n] = benchstats.RelativeDistance(t.gradient[n], one.gradient[n])
	}
	all, err := comm.AllGather(c, []float64{slices.Min(gradients), benchstats.RelativeDistance(t.parameters, one.parameters), Largest(t.losses, one.losses), float64(t.sent)})
	if err != nil {
		return r, err
	}
	r.Losses, r.Checksum = t.losses, checksum(t.parameters)
	for i := 0; i < len(all); i += 4 {
		r.Gradient, r.Parameters, r.Loss = max(r.Gradient, all[i]), max(r.Parameters, all[i+1]), max(r.Loss, all[i+2])
		r.BytesSent = max(r.BytesSent, int64(all[i+3]))
	}
	every, err := comm.AllGather(c, []int64{t.bits()})
	r.SameBits = !slices.ContainsFunc(every, func(b int64) bool { return b != bits })
	return r, err
}

// checksum returns the SHA-256 of values.
func checksum(x []float32) string { return fmt.Sprintf("%x", sha256.Sum256(bigmem.Bytes(x))) }

// Largest returns the largest relative difference.
func Largest(x, y []float64) float64 {
	var d float64
	for i, v := range y {
		d = max(d, math.Abs(x[i]-v)/math.Abs(v))
	}
	return d
}

// Sections returns the comparison as text.
func (p *ParallelCheck) Sections() answer.Sections {
	errors := answer.Section{Columns: slices.Concat(answer.TextColumns("mesh"), answer.NumberColumns("%.1e", "forward", "gradient", "losses", "parameters"),
		[]answer.Column{answer.NumberColumn("MiB sent a step", "", "%.2f")})}
	for _, m := range p.Meshes {
		errors.Rows = append(errors.Rows, []any{m.Mesh, m.Forward, m.Gradient, m.Loss, m.Parameters, float64(m.BytesSent) / (1 << 20)})
	}
	return answer.Sections{{Text: []string{fmt.Sprintf("%s (%s) against one, %s of %v", setup.DescribeRanks(p.Processes, p.Ranks), p.Transport, humanise.Count(p.Steps, "step"), p.Network)}}, errors,
		{Text: []string{fmt.Sprintf("largest relative error of predictions, gradients and losses %.1e", p.MaxRelError),
			fmt.Sprintf("losses of one rank from adjacent float32 parameters: %.1e", p.LossFloor),
			"same bits as with all ranks in one process: " + map[bool]string{true: "yes", false: "NO"}[p.SameBits]}}}
}
