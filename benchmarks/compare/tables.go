package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/measure"
)

// figures are what both sides measure of a case; the keys are those of `ensemble
// bench --json`.
type figures struct {
	Model   string          `json:"model"`
	Base    int             `json:"base"`
	Crop    json.RawMessage `json:"crop"` // 128 or "352x704"
	Batch   int             `json:"batch"`
	Depth   int             `json:"depth"`
	Threads int             `json:"threads"`

	Form    string `json:"form"`  // of PyTorch
	Torch   string `json:"torch"` // version
	Wait    string `json:"wait_policy"`
	Preload string `json:"preload"`
	Error   string `json:"error"`

	Train          float64  `json:"train_ms_median"`
	Predict        float64  `json:"predict_ms_median"`
	PeakMiB        float64  `json:"peak_mib"`
	PredictPeakMiB float64  `json:"predict_peak_mib"`
	GradientError  *float64 `json:"relative_gradient_error"`
	GradientCase   *struct {
		Base  int             `json:"base"`
		Crop  json.RawMessage `json:"crop"`
		Batch int             `json:"batch"`
		Depth int             `json:"depth"`
	} `json:"gradient_case"`
	// Of ours only: useful work beside the peak of a matrix product.
	GFLOPs          float64 `json:"gflops"`
	PredictGFLOPs   float64 `json:"predict_gflops"`
	Fraction        float64 `json:"peak_fraction"`
	PredictFraction float64 `json:"predict_peak_fraction"`
}

// title names the case.
func (f figures) title() string {
	return fmt.Sprintf("%s base %d, %s, batch %d, depth %d", f.Model, f.Base, strings.Trim(string(f.Crop), `"`), f.Batch, f.Depth)
}

// machine is what `ensemble bench` says of where it ran.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Go     string `json:"go"`
	OneDNN string `json:"onednn"`
}

// duel is one case, measured by both sides in turn.
type duel struct {
	machine machine
	ours    []figures
	theirs  map[string][]figures // by form
	order   []string             // of the forms
}

// published are the forms in which the networks were published.
var published = []string{"d3", "d3_cl", "f32", "cl"}

const (
	// worstGradient is the distance from float64 up to which a form counts: that
	// of bfloat16 is about 1 %.
	worstGradient = 0.05
	// behind is how much slower than the fastest a form may be to stay in the race.
	behind = 1.3
)

// A phase is a column of figures: training or prediction.
type phase struct {
	name     string
	ms, peak func(figures) float64
	gflops   func(figures) float64
	fraction func(figures) float64
}

var phases = []phase{
	{"Training step", func(f figures) float64 { return f.Train }, func(f figures) float64 { return f.PeakMiB },
		func(f figures) float64 { return f.GFLOPs }, func(f figures) float64 { return f.Fraction }},
	{"Prediction", func(f figures) float64 { return f.Predict }, func(f figures) float64 { return f.PredictPeakMiB },
		func(f figures) float64 { return f.PredictGFLOPs }, func(f figures) float64 { return f.PredictFraction }},
}

// sound says whether a form ran and gives the right gradient.
func (d *duel) sound(form string) bool {
	all := d.theirs[form]
	if slices.ContainsFunc(all, func(f figures) bool { return f.Error != "" }) {
		return false
	}
	e := all[0].GradientError
	return e == nil && all[0].GradientCase == nil || e != nil && *e <= worstGradient
}

// best is the fastest sound form of those that keep accepts, "" if there is none.
func (d *duel) best(p phase, keep func(form string) bool) (form string) {
	least := math.Inf(1)
	for _, f := range d.order {
		if keep(f) && d.sound(f) {
			if ms := over(d.theirs[f], p.ms).Median(); ms < least {
				least, form = ms, f
			}
		}
	}
	return form
}

func anyForm(string) bool { return true }

func isPublished(form string) bool { return slices.Contains(published, form) }

// contenders are the forms for the next round: published, or near the best.
func (d *duel) contenders() (keep []string) {
	for _, f := range d.order {
		near := func(p phase) bool {
			b := d.best(p, anyForm)
			return b != "" && over(d.theirs[f], p.ms).Median() <= behind*over(d.theirs[b], p.ms).Median()
		}
		if d.sound(f) && (isPublished(f) || slices.ContainsFunc(phases, near)) {
			keep = append(keep, f)
		}
	}
	return keep
}

