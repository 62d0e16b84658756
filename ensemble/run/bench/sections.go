package bench

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/digits"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Sections returns the report as text.
func (r *Report) Sections() answer.Sections {
	m := r.Machine
	oneDNN := "no oneDNN"
	if m.OneDNN != "" {
		oneDNN = "oneDNN " + m.OneDNN
	}
	rows := [][2]string{{"machine", fmt.Sprintf("%s, %d cores, %s, %s", doctor.OrUnknown(m.CPU), m.Cores, oneDNN, m.Go)}}
	for _, p := range m.Peaks {
		rows = append(rows, [2]string{"peak", fmt.Sprintf("%s: %.1f GFLOP/s (%s), copy %.1f GiB/s", humanise.Count(p.Threads, "thread"), p.GFLOPs, p.By, p.Bandwidth)})
	}
	all := answer.Sections{answer.FactsSection(rows...),
		r.table("Training step: forward, loss, backward, Adam. ms are median, smallest and largest.", func(c Result) phaseText {
			return phaseText{c.TrainMedian, c.TrainMin, c.TrainMax, c.SamplesPerS, c.GFLOPs, c.PeakFraction, c.ArenaMiB, c.PeakMiB, c.Steps}
		}),
		r.table("Prediction: forward only.", func(c Result) phaseText {
			return phaseText{c.PredictMedian, c.PredictMin, c.PredictMax, c.PredictPerS, c.PredictGFLOPs, c.PredictShare, c.PredictArenaMiB, c.PredictPeakMiB, c.PredictSteps}
		}),
		{Text: append([]string{"GFLOP/s are those of the convolutions, a training step counts three forward",
			`passes; "of peak" is their ratio to the matrix product above, which Winograd may exceed.`}, append(r.ablations(), r.gradients()...)...)},
	}
	for _, c := range r.Results {
		if len(c.Movement) > 0 {
			all = append(all, movement("training step of "+c.title(), c.Movement)...)
			all = append(all, movement("prediction of "+c.title(), c.PredictMovement)...)
		}
	}
	return all
}

// title describes the case of a result.
func (c Result) title() string {
	return Case{Model: c.Model, Base: c.Base, Crop: c.Crop, Batch: c.Batch, Depth: c.Depth, Threads: c.Threads, Device: c.Device, Precision: c.Precision}.String()
}

// phaseText holds the columns of one phase.
type phaseText struct {
	median, min, max, perS, gflops, share, arena, peak float64
	n                                                  int
}

// table returns a table of one phase.
func (r *Report) table(about string, phase func(Result) phaseText) answer.Section {
	s := answer.Section{Text: []string{about}, Columns: slices.Concat(answer.TextColumns("model"), answer.NumberColumns("", "base", "crop", "batch", "depth", "threads", "ms", "min", "max", "steps", "samples/s"),
		[]answer.Column{answer.NumberColumn("GFLOP/s", "", "%.1f"), answer.NumberColumn("of peak", "", "%.2f"), answer.NumberColumn("arena", "MiB", "%.0f"), answer.NumberColumn("peak", "MiB", "%.0f")})}
	for _, c := range r.Results {
		p := phase(c)
		s.Rows = append(s.Rows, []any{c.Model, c.Base, c.Crop, c.Batch, c.Depth, c.Threads, digits.Three(p.median), digits.Three(p.min), digits.Three(p.max), p.n, digits.Three(p.perS),
			p.gflops, p.share, p.arena, p.peak})
	}
	return s
}

// gradients returns each measured gradient error once.
func (r *Report) gradients() (lines []string) {
	seen := map[Case]bool{}
	for _, c := range r.Results {
		if c.GradientCase != nil && !seen[*c.GradientCase] {
			seen[*c.GradientCase] = true
			lines = append(lines, fmt.Sprintf("Gradient: relative distance from float64 %.1e, measured on %v.", *c.GradientError, *c.GradientCase))
		}
	}
	return lines
}

// movement returns every operation of a step, then the sums of each class.
func movement(title string, all []engine.KernelTime) answer.Sections {
	rate := answer.NumberColumns("%.1f", "GFLOP/s", "GiB/s")
	steps := answer.Section{Text: []string{"Movement, " + title}, Columns: slices.Concat([]answer.Column{answer.NumberColumn("#", "", "")}, answer.TextColumns("operation", "layer", "kernel", "shape", "class"),
		[]answer.Column{answer.NumberColumn("MB", "", "%.2f"), answer.NumberColumn("MFLOP", "", "%.1f"), {Name: "bound"}}, answer.NumberColumns("%.3f", "bound ms", "ms"), rate,
		[]answer.Column{answer.NumberColumn("MUE", "%", "%.1f")})}
	type sum struct {
		n            int
		bytes, flops int64
		boundS, s    float64
	}
	sums := map[engine.Class]*sum{}
	var total float64
	for i, k := range all {
		gflops, gib := rates(k.FLOPs, k.Bytes, k.MeasuredS)
		steps.Rows = append(steps.Rows, []any{i, k.Op, k.Layer, k.Kernel, k.Shape, k.Class, float64(k.Bytes) / 1e6, float64(k.FLOPs) / 1e6, k.Bound, 1e3 * k.BoundS, 1e3 * k.MeasuredS,
			gflops, gib, k.MUE})
		c := sums[k.Class]
		if c == nil {
			c = &sum{}
			sums[k.Class] = c
		}
		c.n++
		c.bytes, c.flops, c.boundS, c.s, total = c.bytes+k.Bytes, c.flops+k.FLOPs, c.boundS+k.BoundS, c.s+k.MeasuredS, total+k.MeasuredS
	}
	classes := answer.Section{Columns: slices.Concat(answer.TextColumns("class"), []answer.Column{answer.NumberColumn("operations", "", "")}, answer.NumberColumns("%.1f", "MB", "MFLOP"), answer.NumberColumns("%.3f", "bound ms", "ms"),
		answer.NumberColumns("%.1f", "% of time"), rate)}
	for _, name := range engine.Classes {
		if c := sums[name]; c != nil {
			gflops, gib := rates(c.flops, c.bytes, c.s)
			classes.Rows = append(classes.Rows, []any{name, c.n, float64(c.bytes) / 1e6, float64(c.flops) / 1e6, 1e3 * c.boundS, 1e3 * c.s, 100 * c.s / cmp.Or(total, 1), gflops, gib})
		}
	}
	return answer.Sections{steps, classes}
}

// rates returns GFLOP/s and GiB/s; nil without a time.
func rates(flops, bytes int64, seconds float64) (gflops, gib any) {
	if seconds <= 0 {
		return "", ""
	}
	return float64(flops) / seconds / 1e9, float64(bytes) / seconds / (1 << 30)
}
