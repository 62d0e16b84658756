package run

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
)

//go:embed explain.html
var explainHTML string

var explainPage = template.Must(template.New("explain").Funcs(template.FuncMap{
	"bytes": bytesText, "flops": flopsText, "time": timeText,
	"rate":  func(perSecond float64) string { return fmt.Sprintf("%.1f", perSecond/1e9) },
	"share": func(part, of float64) string { return fmt.Sprintf("%.1f", 100*part/max(of, 1e-300)) },
	"mega":  func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/1e6) },
	"mebi":  func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/(1<<20)) },
	"micro": func(s float64) string { return fmt.Sprintf("%.1f", 1e6*s) },
	"one":   func(x float64) string { return fmt.Sprintf("%.1f", x) },
}).Parse(explainHTML))

// page is what the template shows.
type page struct {
	*ExplainResult
	Classes  []engine.Class
	Steps    []step
	Pictures []template.HTML
	Memory   template.HTML
	Timeline template.HTML
	Shares   template.HTML
}

// step is one stage with its measures beside those of the stage before.
type step struct {
	engine.Stage
	Picture  int  // which of the pictures shows it
	Same     bool // no value came or went
	Measures []measure
}

// measure is one number of a stage; the bar is its share of the largest one.
type measure struct {
	Name, Value, Change string
	Bar                 float64
	Less                bool // than in the stage before
}

// WriteHTML writes one page that needs nothing else: the passes as steps, the
// graph after each as a picture, the memory of the arena over time, and all
// operations.
func (r *ExplainResult) WriteHTML(w io.Writer) error {
	p := page{ExplainResult: r, Classes: engine.Classes, Memory: template.HTML(memoryMap(r.Explanation)),
		Timeline: template.HTML(timeline(r.Explanation)), Shares: template.HTML(shares(r.Explanation))}
	bound := r.boundShare()
	seen := map[string]int{} // pictures by text of the graph
	var most engine.Stage
	for _, s := range r.Stages {
		most.FLOPs, most.Bytes = max(most.FLOPs, s.FLOPs), max(most.Bytes, s.Bytes)
		most.LiveBytes, most.ArenaBytes, most.Ops = max(most.LiveBytes, s.LiveBytes), max(most.ArenaBytes, s.ArenaBytes), max(most.Ops, s.Ops)
	}
	for i, s := range r.Stages {
		before := s
		if i > 0 {
			before = r.Stages[i-1]
		}
		var text strings.Builder
		if err := s.Graph.WriteText(&text); err != nil {
			return err
		}
		isNew := engine.NewIn(before.Graph, s.Graph)
		at, known := seen[text.String()]
		if !known {
			at = len(p.Pictures)
			seen[text.String()] = at
			p.Pictures = append(p.Pictures, template.HTML(newPicture(s.Graph, isNew).svg(bound)))
		}
		p.Steps = append(p.Steps, step{Stage: s, Picture: at, Same: len(s.Changes) == 0, Measures: []measure{
			newMeasure("operations", fmt.Sprint(s.Ops), int64(s.Ops), int64(before.Ops), int64(most.Ops)),
			newMeasure("work", flopsText(s.FLOPs), s.FLOPs, before.FLOPs, most.FLOPs),
			newMeasure("bytes moved", bytesText(s.Bytes), s.Bytes, before.Bytes, most.Bytes),
			newMeasure("alive at most", bytesText(s.LiveBytes), s.LiveBytes, before.LiveBytes, most.LiveBytes),
			newMeasure("arena", bytesText(s.ArenaBytes), s.ArenaBytes, before.ArenaBytes, most.ArenaBytes),
		}})
	}
	return explainPage.Execute(w, p)
}

func newMeasure(name, value string, now, before, most int64) measure {
	m := measure{Name: name, Value: value, Bar: 100 * float64(now) / float64(max(most, 1)), Less: now < before}
	if change := 100 * float64(now-before) / float64(max(before, 1)); now != before {
		m.Change = strings.Replace(fmt.Sprintf("%+.1f %%", change), "-", "−", 1)
	}
	return m
}

// boundShare gives the bound of so much work and movement as a share of the
// longest bound of the plan.
func (r *ExplainResult) boundShare() func(flops, bytes int64) float64 {
	var longest float64
	for _, o := range r.Ops {
		longest = max(longest, o.BoundS)
	}
	return func(flops, bytes int64) float64 {
		s, _ := r.Peaks.Bound(flops, bytes)
		return min(s/max(longest, 1e-300), 1)
	}
}