// over is a figure over the rounds.
func over(all []figures, of func(figures) float64) measure.Series {
	s := make(measure.Series, len(all))
	for i, f := range all {
		s[i] = of(f)
	}
	return s
}

// tables prints duels.
type tables struct {
	rounds    int
	precision string // of ours
	duels     []*duel
}

// markdown is one table for each phase, and one of all forms.
func (t *tables) markdown() string {
	var b strings.Builder
	d := t.duels[0]
	peer := d.theirs[d.order[0]][0]
	preload := ""
	if peer.Preload != "" {
		preload = ", LD_PRELOAD=" + peer.Preload
	}
	fmt.Fprintf(&b, "%s, %d cores; %s, oneDNN %s; PyTorch %s, OMP_WAIT_POLICY=%s%s. Ours in %s. Medians of %d alternate rounds, with the smallest and largest of them.\n",
		d.machine.CPU, d.machine.Cores, d.machine.Go, d.machine.OneDNN, peer.Torch, peer.Wait, preload, t.precision, t.rounds)
	for _, p := range phases {
		fmt.Fprintf(&b, "\n## %s\n\n", p.name)
		b.WriteString("| network | threads | ours ms | GFLOP/s (of peak) | published ms | ratio | PyTorch's best | ms | ratio | ours MiB | best MiB | ratio | gradient error ours | best |\n")
		b.WriteString("|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|\n")
		for _, d := range t.duels {
			b.WriteString(d.row(p))
		}
	}
	b.WriteString("\nRatios above 1 in time: we are faster. Ratios below 1 in memory: we need less. Memory is the peak of the process that did only this.\n")
	b.WriteString("\n## All forms of PyTorch, ms\n\n| network | threads | form | training step | prediction | peak MiB | gradient error | rounds |\n|---|--:|---|--:|--:|--:|--:|--:|\n")
	for _, d := range t.duels {
		for _, f := range d.order {
			b.WriteString(d.formRow(f))
		}
	}
	return b.String()
}

// row compares one case in one phase.
func (d *duel) row(p phase) string {
	ours := over(d.ours, p.ms).Median()
	cells := []string{d.ours[0].title(), fmt.Sprint(d.ours[0].Threads), over(d.ours, p.ms).String(),
		fmt.Sprintf("%.0f (%.2f)", over(d.ours, p.gflops).Median(), over(d.ours, p.fraction).Median())}
	if f := d.best(p, isPublished); f != "" {
		cells = append(cells, fmt.Sprintf("%s (%s)", over(d.theirs[f], p.ms), f), fmt.Sprintf("%.2f", over(d.theirs[f], p.ms).Median()/ours))
	} else {
		cells = append(cells, "", "")
	}
	if f := d.best(p, anyForm); f != "" {
		all := d.theirs[f]
		cells = append(cells, f, over(all, p.ms).String(), fmt.Sprintf("%.2f", over(all, p.ms).Median()/ours),
			fmt.Sprintf("%.0f", over(d.ours, p.peak).Median()), fmt.Sprintf("%.0f", over(all, p.peak).Median()), fmt.Sprintf("%.2f", over(d.ours, p.peak).Median()/over(all, p.peak).Median()),
			gradientError(d.ours[0]), gradientError(all[0]))
	} else {
		cells = append(cells, "none", "", "", fmt.Sprintf("%.0f", over(d.ours, p.peak).Median()), "", "", gradientError(d.ours[0]), "")
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// formRow is one form of PyTorch.
func (d *duel) formRow(form string) string {
	all := d.theirs[form]
	title, threads := d.ours[0].title(), d.ours[0].Threads
	if e := all[0].Error; e != "" {
		return fmt.Sprintf("| %s | %d | %s | does not run: %s |  |  |  | %d |\n", title, threads, form, strings.ReplaceAll(e, "|", "/"), len(all))
	}
	note := ""
	if !d.sound(form) {
		note = " (wrong)"
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %.0f | %s%s | %d |\n", title, threads, form, over(all, phases[0].ms), over(all, phases[1].ms),
		over(all, phases[0].peak).Median(), gradientError(all[0]), note, len(all))
}

func gradientError(f figures) string {
	switch {
	case f.GradientError != nil:
		return fmt.Sprintf("%.1e", *f.GradientError)
	case f.GradientCase != nil:
		return "not finite"
	}
	return "not measured"
}
