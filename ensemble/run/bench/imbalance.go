package bench

import (
	"fmt"
	"math"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// MeasuredImbalance is how the times differ that ranks compute in a step, as machine.yaml describes it.
type MeasuredImbalance struct {
	Ranks int `json:"ranks"`
	// Slowest is the longest time of a step over the mean of the ranks, in the mean over steps; Persistent the longest mean time of a
	// rank over the mean. What remains is another rank in each step.
	Slowest    float64   `json:"slowest"`
	Persistent float64   `json:"persistent"`
	Times      []float64 `json:"times"` // equally likely times of a rank in a step over its mean
}

// measuredImbalance returns the imbalance of the times that ranks computed [rank][step]; nil on one rank.
func measuredImbalance(computed [][]float64) *MeasuredImbalance {
	b := search.ImbalanceOf(computed)
	if !b.IsKnown() {
		return nil
	}
	digits := func(x float64) float64 { return math.Round(1e4*x) / 1e4 }
	out := &MeasuredImbalance{Ranks: b.Ranks, Slowest: digits(b.Slowest), Persistent: digits(b.Persistent)}
	for _, t := range b.Times {
		out.Times = append(out.Times, digits(t))
	}
	return out
}

// writeMachine writes the description of the machine by what was measured: rates of a rank, the slowest pair of neighbours, as the
// link within and between nodes, and the imbalance.
//
// Errors: exit 73 and 74 for the file.
func (r *RanksReport) writeMachine(path string) error {
	var compute float64
	for _, k := range r.ByRank {
		compute += k.ComputeMS / float64(len(r.ByRank))
	}
	var b strings.Builder
	p := r.Predicted
	link := fmt.Sprintf("latency_us: %.4g, gb_s: %.4g", p.LatencyUS, p.LinkGBs)
	fmt.Fprintf(&b, "# Measured by ensemble bench --parallel on %d ranks (%s), mesh %q, %v.\n", r.Ranks, r.Transport, r.Mesh, r.Network)
	fmt.Fprintf(&b, "version: 1\nnode: {ranks: 1}\nrank: {gflops: %.4g, gb_s: %.4g}\nnetwork: {%s}\nintra_node: {%s}\n", TrainPasses*r.GFLOP/float64(r.Ranks)/compute*1e3, p.GBs, link, link)
	if i := r.Imbalance; i != nil {
		times := strings.ReplaceAll(strings.Trim(fmt.Sprint(i.Times), "[]"), " ", ", ")
		fmt.Fprintf(&b, "imbalance:\n  ranks: %d\n  slowest: %g\n  persistent: %g\n  times: [%s]\n", i.Ranks, i.Slowest, i.Persistent, times)
	}
	return exit.CreateError(path, atomicfile.WriteFile(path, []byte(b.String())))
}
