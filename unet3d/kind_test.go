package unet3d

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// kindRows are 2 samples of 2 members of 3 leads, if the kind reads them so, of 6 channels on 6×8 points.
const (
	kindMembers, kindLeads, kindChannels = 2, 3, 6
	kindH, kindW                         = 6, 8
)

func layoutOf(k *Kind) Layout {
	l := Layout{Base: max(k.BaseMultiple, 8), Stages: 1, Out: 2, Levels: SharedLevels, Recurrent: Recurrent{Stages: 1}, Axial: Axial{Blocks: 1, Window: 4}, LeadConditioned: true}
	if k.SingleField {
		l.Out, l.Spread = 1, SpreadChannels{Spreads: [][2]int{{0, 1}, {2, 3}}, Members: [][2]int{{1, 2}, {3, 4}}, Target: 1}
	}
	if k.PredictsMembers() {
		l.Members = kindMembers
	}
	if k.SpansLeads() {
		l.Leads = kindLeads
	}
	return l
}

// buildKind builds the graph of a kind, and returns the number of its rows.
func buildKind(k *Kind, l Layout) (*graph.Graph, int, error) {
	rows := 2 * max(l.Members, 1) * max(l.Leads, 1)
	b := graph.New(1)
	b.Output("y", k.Build(b, b.Input("x", graph.Shape{rows, kindChannels, 1, kindH, kindW}), l))
	g, err := b.Build()
	return g, rows, err
}

// TestKindsAreWhatTheySay: the properties in the table hold for the network: which points and leads
// affect a value, the number of output fields, and which layouts are refused.
func TestKindsAreWhatTheySay(t *testing.T) {
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) {
			l := layoutOf(k)
			g, rows, err := buildKind(k, l)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Mode: engine.Infer})
			if err != nil {
				t.Fatal(err)
			}
			defer plan.Close()
			random := rand.New(rand.NewPCG(1, 2))
			for i, v := range plan.Store().Params() {
				if v > -1e-3 && v < 1e-3 { // layers initialised at or near 0 would hide their input
					plan.Store().Params()[i] = 0.2 * float32(random.NormFloat64())
				}
			}
			x := make([]float32, rows*kindChannels*kindH*kindW)
			for i := range x {
				x[i] = float32(random.NormFloat64())
			}
			run := func() []float32 {
				copy(plan.Input("x"), x)
				if err := plan.Run(context.Background(), 0); err != nil {
					t.Fatal(err)
				}
				return append([]float32(nil), plan.Output("y")...)
			}
			before := run()
			if want := rows * l.Out * kindH * kindW; len(before) != want {
				t.Fatalf("%d values, want %d", len(before), want)
			}
			// The first row changes at one point.
			const point = 2*kindW + 3
			for c := range kindChannels {
				x[c*kindH*kindW+point] += 1
			}
			after := run()
			changed := func(row int, besides bool) (any bool) {
				for i := range l.Out * kindH * kindW {
					at := row*l.Out*kindH*kindW + i
					any = any || before[at] != after[at] && !(besides && i%(kindH*kindW) == point)
				}
				return any
			}
			if !changed(0, false) {
				t.Error("the row does not reach its own result")
			}
			if got := changed(0, true); got == k.Pointwise {
				t.Errorf("other points change: %v, by point: %v", got, k.Pointwise)
			}
			if got := rows > 1 && changed(1, false); l.Leads > 1 && got != k.SpansLeads() {
				t.Errorf("the next lead changes: %v, over time: %v", got, k.SpansLeads())
			}
			if changed(rows/2, false) && !k.SingleField && !k.Baseline { // batch statistics join samples in training only
				t.Error("another sample changes")
			}
		})
	}
}

// TestRolesOfParameters: weight decay acts on filters and matrices only, not on biases, vectors, and scales of
// norms and heights of any shape.
func TestRolesOfParameters(t *testing.T) {
	decaying := 0
	for _, k := range Kinds {
		g, _, err := buildKind(k, layoutOf(k))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range g.Nodes {
			if n.Kind != graph.KindParam {
				continue
			}
			if strings.HasSuffix(n.Name, ".bias") && n.Role != graph.Bias && n.Role != graph.Local {
				t.Errorf("%s: %s %v has the role %s", k.Name, n.Name, n.Shape, n.Role)
			}
			if n.Role.Decays() && (len(n.Shape) < 2 || strings.Contains(n.Name, "norm.") || strings.HasSuffix(n.Name, ".factor") || strings.HasSuffix(n.Name, ".scale")) {
				t.Errorf("%s: %s %v decays", k.Name, n.Name, n.Shape)
			}
			if n.Role.Decays() {
				decaying++
			}
		}
	}
	if decaying < len(Kinds) {
		t.Errorf("%d parameters decay", decaying)
	}
}

// TestKindsRefuseLayouts: a layout that a kind does not support is refused, and a supported one is
// not.
func TestKindsRefuseLayouts(t *testing.T) {
	for _, k := range Kinds {
		l := layoutOf(k)
		l.Levels = FullLevels
		if _, _, err := buildKind(k, l); k.AnyLevels && err != nil {
			t.Errorf("%s with filters of each level: %v", k.Name, err)
		}
		if k.SpansLeads() {
			l = layoutOf(k)
			l.Condition = FiLM{Conditions: 1}
			g, _, err := buildKind(k, l)
			if err != nil {
				t.Fatal(err)
			}
			conditioned := false
			for _, n := range g.Nodes {
				conditioned = conditioned || strings.HasPrefix(n.Name, "condition.")
			}
			if conditioned == k.NoConditions {
				t.Errorf("%s has condition layers: %v, NoConditions is %v", k.Name, conditioned, k.NoConditions)
			}
		}
		if n := k.BaseMultiple; n > 0 {
			l = layoutOf(k)
			l.Base = n + 1
			if _, _, err := buildKind(k, l); err == nil {
				t.Errorf("%s of base %d is no multiple of %d, and was built", k.Name, n+1, n)
			}
		}
	}
}

// TestKindsAreDocumented: docs/networks.md lists every kind, and no name is used twice.
func TestKindsAreDocumented(t *testing.T) {
	const page = "../docs/networks.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, k := range Kinds {
		if seen[k.Name] || k.Doc == "" || k.Build == nil {
			t.Errorf("kind %q is listed twice, or has no description or network", k.Name)
		}
		seen[k.Name] = true
		if !strings.Contains(string(text), "`"+k.Name+"`") {
			t.Errorf("%s has no `%s`", page, k.Name)
		}
	}
	if KindByName("unet3d") != UNetKind || KindByName("") != nil {
		t.Error("KindNamed finds another kind")
	}
}
