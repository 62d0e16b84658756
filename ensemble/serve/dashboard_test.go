package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const dashboardFile = "../../docs/ops/grafana/ensemble.json"

// dashboard is what the tests read of the dashboard.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name string }
	}
	Panels []struct {
		ID                       int
		Title, Description, Type string
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct{ RefID, Expr string }
	}
}

// readDashboard returns the dashboard and its expressions, with the variable of the service replaced.
func readDashboard(t *testing.T) (d dashboard, exprs []string) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, x := range p.Targets {
			exprs = append(exprs, strings.ReplaceAll(x.Expr, "$instance", ".*"))
		}
	}
	return d, exprs
}

// TestDashboard: panels have titles, descriptions and places of their own. Expressions use only metrics of the program,
// and only variables that the dashboard has.
func TestDashboard(t *testing.T) {
	d, exprs := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 || len(d.Panels) < 8 {
		t.Errorf("title %q, uid %q, schema %d, %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.Title == "" || p.Description == "" || ids[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %d %q: description %q, %d targets, or its id occurs twice", p.ID, p.Title, p.Description, len(p.Targets))
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("panel %q: place %+v in 24 columns", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("panels %q and %q overlap", other, p.Title)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
	variables := map[string]bool{}
	for _, v := range d.Templating.List {
		variables["$"+v.Name], variables["${"+v.Name+"}"] = true, true
	}
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range regexp.MustCompile(`\$\{?[a-z]+\}?`).FindAllString(string(text), -1) {
		if !variables[v] {
			t.Errorf("unknown variable %s", v)
		}
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(newMetrics("1").text(0))) {
		if f := strings.Fields(line); f[0] == "#" && f[1] == "TYPE" {
			names[f[2]] = true
			if f[3] == "histogram" {
				names[f[2]+"_bucket"] = true
			}
		}
	}
	shown := map[string]bool{}
	for _, e := range exprs {
		for _, name := range regexp.MustCompile(`\bensemble_[a-z_]+`).FindAllString(e, -1) {
			if shown[name] = true; !names[name] {
				t.Errorf("%s of %s is no metric of the program", name, e)
			}
		}
	}
	for _, want := range []string{"ensemble_last_init_timestamp_seconds", "ensemble_lateness_seconds", "ensemble_init_states", "ensemble_unacknowledged_inits", "ensemble_changed_inits", "ensemble_hook_undelivered", "ensemble_input_drift_score",
		"ensemble_fallback_in_use", "ensemble_rolling_alarms", "ensemble_output_free_bytes", "ensemble_http_request_duration_seconds_bucket", "ensemble_model_info"} {
		if !shown[want] {
			t.Errorf("no panel shows %s", want)
		}
	}
}

// TestDashboardExpressions: Prometheus parses every expression of the dashboard.
func TestDashboardExpressions(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("skipped: no promtool (scripts/setup.sh test installs it)")
	}
	_, exprs := readDashboard(t)
	check := func(exprs ...string) error {
		t.Helper()
		var rules strings.Builder
		rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
		for i, e := range exprs {
			fmt.Fprintf(&rules, "  - {record: 'panel%d', expr: '%s'}\n", i, strings.ReplaceAll(e, "'", "''"))
		}
		path := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(path, []byte(rules.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("promtool", "check", "rules", path).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := check(exprs...); err != nil {
		t.Error(err)
	}
	if check(exprs[0]+" +") == nil {
		t.Error("promtool accepts an expression that ends too early")
	}
}
