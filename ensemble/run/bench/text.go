package bench

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/doctor"
	"github.com/ensemble-weather/ensemble/internal/digits"
	"github.com/ensemble-weather/ensemble/internal/phrase"
)

// WriteText prints the report for a person.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	m := r.Machine
	oneDNN := "no oneDNN"
	if m.OneDNN != "" {
		oneDNN = "oneDNN " + m.OneDNN
	}
	fmt.Fprintf(&b, "machine  %s, %d cores, %s, %s\n", doctor.OrUnknown(m.CPU), m.Cores, oneDNN, m.Go)
	for _, p := range m.Peaks {
		fmt.Fprintf(&b, "peak     %s: %.1f GFLOP/s (%s), copy %.1f GiB/s\n", phrase.Count(p.Threads, "thread"), p.GFLOPs, p.By, p.Bandwidth)
	}
	b.WriteString("\nTraining step: forward, loss, backward, Adam. ms are median, smallest and largest.\n")
	r.table(&b, func(c Result) phaseText {
		return phaseText{c.TrainMedian, c.TrainMin, c.TrainMax, c.SamplesPerS, c.GFLOPs, c.PeakFraction, c.ArenaMiB, c.PeakMiB, c.Steps}
	})
	b.WriteString("\nPrediction: forward only.\n")
	r.table(&b, func(c Result) phaseText {
		return phaseText{c.PredictMedian, c.PredictMin, c.PredictMax, c.PredictPerS, c.PredictGFLOPs, c.PredictShare, c.PredictArenaMiB, c.PredictPeakMiB, c.PredictSteps}
	})
	b.WriteString("\nGFLOP/s are useful ones of the convolutions, a training step counting three forward\n" +
		"passes; \"of peak\" is their ratio to the matrix product above, which Winograd may pass.\n")
	r.gradients(&b)
	for _, c := range r.Results {
		if len(c.Movement) > 0 {
			writeMovement(&b, "training step of "+c.title(), c.Movement)
			writeMovement(&b, "prediction of "+c.title(), c.PredictMovement)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// title names the case of a result.
func (c Result) title() string {
	return Case{Model: c.Model, Base: c.Base, Crop: c.Crop, Batch: c.Batch, Depth: c.Depth, Threads: c.Threads, Device: c.Device, Precision: c.Precision}.String()
}

// phaseText holds the columns of one phase.
type phaseText struct {
	median, min, max, perS, gflops, share, arena, peak float64
	n                                                  int
}

func (r *Report) table(w io.Writer, phase func(Result) phaseText) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tbase\tcrop\tbatch\tdepth\tthreads\tms\tmin\tmax\tsteps\tsamples/s\tGFLOP/s\tof peak\tarena MiB\tpeak MiB\t")
	for _, c := range r.Results {
		p := phase(c)
		fmt.Fprintf(t, "%s\t%d\t%v\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%s\t%.1f\t%.2f\t%.0f\t%.0f\t\n", c.Model, c.Base, c.Crop, c.Batch, c.Depth, c.Threads,
			digits.Three(p.median), digits.Three(p.min), digits.Three(p.max), p.n, digits.Three(p.perS), p.gflops, p.share, p.arena, p.peak)
	}
	t.Flush()
}

// gradients prints each measured distance from float64 once.
func (r *Report) gradients(w io.Writer) {
	seen := map[Case]bool{}
	for _, c := range r.Results {
		if c.GradientCase != nil && !seen[*c.GradientCase] {
			seen[*c.GradientCase] = true
			fmt.Fprintf(w, "Gradient: relative distance from float64 %.1e, measured on %v.\n", *c.GradientError, *c.GradientCase)
		}
	}
}

// writeMovement prints every operation of a step, then the sums of each class.
func writeMovement(w io.Writer, title string, all []engine.KernelTime) {
	fmt.Fprintf(w, "\nMovement, %s\n", title)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "#\toperation\tlayer\tkernel\tshape\tclass\tMB\tMFLOP\tbound\tbound ms\tms\tGFLOP/s\tGiB/s\tMUE %\t")
	type sum struct {
		n            int
		bytes, flops int64
		boundS, s    float64
	}
	sums := map[engine.Class]*sum{}
	var total float64
	for i, k := range all {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%v\t%s\t%.2f\t%.1f\t%s\t%.3f\t%.3f\t%s\t%.1f\t\n", i, k.Op, k.Layer, k.Kernel, k.Shape, k.Class,
			float64(k.Bytes)/1e6, float64(k.FLOPs)/1e6, k.Bound, 1e3*k.BoundS, 1e3*k.MeasuredS, rates(k.FLOPs, k.Bytes, k.MeasuredS), k.MUE)
		c := sums[k.Class]
		if c == nil {
			c = &sum{}
			sums[k.Class] = c
		}
		c.n++
		c.bytes, c.flops, c.boundS, c.s, total = c.bytes+k.Bytes, c.flops+k.FLOPs, c.boundS+k.BoundS, c.s+k.MeasuredS, total+k.MeasuredS
	}
	t.Flush()
	t = tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "class\toperations\tMB\tMFLOP\tbound ms\tms\t% of time\tGFLOP/s\tGiB/s\t")
	for _, name := range engine.Classes {
		if c := sums[name]; c != nil {
			fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.3f\t%.3f\t%.1f\t%s\t\n", name, c.n, float64(c.bytes)/1e6, float64(c.flops)/1e6,
				1e3*c.boundS, 1e3*c.s, 100*c.s/cmp.Or(total, 1), rates(c.flops, c.bytes, c.s))
		}
	}
	t.Flush()
}

// rates are two columns: GFLOP/s and GiB/s.
func rates(flops, bytes int64, seconds float64) string {
	if seconds <= 0 {
		return "\t"
	}
	return fmt.Sprintf("%.1f\t%.1f", float64(flops)/seconds/1e9, float64(bytes)/seconds/(1<<30))
}
