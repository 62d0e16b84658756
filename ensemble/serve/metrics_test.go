package serve

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/io/product"
)

// parser reads the text with Prometheus's own library for Python.
const parser = `
import json, sys
from prometheus_client.parser import text_string_to_metric_families as parse
print(json.dumps([[f.name, f.type, f.documentation, [[s.name, s.labels, repr(float(s.value))] for s in f.samples]] for f in parse(sys.stdin.read())]))
`

// TestMetricsText: an independent parser reads the counted values from the metrics.
func TestMetricsText(t *testing.T) {
	python := testdata.Python(t, "prometheus_client")
	const odd = "a \"b\" \\ c\nd"
	m := newMetrics(odd)
	m.model.loaded(predict.ModelDescription{Finished: time.Unix(1700000000, 0)})
	c := &initProducts{name: "2026010100", manifest: &product.Manifest{MembersExpected: 5}}
	m.issued(c, &predict.Result{}, time.Now().Add(-3*time.Second), time.Now())
	m.issued(c, &predict.Result{Existing: 1}, time.Now(), time.Now())
	m.products.lastInit.set(unixSeconds(initOf(c.name)))
	m.products.membersExpected.set(float64(c.manifest.MembersExpected))
	m.failures.add(2, "66")
	m.states.inits.set(3, waiting)
	m.unread.set(4)
	for _, s := range []float64{0.0005, 0.001, 0.3, 1000} {
		m.requestTime.observe(s)
	}
	cmd := exec.Command(python, "-c", parser)
	cmd.Stdin = bytes.NewReader(m.text(7))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the text cannot be parsed: %v\n%s", err, m.text(7))
	}
	var families [][4]json.RawMessage
	if err := json.Unmarshal(out, &families); err != nil {
		t.Fatal(err)
	}
	values, kinds := map[string]string{}, map[string]string{}
	for _, f := range families {
		var name, kind, help string
		var samples [][3]json.RawMessage
		for i, to := range []any{&name, &kind, &help, &samples} {
			if err := json.Unmarshal(f[i], to); err != nil {
				t.Fatal(err)
			}
		}
		if help == "" || kind == "unknown" {
			t.Errorf("%s has no help or type: %q %q", name, help, kind)
		}
		kinds[name] = kind
		for _, s := range samples {
			var sample, value string
			if json.Unmarshal(s[0], &sample) != nil || json.Unmarshal(s[2], &value) != nil {
				t.Fatalf("%s", s)
			}
			key := sample + string(s[1])
			if _, twice := values[key]; twice {
				t.Errorf("%s occurs twice", key)
			}
			values[key] = value
		}
	}
	label, err := json.Marshal(map[string]string{"version": odd})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"ensemble_build_info" + spaced(label):                          "1.0",
		"ensemble_model_ready{}":                                       "1.0",
		"ensemble_model_finished_timestamp_seconds{}":                  "1700000000.0",
		`ensemble_inits_total{"result": "issued"}`:                     "1.0",
		`ensemble_inits_total{"result": "existing"}`:                   "1.0",
		`ensemble_inits_total{"result": "degraded"}`:                   "0.0",
		`ensemble_init_failures_total{"code": "66"}`:                   "2.0",
		`ensemble_init_states{"state": "waiting"}`:                     "3.0",
		"ensemble_input_files_unreadable{}":                            "4.0",
		"ensemble_members_expected{}":                                  "5.0",
		"ensemble_http_connections{}":                                  "7.0",
		`ensemble_issue_duration_seconds_bucket{"le": "2.5"}`:          "0.0",
		`ensemble_issue_duration_seconds_bucket{"le": "5"}`:            "1.0",
		"ensemble_issue_duration_seconds_count{}":                      "1.0",
		`ensemble_http_request_duration_seconds_bucket{"le": "0.001"}`: "2.0",
		`ensemble_http_request_duration_seconds_bucket{"le": "0.5"}`:   "3.0",
		`ensemble_http_request_duration_seconds_bucket{"le": "60"}`:    "3.0",
		`ensemble_http_request_duration_seconds_bucket{"le": "+Inf"}`:  "4.0",
		"ensemble_http_request_duration_seconds_count{}":               "4.0",
		"ensemble_http_request_duration_seconds_sum{}":                 "1000.3015",
		"ensemble_last_init_timestamp_seconds{}":                       "1767225600.0",
	} {
		if values[key] != want {
			t.Errorf("%s is %s, want %s", key, values[key], want)
		}
	}
	for name, want := range map[string]string{"ensemble_inits": "counter", "ensemble_issue_duration_seconds": "histogram", "process_resident_memory_bytes": "gauge"} {
		if kinds[name] != want {
			t.Errorf("%s is a %q, want %s", name, kinds[name], want)
		}
	}
	if values["process_resident_memory_bytes{}"] == "0.0" || values["process_resident_memory_bytes{}"] == "" {
		t.Error("the memory is missing")
	}
}

// spaced formats an object of one key like Python.
func spaced(object []byte) string {
	return string(bytes.Replace(object, []byte(`":"`), []byte(`": "`), 1))
}

// TestMetricsDocumented: docs/operations.md lists every metric of this program.
func TestMetricsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(newMetrics("1").text(7))) {
		f := strings.Fields(line)
		if f[0] != "#" || f[1] != "TYPE" || !strings.HasPrefix(f[2], "ensemble_") {
			continue
		}
		if n++; !bytes.Contains(doc, []byte("`"+f[2]+"`")) && !bytes.Contains(doc, []byte("`"+f[2]+"{")) {
			t.Errorf("%s is not in docs/operations.md", f[2])
		}
	}
	if n < 15 {
		t.Errorf("%d metrics", n)
	}
}
