package explain

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

//go:embed explain.html
var explainHTML string

// explainStyles are the rules that pictures need, on the page and alone.
//
//go:embed explain.css
var explainStyles string

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

// planPage is what the template shows.
type planPage struct {
	*Result
	Legend   []engine.Class
	Steps    []stageView
	Pictures []template.HTML
	Memory   template.HTML
	Timeline template.HTML
	Shares   template.HTML
}

// stageView is one stage with its measures beside those of the stage before.
type stageView struct {
	engine.Stage
	Picture  int  // which of the pictures shows it
	Same     bool // no value came or went
	Measures []stageMeasure
}

// stageMeasure is one number of a stage; the bar is its share of the largest one.
type stageMeasure struct {
	Name, Value, Change string
	Bar                 float64
	Less                bool // than in the stage before
}

// WriteHTML writes one page that needs nothing else: the passes as steps, the
// graph after each as a picture, the memory of the arena over time, and all
// operations.
func (r *Result) WriteHTML(w io.Writer) error {
	p := planPage{Result: r, Legend: engine.Classes, Memory: template.HTML(memoryMap(r.Explanation)),
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
		p.Steps = append(p.Steps, stageView{Stage: s, Picture: at, Same: len(s.Changes) == 0, Measures: []stageMeasure{
			newStageMeasure("operations", fmt.Sprint(s.Ops), int64(s.Ops), int64(before.Ops), int64(most.Ops)),
			newStageMeasure("work", flopsText(s.FLOPs), s.FLOPs, before.FLOPs, most.FLOPs),
			newStageMeasure("bytes moved", bytesText(s.Bytes), s.Bytes, before.Bytes, most.Bytes),
			newStageMeasure("alive at most", bytesText(s.LiveBytes), s.LiveBytes, before.LiveBytes, most.LiveBytes),
			newStageMeasure("arena", bytesText(s.ArenaBytes), s.ArenaBytes, before.ArenaBytes, most.ArenaBytes),
		}})
	}
	return explainPage.Execute(w, p)
}

// GraphPicture draws the graph after a pass, what the pass made outlined; "" stands for
// the graph before all passes.
//
// Errors: exit 64 for a pass that did not run.
func (r *Result) GraphPicture(after string) (report.Picture, error) {
	i := slices.IndexFunc(r.Stages, func(s engine.Stage) bool { return s.Pass == after })
	if i < 0 {
		return report.Picture{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no pass %q ran", after), Fix: "name one of the stages"}
	}
	svg := newPicture(r.Stages[i].Graph, engine.NewIn(r.Stages[max(i-1, 0)].Graph, r.Stages[i].Graph)).svg(r.boundShare())
	return report.Alone("graph "+r.Stages[i].Name(), sized.ReplaceAllString(svg, "$1"), explainStyles), nil
}

// sized matches the size of a picture of a graph, which Alone says too.
var sized = regexp.MustCompile(`^(<svg[^>]* viewBox="[^"]*") width="[0-9]*" height="[0-9]*"`)

// MemoryPicture draws the arena over the operations: every buffer at its place from the
// first to the last operation that needs it.
func (r *Result) MemoryPicture() report.Picture {
	return report.Alone("memory of the arena over the operations", memoryMap(r.Explanation), explainStyles)
}

// TimePicture draws the operations one after the other, as long as their bound.
func (r *Result) TimePicture() report.Picture {
	return report.Alone("bound time of the operations", timeline(r.Explanation), explainStyles)
}

func newStageMeasure(name, value string, now, before, most int64) stageMeasure {
	m := stageMeasure{Name: name, Value: value, Bar: 100 * float64(now) / float64(max(most, 1)), Less: now < before}
	if change := 100 * float64(now-before) / float64(max(before, 1)); now != before {
		m.Change = strings.Replace(fmt.Sprintf("%+.1f %%", change), "-", "−", 1)
	}
	return m
}

// boundShare gives the bound of so much work and movement as a share of the
// longest bound of the plan.
func (r *Result) boundShare() func(flops, bytes int64) float64 {
	var longest float64
	for _, o := range r.Ops {
		longest = max(longest, o.BoundS)
	}
	return func(flops, bytes int64) float64 {
		s, _ := r.Peaks.Bound(flops, bytes)
		return min(ratio(s, longest), 1)
	}
}

// ratio is part of a whole, which may be 0 if the part is.
func ratio(part, whole float64) float64 { return part / max(whole, math.SmallestNonzeroFloat64) }
