package bench

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Sections returns the report as text.
func (r *RanksReport) Sections() answer.Sections {
	ranks := answer.Section{Columns: []answer.Column{answer.NumberColumn("process", "", ""), answer.NumberColumn("rank", "", ""), answer.NumberColumn("ms", "", "%.1f"), answer.NumberColumn("computed", "ms", "%.1f"), answer.NumberColumn("waited", "ms", "%.1f"),
		answer.NumberColumn("gradients", "ms", "%.1f"), answer.NumberColumn("hidden", "%", "%.0f"),
		answer.NumberColumn("MiB sent", "", "%.2f"), answer.NumberColumn("messages", "", ""), answer.NumberColumn("arena", "MiB", "%.1f"), answer.NumberColumn("memory", "MiB", "%.1f"), answer.NumberColumn("peak", "MiB", "%.1f")}}
	for _, k := range r.ByRank {
		ranks.Rows = append(ranks.Rows, []any{k.Process, k.Rank, k.TrainMedian, k.ComputeMS, k.WaitMS, k.GradientsMS, 100 * k.GradientsHidden, mib(k.BytesSent), k.Messages, k.ArenaMiB, k.MemoryMiB, k.PeakMiB})
	}
	steps := []string{fmt.Sprintf("ms of %s after %d warm-up steps; other columns are per step; hidden: share of the sums of gradients behind other work", humanise.Count(r.Steps, "step"), r.Warmup)}
	if b := r.Imbalance; b != nil {
		steps = append(steps, fmt.Sprintf("imbalance: the slowest rank of a step computes for %.3g of the mean, the slowest of all steps for %.3g", b.Slowest, b.Persistent))
	}
	if p := r.Predicted; p != nil {
		steps = append(steps, fmt.Sprintf("predicted %.1f ms, %.2f of the measured step, with %.4g GFLOP/s and %.4g GB/s a rank, messages of %.1f µs and %.3g GB/s", p.StepMS, p.Ratio, p.GFLOPs, p.GBs, p.LatencyUS, p.LinkGBs))
	}
	sums := ""
	if r.Density > 0 {
		sums = fmt.Sprintf(", density %g", r.Density)
	}
	return answer.Sections{{Text: []string{fmt.Sprintf("%s (%s), mesh %s%s, %v each", setup.DescribeRanks(r.Processes, r.Ranks), r.Transport, cmp.Or(r.Mesh, "none"), sums, r.Network),
		fmt.Sprintf("training step %.1f ms (%.1f to %.1f) of the slowest rank, %.2f samples/s, %.1f GFLOP/s", r.TrainMedian, r.TrainMin, r.TrainMax, r.SamplesPerS, r.GFLOPs)}}, ranks,
		{Text: steps}}
}
