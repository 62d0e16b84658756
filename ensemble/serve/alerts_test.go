package serve

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const alertsDir = "../../docs/ops/prometheus"

// TestAlertMetrics: the metrics of the alert rules are there, with their labels, before anything has happened.
func TestAlertMetrics(t *testing.T) {
	rules, err := os.ReadFile(alertsDir + "/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	have := strings.Split(string(newMetrics("").text(0)), "\n")
	series := regexp.MustCompile(`ensemble_[a-z_]+(\{[^}]*\})?`).FindAllString(string(rules), -1)
	if len(series) < 7 {
		t.Fatalf("the rules have only the series %q", series)
	}
	for _, s := range series {
		if !slices.ContainsFunc(have, func(line string) bool { return strings.HasPrefix(line, s+" ") }) {
			t.Errorf("/metrics lacks %s", s)
		}
	}
}

// TestAlertRules: Prometheus accepts the metrics and the alert rules, and the rules raise what their tests state.
func TestAlertRules(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("skipped: no promtool (scripts/setup.sh test installs it)")
	}
	run := func(stdin []byte, args ...string) {
		cmd := exec.Command("promtool", args...)
		cmd.Dir, cmd.Stdin = alertsDir, bytes.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run(newMetrics("1.0").text(0), "check", "metrics")
	run(nil, "check", "rules", "alerts.yaml")
	run(nil, "test", "rules", "alerts_test.yaml")
}
