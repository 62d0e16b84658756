package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// prometheus is a Prometheus server that scrapes a service.
type prometheus struct {
	*testing.T
	url string
	log printed
}

// startPrometheus starts Prometheus with the shipped alert rules on a free port, with its own data folder. It scrapes
// and evaluates at an interval, such as 15s.
func startPrometheus(t *testing.T, target, interval string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("../../docs/ops/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}\nrule_files: [%[2]q]\nscrape_configs:\n  - {job_name: ensemble, static_configs: [{targets: [%[3]q]}]}\n", interval, rules, target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	at := freeAddress(t)
	p := &prometheus{T: t, url: "http://" + at}
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of Prometheus:\n%s", p.log.String())
		}
	})
	return p
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// sample is one result of a query.
type sample struct {
	Metric map[string]string
	Value  [2]any // time, value as text
}

// get reads the data of a response of the HTTP API; false if there is none.
func (p *prometheus) get(path string, data any) bool {
	p.Helper()
	r, err := http.Get(p.url + "/api/v1/" + path)
	if err != nil {
		return false // it does not listen yet
	}
	defer r.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return false
	}
	if answer.Error != "" {
		p.Errorf("%s: %s", path, answer.Error)
	}
	return answer.Status == "success"
}

// query returns the results of an instant query.
func (p *prometheus) query(expr string) []sample {
	p.Helper()
	var data struct{ Result []sample }
	if !p.get("query?query="+url.QueryEscape(expr), &data) {
		return nil
	}
	return data.Result
}

// await waits until a query has one result, with this value.
func (p *prometheus) await(expr, value string) {
	p.Helper()
	eventually(p.T, expr+" is "+value, func() bool {
		r := p.query(expr)
		return len(r) == 1 && r[0].Value[1] == value
	})
}

// TestPrometheus: Prometheus scrapes a running service. Queries return its values, every panel of the dashboard has
// data, and the alert rules are evaluated: a failure is pending until it is acknowledged.
func TestPrometheus(t *testing.T) {
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("skipped: no " + program + " (scripts/setup.sh test installs it)")
		}
	}
	f := faulty(t)
	in, out := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out")
	for _, dir := range []string{in, out} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.put("in/0.grib2", join(cycle(lastDay)...))
	next := lastDay.AddDate(0, 0, 1)
	f.put("out/"+name(next), []byte("in the way"))
	s := f.serve("--run-dir", f.run, "--out", out, "--input", in, "--set", "members.poll=0.03s")
	p := startPrometheus(t, strings.TrimPrefix(s.url, "http://"), "250ms")
	s.awaitInit(lastDay, "issued", "")

	_, text := s.get("/metrics")
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = bytes.NewReader(text)
	if said, err := check.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, said)
	}
	for expr, want := range map[string]string{
		`up{job="ensemble"}`:                                               "1",
		"ensemble_ready":                                                   "1",
		"ensemble_last_init_timestamp_seconds":                             fmt.Sprint(lastDay.Unix()),
		`ensemble_init_states{state="issued"}`:                             "1",
		`ensemble_inits_total{result="issued"}`:                            "1",
		"ensemble_fallback_in_use":                                         "0",
		"ensemble_members_complete":                                        "4",
		"ensemble_output_free_bytes < ensemble_output_size_bytes > bool 0": "1",
		"count(ensemble_model_info{checksum=~'sha256:[0-9a-f]+'})":         "1",
		"count(ensemble_init_failures_total)":                              "8",
	} {
		p.await(expr, want)
	}

	f.put("in/1.grib2", join(cycle(next)...))
	s.awaitInit(next, "failed", "")
	const pending = `ALERTS{alertname="EnsembleFailed"}`
	p.await(pending, "1")
	awaitSaved(t, out, func() []byte { _, body := s.get("/status"); return body })
	f.expect(0, nil, "products", "acknowledge", name(next), "--out", out)
	eventually(t, "the alert ends", func() bool { return p.get("status/buildinfo", nil) && len(p.query(pending)) == 0 })
	p.await(`ensemble_init_states{state="failed"}`, "1")

	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	eventually(t, "all rules are evaluated", func() bool {
		return p.get("rules", &rules) && len(rules.Groups) == 1 && len(rules.Groups[0].Rules) > 10 && rules.Groups[0].Rules[len(rules.Groups[0].Rules)-1].Health == "ok"
	})
	for _, r := range rules.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
		}
	}
	for _, expr := range dashboardExpressions(t) {
		eventually(t, "data for "+expr, func() bool { return len(p.query(expr)) > 0 })
	}
	s.stop(syscall.SIGTERM)
	p.await(`up{job="ensemble"}`, "0")
}

// dashboardExpressions returns the expressions of the Grafana dashboard for all services.
func dashboardExpressions(t *testing.T) (exprs []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/ops/grafana/ensemble.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, x := range p.Targets {
			exprs = append(exprs, strings.ReplaceAll(x.Expr, "$instance", ".*"))
		}
	}
	return exprs
}
