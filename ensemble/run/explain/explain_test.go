package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// explainOptions describe a small network of the demo's configuration.
func explainOptions(t *testing.T, set ...string) Options {
	t.Helper()
	c, err := config.LoadTrain(config.Sources{Files: []string{"../demo/demo.yaml"}, Set: append([]string{"model.base=2", "train.threads=1"}, set...)})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: c, Crop: setup.Crop{Height: 16, Width: 24}, Peaks: engine.Peaks{FLOPs: 100e9, Bytes: 10e9}}
}

func explain(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), o)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// planText returns a plan as text, without measured peaks.
func planText(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// explainedPlan returns the explanation of a plan.
func explainedPlan(t *testing.T, o Options) string {
	t.Helper()
	o.Peaks = engine.Peaks{FLOPs: 1, Bytes: 1} // not measured
	r := explain(t, o)
	r.Peaks = engine.Peaks{}
	return planText(t, r.PlanSections().WriteText)
}

// TestExplainBounds checks that limits in the options override those of the configuration.
func TestExplainBounds(t *testing.T) {
	f := demotest.Files(t)
	c := func(memory, workspace string) *config.TrainConfig {
		return demotest.Config(t, f, "model.base=16", "train.batch_size=3", "train.memory="+memory, "train.workspace="+workspace)
	}
	for _, row := range []struct {
		o    Options
		want *config.TrainConfig
	}{
		{Options{Config: c("1B", "0"), MemoryBytes: 18 << 20}, c("18MiB", "0")},
		{Options{Config: c("0", "1B"), WorkspaceBytes: 4 << 20}, c("0", "4MiB")},
		{Options{Config: c("1B", "1B"), MemoryBytes: 18 << 20, WorkspaceBytes: 4 << 20}, c("18MiB", "4MiB")},
	} {
		if got, want := explainedPlan(t, row.o), explainedPlan(t, Options{Config: row.want}); got != want {
			t.Errorf("memory %d, workspace %d: %s", row.o.MemoryBytes, row.o.WorkspaceBytes, runtest.FirstDifference(got, want))
		}
	}
	o := Options{Config: c("18MiB", "4MiB"), WorkspaceBytes: 3 << 20, Peaks: engine.Peaks{FLOPs: 1, Bytes: 1}}
	r := explain(t, o)
	if r.Precision != "f32" || r.MemoryBytes != 18<<20 || r.WorkspaceBytes != 3<<20 || !strings.HasSuffix(r.Network, ", f32, memory 18MiB, workspace 3MiB") {
		t.Errorf("%q: precision %q, memory %d, workspace %d", r.Network, r.Precision, r.MemoryBytes, r.WorkspaceBytes)
	}
}

// TestExplainPrediction checks that mode predict explains the plan of a prediction, with the precision of the
// configuration and without its limits.
func TestExplainPrediction(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "model.base=16", "train.precision=bf16", "train.memory=1B", "train.workspace=1B", "train.threads=3")
	grid, err := GridOf(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []setup.Inference{{}, {Threads: 1}, {Threads: 1, Memory: 4 << 20}, {Threads: 1, Workspace: 2 << 20}} {
		got := explainedPlan(t, Options{Config: c, Mode: "predict", Threads: o.Threads, MemoryBytes: o.Memory, WorkspaceBytes: o.Workspace})
		m := &model.Model{Spec: setup.SpecOf(c), Task: setup.PlaceholderTask(setup.TaskOf(c)), Metadata: model.Metadata{Grid: grid}}
		if err := m.Open(o.Options()); err != nil {
			t.Fatal(err)
		}
		if want := planText(t, m.Network.Plan.Explain); got != want {
			t.Errorf("%+v: %s", o, runtest.FirstDifference(got, want))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExplainText checks that the report names every pass and kernel, and the restricted report only one
// pass.
func TestExplainText(t *testing.T) {
	o := explainOptions(t)
	var all strings.Builder
	r := explain(t, o)
	if err := r.Sections().WriteText(&all); err != nil {
		t.Fatal(err)
	}
	for _, p := range pass.List {
		if !regexp.MustCompile(`(?m)^` + p.Name + ` +\d`).MatchString(all.String()) {
			t.Errorf("the report lacks pass %s", p.Name)
		}
	}
	if n := strings.Count(all.String(), "compute\n") + strings.Count(all.String(), "memory\n"); n != len(r.Ops) {
		t.Errorf("%d lines with a bound, %d operations", n, len(r.Ops))
	}
	o.Pass = "fuse"
	var one strings.Builder
	if err := explain(t, o).Sections().WriteText(&one); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(one.String(), "\n−") || !strings.Contains(one.String(), "\n+") || strings.Contains(one.String(), "schedule") {
		t.Errorf("the report of one pass:\n%s", one.String())
	}
}

// TestExplainDump checks the graph after a pass: a gradient for each parameter after add-gradients, none
// before.
func TestExplainDump(t *testing.T) {
	o := explainOptions(t)
	for name, grads := range map[string]bool{"choose-mode": false, "add-gradients": true, "plan-memory": true} {
		o.DumpAfter = name
		r := explain(t, o)
		var want strings.Builder
		if err := r.PassReports[r.stageAfter(name)].Graph.WriteText(&want); err != nil {
			t.Fatal(err)
		}
		if r.Graph != want.String() || strings.Contains(r.Graph, "\ngradient ") != grads {
			t.Errorf("after %s: %d bytes, want %d, gradients: %v", name, len(r.Graph), want.Len(), grads)
		}
	}
}

// TestExplainJSON checks that the answer contains stages, operations and buffers.
func TestExplainJSON(t *testing.T) {
	text, err := json.Marshal(explain(t, explainOptions(t)))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Mode   string `json:"mode"`
		Stages []struct {
			Pass  string `json:"pass"`
			Bytes int64  `json:"bytes"`
		} `json:"stages"`
		Ops []struct {
			Op, Kernel, Class, Bound, Where string
			BoundS                          float64 `json:"bound_s"`
		} `json:"ops"`
		Buffers []struct{ Size int64 } `json:"buffers"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Mode != "train" || len(got.Stages) != len(pass.List)+1 || len(got.Ops) == 0 || len(got.Buffers) == 0 {
		t.Errorf("mode %q, %d stages, %d operations, %d buffers", got.Mode, len(got.Stages), len(got.Ops), len(got.Buffers))
	}
	for _, o := range got.Ops {
		if o.Op == "" || o.Kernel == "" || o.Class == "" || o.Bound == "" || o.Where == "" {
			t.Errorf("an operation lacks something: %+v", o)
		}
	}
}

// TestExplainWithout: train.without_passes leaves passes out of the plan of a training, options replace it, and an unknown or a required
// pass is refused.
func TestExplainWithout(t *testing.T) {
	for _, c := range []struct {
		with     []string // options
		out, has string
	}{{nil, "fuse-chains", "fuse-norms"}, {[]string{"fuse-norms"}, "fuse-norms", "fuse-chains"}} {
		o := explainOptions(t, "train.without_passes=[fuse-chains]")
		o.Without = c.with
		r := explain(t, o)
		if r.stageAfter(c.out) >= 0 || r.stageAfter(c.has) < 0 || !slices.Equal(r.Without, []string{c.out}) || !strings.Contains(r.Network, "without passes "+c.out) {
			t.Errorf("%s: without %v", r.Network, r.Without)
		}
	}
	for _, name := range []string{"fuse-chain", "schedule"} {
		o := explainOptions(t)
		o.Without = []string{name}
		if _, err := Run(t.Context(), o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A training by K-FAC is explained with the factors of every filter, as text and as JSON.
func TestExplainKFAC(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "train.optimizer=kfac", "train.kfac.max_side=120")
	o := Options{Config: c, Peaks: engine.Peaks{FLOPs: 1, Bytes: 1}}
	r := explain(t, o)
	forms := map[pass.FactorForm]int{}
	for _, l := range r.Factors {
		forms[l.Form]++
	}
	if text := planText(t, r.PlanSections().WriteText); forms[pass.ExactFactors] == 0 || forms[pass.ChannelFactors] == 0 || !strings.Contains(text, r.Factors[0].Param) || !strings.Contains(text, "channels") {
		t.Errorf("forms %v, text:\n%s", forms, text)
	}
}

// TestExplainHTML checks that the page is self-contained, and that its charts are well-formed and show every
// operation.
func TestExplainHTML(t *testing.T) {
	o := explainOptions(t)
	o.HTML = filepath.Join(t.TempDir(), "plan.html")
	r := explain(t, o)
	text, err := os.ReadFile(o.HTML)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if m := regexp.MustCompile(`(?i)https?://|src=|@import|<link`).FindString(page); m != "" {
		t.Errorf("the page holds %q", m)
	}
	svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(svgs) != 3 {
		t.Fatalf("%d pictures, want memory, timeline and shares", len(svgs))
	}
	for _, p := range []report.Picture{r.MemoryPicture(), r.TimePicture()} {
		if strings.Count(string(p.SVG), " width=") == 0 || !strings.Contains(string(p.SVG), "--contraction: #") {
			t.Errorf("%s alone has no size or no colours", p.Title)
		}
		svgs = append(svgs, string(p.SVG))
	}
	for i, svg := range svgs {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Errorf("picture %d: %v", i, err)
				break
			}
		}
	}
	if rows := strings.Count(page, "<tr class="); rows != len(r.Ops) {
		t.Errorf("%d rows for %d operations", rows, len(r.Ops))
	}
	for _, want := range []string{"recompute", "plan-memory", "conv3d_fused", "dot -Tsvg plan.dot"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestDOT checks that Graphviz draws the graph after every pass, of two networks; it contains every operation
// except aliases, changes of the pass are outlined, and the text is reproducible.
func TestDOT(t *testing.T) {
	dot, err := exec.LookPath("dot")
	if err != nil {
		t.Skip("skipped: no Graphviz to draw the graph with")
	}
	for _, set := range [][]string{nil, {"model.kind=resnet2d_simple", "model.head=spread", "train.loss.kind=mse",
		"data.levels=[850hPa]", "data.targets=[{variable: t, levels: [850hPa]}]"}} {
		r := explain(t, explainOptions(t, set...))
		for i, s := range r.PassReports {
			if i > 0 && len(s.Changes) == 0 {
				continue
			}
			var text, again bytes.Buffer
			if err := errors.Join(r.WriteDOT(&text, s.Pass), r.WriteDOT(&again, s.Pass)); err != nil || !bytes.Equal(text.Bytes(), again.Bytes()) {
				t.Fatalf("%v after %q: %v, or another text the second time", set, s.Pass, err)
			}
			cmd := exec.Command(dot, "-Tsvg")
			cmd.Stdin = &text
			var said bytes.Buffer
			cmd.Stderr = &said
			svg, err := cmd.Output()
			if err != nil || said.Len() > 0 {
				t.Fatalf("%v after %q: %v, %s", set, s.Pass, err, said.String())
			}
			ops, reads := 0, 0
			need, seen := s.Graph.Needed(s.Graph.Roots()), map[[2]int]bool{}
			shown := func(n *graph.Node) bool {
				return need[n.ID] && (n.Kind == graph.KindInput || n.Kind == graph.KindOp && !n.Op.Alias)
			}
			for _, n := range s.Graph.Nodes {
				if !shown(n) {
					continue
				}
				ops++
				for _, id := range n.In {
					from := s.Graph.Nodes[id]
					for from.Kind == graph.KindOp && from.Op.Alias {
						from = s.Graph.Nodes[from.In[0]]
					}
					if e := [2]int{from.ID, n.ID}; shown(from) && !seen[e] {
						seen[e] = true
						reads++
					}
				}
			}
			if nodes, edges := bytes.Count(svg, []byte(`class="node"`)), bytes.Count(svg, []byte(`class="edge"`)); nodes != ops || edges != reads {
				t.Errorf("%v after %q: %d nodes and %d edges are drawn, the graph has %d operations and inputs, which read %d values", set, s.Pass, nodes, edges, ops, reads)
			}
			if made := slices.ContainsFunc(s.Changes, func(c engine.Change) bool { return c.Name != "const" && c.Added+c.Changed > 0 }); made != bytes.Contains(svg, []byte("#f2b400")) {
				t.Errorf("%v after %q: outlined: %v", set, s.Pass, !made)
			}
		}
		if err := r.WriteDOT(io.Discard, "fusion"); exit.CodeOf(err) != exit.Usage {
			t.Errorf("an unknown pass: %v", err)
		}
	}
	for class, colour := range classColours {
		if !strings.Contains(explainStyles, fmt.Sprintf("--%s: %s;", class, colour)) {
			t.Errorf("%s has another colour on the page than %s", class, colour)
		}
	}
}

// TestExplainErrors checks that invalid input is one error with code and remedy.
func TestExplainErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *Options)
		want   exit.Code
		fix    string
	}{
		"mode":      {func(o *Options) { o.Mode = "guess" }, exit.Usage, "train or predict"},
		"pass":      {func(o *Options) { o.Pass = "fus" }, exit.Usage, "`fuse`"},
		"dump":      {func(o *Options) { o.DumpAfter = "nothing at all" }, exit.Usage, "engine passes"},
		"crop":      {func(o *Options) { o.Crop = setup.Crop{Height: 16, Width: -1} }, exit.Usage, "rows and columns"},
		"peaks":     {func(o *Options) { o.Peaks.FLOPs = -1 }, exit.Usage, "to measure them"},
		"stages":    {func(o *Options) { o.Config.Model.Stages = 6 }, exit.Usage, "options of the network"},
		"no files":  {func(o *Options) { o.Crop = setup.Crop{} }, exit.NotYet, "--crop"},
		"memory":    {func(o *Options) { o.MemoryBytes = 1000 }, exit.NoDevice, "give --memory "},
		"workspace": {func(o *Options) { o.WorkspaceBytes = 1000 }, exit.Usage, "give --workspace "},
		"key":       {func(o *Options) { o.Config.Train.Train.Memory = 1000 }, exit.NoDevice, "set train.memory: "},
		"below 0":   {func(o *Options) { o.WorkspaceBytes = -1 }, exit.Usage, "positive limits"},
		"no folder": {func(o *Options) { o.HTML = "/nowhere/at/all.html" }, exit.CannotWrite, ""},
	} {
		o := explainOptions(t)
		c.change(&o)
		_, err := Run(context.Background(), o)
		var e *exit.Error
		if exit.CodeOf(err) == exit.NoDevice && c.want != exit.NoDevice {
			t.Skip("skipped: no device: ", err)
		}
		if !errors.As(err, &e) || e.Code != c.want || !strings.Contains(e.Fix, c.fix) {
			t.Errorf("%s: %v, want exit %d with %q", name, err, c.want, c.fix)
		}
	}
}

// TestPasses checks that the list is that of the compiler, with the reasons of its order.
func TestPasses(t *testing.T) {
	var b strings.Builder
	list := Passes()
	if err := list.Sections().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(b.String(), "\n"); lines != len(pass.List)+1 || len(list) != len(pass.List) {
		t.Errorf("%d lines, %d passes, want %d", lines, len(list), len(pass.List))
	}
	reasons := 0
	for i, p := range list {
		reasons += len(p.After)
		if p.Name != pass.List[i].Name || p.Absence != pass.List[i].Absence.String() || p.Purpose == "" {
			t.Errorf("pass %d: %+v", i, p)
		}
	}
	if reasons != len(pass.Order) {
		t.Errorf("%d reasons, the compiler has %d", reasons, len(pass.Order))
	}
}
