package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestServeFutureInit: an initialisation in the future is not issued, but named with the reason. Others are issued, at
// their deadline after the initialisation if they are incomplete.
func TestServeFutureInit(t *testing.T) {
	f := faulty(t)
	in, out := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	future := time.Now().UTC().AddDate(0, 0, 3).Truncate(24 * time.Hour)
	path := f.put("in/future.grib2", join(cycle(future)...))
	few := cycle(lastDay)[:0:0]
	for _, m := range cycle(lastDay) {
		if m.Member < 2 {
			few = append(few, m)
		}
	}
	f.put("in/few.grib2", join(few...))
	s := f.serve("--run-dir", f.run, "--out", out, "--input", in, "--set", "members.poll=0.03s", "--set", "members.on_missing=degrade", "--set", "members.deadline=init+6h40m")
	s.awaitLog(`"msg":"issued"`, 1)
	s.awaitLog("days in the future", 1)
	var status struct {
		Newest struct{ Name, Status string }
		Inits  []struct{ Name, State, Why, Deadline string }
	}
	eventually(t, "both states", func() bool {
		_, body := s.get("/status")
		return json.Unmarshal(body, &status) == nil && len(status.Inits) == 2 && status.Inits[0].State == "failed" && status.Inits[1].State == "degraded"
	})
	if i := status.Inits[0]; i.Name != name(future) || !strings.Contains(i.Why, "days in the future") {
		t.Errorf("the future one: %+v", i)
	}
	if d := status.Inits[1].Deadline; status.Newest.Name != name(lastDay) || status.Newest.Status != "degraded" || d != lastDay.Add(6*time.Hour+40*time.Minute).Format(time.RFC3339) {
		t.Errorf("%+v, deadline %s", status.Newest, d)
	}
	s.stop(syscall.SIGTERM)
	// predict continues with a warning.
	f.predict(exit.OK, []string{"days in the future"}, path)
}

// TestDeadlineOfInit: a deadline that counts from the initialisation needs one, and may be over at once.
func TestDeadlineOfInit(t *testing.T) {
	f := faulty(t)
	path := f.put("fc.grib2", join(cycle(lastDay)...))
	for _, deadline := range []string{"init+6h40m", "06:40Z"} {
		f.predict(exit.Usage, []string{"without an initialisation", "--init"}, "--deadline", deadline, path)
		f.predict(exit.OK, []string{"1 initialisation"}, "--deadline", deadline, "--init", name(lastDay), path)
	}
}
