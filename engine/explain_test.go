package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func explained(t *testing.T, o engine.Options) *engine.Explanation {
	t.Helper()
	e, err := engine.Explain(unet(t, 2, 1), o, engine.Peaks{FLOPs: 100e9, Bytes: 10e9})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestExplainPasses verifies that there is one report before the first pass and
// one after every pass, that fusion keeps the FLOPs and lowers the traffic, and
// that the last report matches the plan.
func TestExplainPasses(t *testing.T) {
	e := explained(t, engine.Options{Device: engine.Device{Backend: "ref"}})
	var names []string
	by := map[string]engine.PassReport{}
	for i, s := range e.PassReports {
		names = append(names, s.Pass)
		by[s.Pass] = s
		if err := s.Graph.Check(); err != nil {
			t.Errorf("the graph after %q: %v", s.Pass, err)
		}
		if s.LiveBytes <= 0 || s.LiveBytes > s.ArenaBytes {
			t.Errorf("after %q: %d bytes alive, arena of %d", s.Pass, s.LiveBytes, s.ArenaBytes)
		}
		if i > 0 && s.Purpose == "" {
			t.Errorf("%s has no purpose", s.Pass)
		}
		if i == 0 {
			continue
		}
		for _, c := range s.Changes {
			before, after := count(e.PassReports[i-1].Graph, c.Name), count(s.Graph, c.Name)
			if after-before != c.Added-c.Removed {
				t.Errorf("%s: %+v, but there were %d and are %d", s.Pass, c, before, after)
			}
		}
	}
	want := []string{""}
	for _, p := range pass.List {
		want = append(want, p.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("stages %q, want %q", names, want)
	}
	before, fused := by["absorb-broadcasts"], by["fuse"]
	// the gradient of the skip that is an input is no longer computed
	if less := float64(before.FLOPs-fused.FLOPs) / float64(before.FLOPs); less <= 0 || less > 0.1 || fused.Bytes >= before.Bytes || fused.Dead == 0 || fused.Matches != 5 {
		t.Errorf("fuse: %d → %d FLOPs, %d → %d bytes, %d dead, %d matches; want a little less work, fewer bytes, 5 matches",
			before.FLOPs, fused.FLOPs, before.Bytes, fused.Bytes, fused.Dead, fused.Matches)
	}
	for _, part := range []string{"+3 conv3d_fused", "−3 conv3d", "−3 bias", "−2 relu"} {
		if !slices.Contains(strings.Split(fused.ChangesText(), ", "), part) {
			t.Errorf("fuse changed %q, which lacks %q", fused.ChangesText(), part)
		}
	}
	if dead := by["remove-dead"]; dead.Dead != 0 || len(dead.Changes) != 0 {
		t.Errorf("remove-dead left %d dead and changed %q", dead.Dead, dead.ChangesText())
	}
	last := e.PassReports[len(e.PassReports)-1]
	if last.Ops != len(e.Ops) || last.FLOPs != e.FLOPs || last.Bytes != e.Bytes || last.LiveBytes != e.LiveBytes || last.ArenaBytes != e.ArenaBytes {
		t.Errorf("after the last pass %d operations, %d FLOPs, %d bytes, %d alive, arena %d; the plan has %d, %d, %d, %d, %d",
			last.Ops, last.FLOPs, last.Bytes, last.LiveBytes, last.ArenaBytes, len(e.Ops), e.FLOPs, e.Bytes, e.LiveBytes, e.ArenaBytes)
	}
}

// count counts the live values of a kind.
func count(g *graph.Graph, name string) int {
	n := 0
	need := g.Needed(g.Roots())
	for _, nd := range g.Nodes {
		if need[nd.ID] && (nd.Kind == graph.KindConst && name == "const" || nd.Kind == graph.KindOp && nd.Op.Name == name) {
			n++
		}
	}
	return n
}

// TestExplainPlan verifies that the sums over operations and classes agree,
// that buffers lie in the arena, that buffers alive at the same time do not
// overlap, and that results lie in buffers.
func TestExplainPlan(t *testing.T) {
	for _, mode := range []engine.Mode{engine.Train, engine.Infer} {
		e := explained(t, engine.Options{Device: engine.Device{Backend: "ref"}, Mode: mode})
		var sum engine.ClassSum
		for _, c := range e.Classes {
			sum.Ops += c.Ops
			sum.FLOPs += c.FLOPs
			sum.Bytes += c.Bytes
		}
		if sum.Ops != len(e.Ops) || sum.FLOPs != e.FLOPs || sum.Bytes != e.Bytes {
			t.Errorf("mode %d: classes sum to %+v, the plan to %d operations, %d FLOPs, %d bytes", mode, sum, len(e.Ops), e.FLOPs, e.Bytes)
		}
		for i, b := range e.Buffers {
			if b.Offset < 0 || b.Offset+b.Size > e.ArenaBytes || b.First > b.Last {
				t.Errorf("mode %d: buffer %+v, arena of %d bytes", mode, b, e.ArenaBytes)
			}
			for _, c := range e.Buffers[:i] {
				if b.First <= c.Last && c.First <= b.Last && b.Offset < c.Offset+c.Size && c.Offset < b.Offset+b.Size {
					t.Errorf("mode %d: %+v and %+v overlap", mode, b, c)
				}
			}
		}
		backward := false
		for i, o := range e.Ops {
			backward = backward || o.Backward
			inside := func(b engine.Buffer) bool { return b.Offset == o.Offset && b.First <= i && i <= b.Last }
			if o.Where == "arena" && !slices.ContainsFunc(e.Buffers, inside) {
				t.Errorf("mode %d: the result of operation %d %s at %d lies in no buffer", mode, i, o.Op, o.Offset)
			}
		}
		if backward != (mode == engine.Train) {
			t.Errorf("mode %d: backward operations: %v", mode, backward)
		}
	}
}

// TestExplainErrors verifies that Explain rejects what Compile rejects.
func TestExplainErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		o    engine.Options
		want exit.Code
	}{
		{"unknown backend", engine.Options{Device: engine.Device{Backend: "abacus"}}, exit.Usage},
		{"budget", engine.Options{Device: engine.Device{Backend: "ref"}, Memory: engine.Memory{Limit: 1}}, exit.NoDevice},
		{"threads", engine.Options{Device: engine.Device{Threads: -1}}, exit.Usage},
	} {
		if _, err := engine.Explain(unet(t, 1, 1), c.o, engine.Peaks{}); exit.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want exit %d", c.name, err, c.want)
		}
	}
}

// TestPassSections verifies that the table names every pass and is followed by
// the changes of the pass fuse.
func TestPassSections(t *testing.T) {
	var b strings.Builder
	if err := explained(t, engine.Options{Device: engine.Device{Backend: "ref"}}).PassSections().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(as built)", "plan-memory", "\nfuse ", "+3 conv3d_fused"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}
