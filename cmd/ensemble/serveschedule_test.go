package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
	"github.com/ensemble-weather/ensemble/io/product"
)

// scheduled is a service in this process, by a clock that the test sets.
type scheduled struct {
	*trial
	clock  atomic.Int64
	client http.Client
	mu     sync.Mutex
	log    bytes.Buffer
}

func (s *scheduled) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(text)
}

// startScheduled starts a service with further settings; in and out are folders of the trial.
func startScheduled(t *testing.T, at time.Time, set ...string) *scheduled {
	t.Helper()
	return startScheduledOn(t, "cpu", at, set...)
}

// startScheduledOn starts a service on a device.
func startScheduledOn(t *testing.T, device string, at time.Time, set ...string) *scheduled {
	t.Helper()
	return faulty(t).startServing(device, at, set...)
}

// startServing starts a service of the trial's run.
func (t *trial) startServing(device string, at time.Time, set ...string) *scheduled {
	t.Helper()
	s := &scheduled{trial: t}
	s.clock.Store(at.Unix())
	s.serveWith(predict.Options{Device: device}, set...)
	return s
}

// serveWith starts the service with options and further settings. stop ends it, so that it can be started again.
func (s *scheduled) serveWith(p predict.Options, set ...string) (stop func()) {
	s.Helper()
	in, out, socket := filepath.Join(s.dir, "in"), filepath.Join(s.dir, "out"), filepath.Join(s.dir, "s")
	if err := os.MkdirAll(in, 0o755); err != nil {
		s.Fatal(err)
	}
	c, err := config.LoadPredict(config.Sources{Set: append([]string{"members.poll=0.03s"}, append(set, fmt.Sprintf("serve.listen=[%q]", "unix:"+socket))...)})
	if err == nil {
		err = c.CheckService()
	}
	if err != nil {
		s.Fatal(err)
	}
	p.RunDir, p.Input, p.Out, p.Policy, p.Publish, p.Threads = s.run, []string{in}, out, c.Policy, c.Publishing, 1
	p.Clock.Time = func() time.Time { return time.Unix(s.clock.Load(), 0).UTC() }
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve.Serve(ctx, serve.Options{Service: c.Serve, Predict: p}, serve.Signals{}, slog.New(slog.NewJSONHandler(s, nil)))
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	s.Cleanup(stop)
	s.client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	return stop
}

// get returns the body of a response; "" if the service does not listen yet.
func (s *scheduled) get(path string) string {
	s.Helper()
	r, err := s.client.Get("http://localhost" + path)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// await waits until an initialisation has a state for a reason.
func (s *scheduled) await(init time.Time, state, why string) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("%s is %s: %s", name(init), state, why), func() bool {
		var status serve.Status
		if json.Unmarshal([]byte(s.get("/status")), &status) != nil || status.Schema != "ensemble.status/1" {
			return false
		}
		for _, i := range status.Inits {
			if i.Name == name(init) {
				return i.State == state && strings.Contains(i.Why, why)
			}
		}
		return state == ""
	})
}

// at sets the clock to a time after lastDay.
func (s *scheduled) at(days int, clock time.Duration) time.Time {
	day := lastDay.AddDate(0, 0, days)
	s.clock.Store(day.Add(clock).Unix())
	return day
}

// TestServeSchedule: by a schedule each initialisation has a state at any time, with the reason, also if nothing came.
func TestServeSchedule(t *testing.T) {
	s := startScheduled(t, lastDay.Add(3*time.Hour), "serve.schedule.cycles=[00]", "serve.schedule.expected=init+6h40m", "members.deadline=init+6h30m", "members.on_missing=degrade")
	arrive := func(init time.Time, members int) {
		s.put("in/"+name(init)+fmt.Sprint(members)+".grib2", join(without(cycle(init), func(m testgrib.Message) bool { return m.Member >= members })...))
	}
	s.await(lastDay, "", "") // before the first start of the service nothing was expected
	arrive(lastDay, 4)
	s.await(lastDay, "issued", "")

	day := s.at(1, time.Hour)
	s.await(day, "expected", "no file of it has arrived")
	arrive(day, 2)
	s.await(day, "waiting", "member 2")
	s.at(1, 6*time.Hour+35*time.Minute)
	s.await(day, "degraded", "2 of 3 members are complete; missing: 2")

	day = s.at(2, 6*time.Hour+39*time.Minute)
	s.await(day, "expected", "")
	s.at(2, 7*time.Hour)
	s.await(day, "late", "20m late: no file of it has arrived")
	if metrics := s.get("/metrics"); !strings.Contains(metrics, `ensemble_init_states{state="late"} 1`) || !strings.Contains(metrics, "ensemble_lateness_seconds 1200\n") {
		t.Errorf("metrics of a late one:\n%s", metrics)
	}
	eventually(t, "the log names the late one", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.log.String(), `"msg":"an initialisation is late","init":"`+name(day))
	})
	arrive(day, 4)
	s.await(day, "issued", "")
	if metrics := s.get("/metrics"); !strings.Contains(metrics, `ensemble_init_states{state="late"} 0`) || !strings.Contains(metrics, "ensemble_lateness_seconds 0\n") {
		t.Errorf("metrics after it came:\n%s", metrics)
	}

	// Products of another model stay.
	next := day.AddDate(0, 0, 1)
	m, err := product.ReadManifest(filepath.Join(s.dir, "out", name(day)))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(s.dir, "out", name(next))
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	m.ModelChecksum = "sha256:0"
	if err := manifest.Write(other, m); err != nil {
		t.Fatal(err)
	}
	day = s.at(3, time.Hour)
	arrive(day, 4)
	s.await(day, "kept", "another model or version")

	// Too few members at the deadline, and damage before it.
	day = s.at(4, time.Hour)
	arrive(day, 1)
	s.await(day, "waiting", "")
	s.at(4, 8*time.Hour)
	s.await(day, "failed", "1 members are complete, the model was trained for 2 to 3")
	page := s.get("/")
	if headline, notice := strings.Index(page, `<p class="state failed">`), strings.Index(page, "1 members are complete"); headline < 0 || notice < headline || strings.Index(page, "<dl") < notice {
		t.Errorf("the page does not begin with the failed one: %s", page)
	}

	// An hour that the schedule lacks is issued as others, with a warning.
	odd := day.Add(6 * time.Hour)
	arrive(odd, 4)
	arrive(odd.AddDate(0, 0, -1), 4)
	const why = "06:00 UTC is not in serve.schedule.cycles [00]"
	s.await(odd, "issued", why)
	s.await(odd.AddDate(0, 0, -1), "issued", why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := strings.Count(s.log.String(), `"msg":"an initialisation is not in the schedule"`); n != 1 || !strings.Contains(s.log.String(), why) {
		t.Errorf("%d warnings of one hour that the schedule lacks:\n%s", n, s.log.String())
	}
}
