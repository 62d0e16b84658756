package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// alertSamples are the values of the metrics of the alert rules, by series and step.
type alertSamples struct {
	steps  int
	series map[string][]string
}

// alertFor lists the alert rules of the service with the time for which a condition must hold. Those on free space are left out:
// the samples would be those of the disk of the machine.
var alertFor = map[string]time.Duration{"EnsembleDown": 5 * time.Minute, "EnsembleNotReady": 10 * time.Minute, "EnsembleNoNewProducts": 10 * time.Minute, "EnsembleLate": 5 * time.Minute,
	"EnsembleFailed": 15 * time.Minute, "EnsembleDegraded": 15 * time.Minute, "EnsembleInputChanged": 5 * time.Minute, "EnsembleUndelivered": 15 * time.Minute, "EnsembleDeliveryGivenUp": 5 * time.Minute,
	"EnsembleFallback": 5 * time.Minute, "EnsembleInputDrift": 5 * time.Minute, "EnsembleRollingAlarm": 5 * time.Minute, "EnsembleFutureInit": 5 * time.Minute, "EnsembleReloadRejected": 0}

// add adds the samples of one step. The time of promtool begins at zero, that of the samples at begin.
func (a *alertSamples) add(metrics string, begin time.Time) {
	if a.series == nil {
		a.series = map[string][]string{}
	}
	for _, line := range strings.Split(metrics, "\n") {
		name, value, ok := strings.Cut(line, " ")
		if !ok || !strings.HasPrefix(name, "ensemble_") || strings.HasPrefix(name, "ensemble_http") || strings.HasPrefix(name, "ensemble_output") || strings.Contains(name, "_bucket") {
			continue
		}
		if at, err := strconv.ParseFloat(value, 64); err == nil && strings.HasSuffix(name, "_timestamp_seconds") {
			value = fmt.Sprintf("%.0f", at-float64(begin.Unix()))
		}
		for len(a.series[name]) < a.steps {
			a.series[name] = append(a.series[name], "_")
		}
		a.series[name] = append(a.series[name], value)
	}
	a.steps++
}

// notation returns values in the notation of promtool, equal ones in succession as one word.
func notation(values []string) string {
	var out []string
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && values[i+n] == values[i] {
			n++
		}
		if values[i] == "_" {
			out = append(out, fmt.Sprintf("_x%d", n))
		} else {
			out = append(out, fmt.Sprintf("%s+0x%d", values[i], n-1))
		}
		i += n
	}
	return strings.Join(out, " ")
}

var (
	failureTime = regexp.MustCompile(`, time: ([0-9a-z]+),`)
	failureName = regexp.MustCompile(`alertname="([A-Za-z]+)"`)
)

// firing evaluates the shipped rules by promtool. It returns the steps at which each alert fires.
func (a *alertSamples) firing(t *testing.T) map[string][]bool {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("skipped: no promtool (scripts/setup.sh test installs it)")
	}
	rules, err := filepath.Abs("../../docs/ops/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const target = `job="ensemble",instance="forecast:8642"`
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 5m\ntests:\n  - interval: 5m\n    input_series:\n      - {series: 'up{%s}', values: '1+0x%d'}\n", rules, target, a.steps-1)
	for _, name := range slices.Sorted(maps.Keys(a.series)) {
		labelled := name + "{" + target + "}"
		if bare, labels, ok := strings.Cut(name, "{"); ok {
			labelled = bare + "{" + target + "," + labels
		}
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", labelled, notation(a.series[name]))
	}
	b.WriteString("    promql_expr_test:\n")
	for i := range a.steps {
		fmt.Fprintf(&b, "      - {expr: 'ALERTS{alertstate=\"firing\"}', eval_time: %dm}\n", i*5) // expects none: promtool prints those that fire
	}
	file := filepath.Join(t.TempDir(), "month.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	text, _ := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput() // ends with 1 if any fires
	if !strings.Contains(string(text), "FAILED:\n    expr") && !strings.Contains(string(text), "SUCCESS") {
		t.Fatalf("promtool: %.2000s", text)
	}
	out := map[string][]bool{}
	at := 0
	for _, line := range strings.Split(string(text), "\n") {
		if m := failureTime.FindStringSubmatch(line); m != nil {
			at = prometheusSteps(t, m[1])
		}
		for _, m := range failureName.FindAllStringSubmatch(line, -1) {
			if out[m[1]] == nil {
				out[m[1]] = make([]bool, a.steps)
			}
			out[m[1]][at] = true
		}
	}
	return out
}

// prometheusSteps parses a duration as Prometheus prints it, such as 1w2d3h5m, to a number of steps.
func prometheusSteps(t *testing.T, text string) int {
	t.Helper()
	units := map[byte]time.Duration{'w': 7 * 24 * time.Hour, 'd': 24 * time.Hour, 'h': time.Hour, 'm': time.Minute, 's': time.Second}
	var d time.Duration
	for text != "" {
		end := strings.IndexAny(text, "wdhms")
		n, err := strconv.Atoi(text[:max(end, 0)])
		if err != nil {
			t.Fatalf("duration %q: %v", text, err)
		}
		d += time.Duration(n) * units[text[end]]
		text = text[end+1:]
	}
	return int(d / monthStep)
}

// span is a range of steps, end excluded.
type span struct{ begin, end int }

// spans returns the ranges in which a condition holds, those less than four steps apart as one.
func spans(is []bool) (out []span) {
	for i, holds := range is {
		switch n := len(out); {
		case !holds:
		case n > 0 && i-out[n-1].end < 4:
			out[n-1].end = i + 1
		default:
			out = append(out, span{i, i + 1})
		}
	}
	return out
}

// alertCounts compares the alerts of one rule with those of the model.
type alertCounts struct{ due, raised, missing, false int }

// compareAlerts compares the ranges of a condition with those in which its alert fires. An alert whose condition holds for up to two
// steps longer or shorter than the rule demands may be raised or not.
func compareAlerts(conditions, firing []bool, hold time.Duration) (c alertCounts, wrong []span) {
	const slack = 3
	raised := spans(firing)
	c.raised = len(raised)
	possible := spans(conditions)
	meets := func(s span) func(span) bool {
		return func(x span) bool { return x.begin < s.end+slack && s.begin-slack < x.end }
	}
	for _, s := range possible {
		found := slices.ContainsFunc(raised, meets(s))
		if s.end-s.begin > int(hold/monthStep)+2 || found {
			c.due++
		}
		if s.end-s.begin > int(hold/monthStep)+2 && !found {
			c.missing++
			wrong = append(wrong, s)
		}
	}
	for _, s := range raised {
		if !slices.ContainsFunc(possible, meets(s)) {
			c.false++
			wrong = append(wrong, s)
		}
	}
	return c, wrong
}
