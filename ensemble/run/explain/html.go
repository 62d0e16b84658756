package explain

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

//go:embed explain.html
var explainHTML string

// explainStyles are the CSS rules of the charts, for the page and for single images.
//
//go:embed explain.css
var explainStyles string

// explainPage is the template of the page, with functions that format numbers.
var explainPage = template.Must(template.New("explain").Funcs(template.FuncMap{
	"styles": func() template.CSS { return template.CSS(explainStyles) },
	"bytes":  bytesText, "flops": flopsText, "time": timeText,
	"rate":  func(perSecond float64) string { return fmt.Sprintf("%.1f", perSecond/1e9) },
	"share": func(part, of float64) string { return fmt.Sprintf("%.1f", 100*ratio(part, of)) },
	"mega":  func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/1e6) },
	"mebi":  func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/(1<<20)) },
	"micro": func(s float64) string { return fmt.Sprintf("%.1f", 1e6*s) },
	"one":   func(x float64) string { return fmt.Sprintf("%.1f", x) },
}).Parse(explainHTML))

// planPage is the data of the page template.
type planPage struct {
	*Result
	Legend   []engine.Class
	Steps    []stageView
	Memory   template.HTML
	Timeline template.HTML
	Shares   template.HTML
	DOT      string // file name of the graph beside the page
	Drawn    string // pass that the graph shows
}

// stageView is one stage with its measures compared with the preceding stage.
type stageView struct {
	engine.PassReport
	Measures []stageMeasure
}

// stageMeasure is one number of a stage; the bar is its fraction of the largest one.
type stageMeasure struct {
	Value, Change string
	Bar           float64
	Less          bool // than in the preceding stage
}

// writeHTML writes a self-contained page: table of passes, memory of the arena over time, and all operations.
// dot is the file name of the graph.
func (r *Result) writeHTML(w io.Writer, dot string) error {
	p := planPage{Result: r, Legend: engine.Classes, Memory: template.HTML(memoryMap(r.Explanation)),
		Timeline: template.HTML(timeline(r.Explanation)), Shares: template.HTML(shares(r.Explanation)), DOT: dot, Drawn: r.drawnPass()}
	var most engine.PassReport
	for _, s := range r.PassReports {
		most.FLOPs, most.Bytes = max(most.FLOPs, s.FLOPs), max(most.Bytes, s.Bytes)
		most.LiveBytes, most.ArenaBytes, most.Ops = max(most.LiveBytes, s.LiveBytes), max(most.ArenaBytes, s.ArenaBytes), max(most.Ops, s.Ops)
	}
	for i, s := range r.PassReports {
		before := s
		if i > 0 {
			before = r.PassReports[i-1]
		}
		p.Steps = append(p.Steps, stageView{PassReport: s, Measures: []stageMeasure{
			newStageMeasure(fmt.Sprint(s.Ops), int64(s.Ops), int64(before.Ops), int64(most.Ops)),
			newStageMeasure(flopsText(s.FLOPs), s.FLOPs, before.FLOPs, most.FLOPs),
			newStageMeasure(bytesText(s.Bytes), s.Bytes, before.Bytes, most.Bytes),
			newStageMeasure(bytesText(s.LiveBytes), s.LiveBytes, before.LiveBytes, most.LiveBytes),
			newStageMeasure(bytesText(s.ArenaBytes), s.ArenaBytes, before.ArenaBytes, most.ArenaBytes),
		}})
	}
	return explainPage.Execute(w, p)
}

// MemoryPicture draws the arena over the operations: every buffer at its offset, from the first to the last
// operation that needs it.
func (r *Result) MemoryPicture() report.Picture {
	return report.Standalone("memory of the arena over the operations", memoryMap(r.Explanation), explainStyles)
}

// TimePicture draws the operations one after the other, as long as their estimated time.
func (r *Result) TimePicture() report.Picture {
	return report.Standalone("bound time of the operations", timeline(r.Explanation), explainStyles)
}

// newStageMeasure returns a measure; most is the largest value of all stages.
func newStageMeasure(value string, now, before, most int64) stageMeasure {
	m := stageMeasure{Value: value, Bar: 100 * float64(now) / float64(max(most, 1)), Less: now < before}
	if change := 100 * float64(now-before) / float64(max(before, 1)); now != before {
		m.Change = strings.Replace(fmt.Sprintf("%+.1f %%", change), "-", "−", 1)
	}
	return m
}

// ratio returns part/whole; 0 if both are 0.
func ratio(part, whole float64) float64 { return part / max(whole, math.SmallestNonzeroFloat64) }
