package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/serve"
)

// TestFault31Clock: the clock of a running service jumps forwards by a day, and back by hours. Products are published and
// delivered once, what was published while the clock was ahead is not the newest afterwards, and an attempt that is pending
// is not put off.
func TestFault31Clock(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	s := startScheduled(t, lastDay.Add(8*time.Hour), "serve.max_age=24h", "serve.retry_delay=0.5s", fmt.Sprintf(`serve.on_issue.command=[/bin/sh, -c, "cat > /dev/null; echo >> %s"]`, calls))
	newest := func(day time.Time, future string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s is the newest, %q is in the future", name(day), future), func() bool {
			var status serve.Status
			return json.Unmarshal([]byte(s.get("/status")), &status) == nil && status.Newest != nil && status.Newest.Name == name(day) && strings.Join(status.Future, " ") == future
		})
	}
	delivered := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprint(n, " deliveries"), func() bool { text, _ := os.ReadFile(calls); return len(text) == n })
	}
	s.put("in/0.grib2", join(cycle(lastDay)...))
	s.await(lastDay, "issued", "")
	delivered(1)
	dir := filepath.Join(s.dir, "out", name(lastDay))
	before := folder(t, filepath.Dir(dir), name(lastDay))

	next := s.at(1, 8*time.Hour) // a day ahead: the first one is older than serve.max_age
	s.put("in/1.grib2", join(cycle(next)...))
	s.await(next, "issued", "")
	newest(next, "")
	delivered(2)

	s.at(0, 8*time.Hour)
	s.await(next, "kept", "in the future")
	newest(lastDay, name(next))
	s.at(0, -30*time.Minute) // before the initialisation itself, less than serve.max_future
	newest(lastDay, name(next))
	obstacle := s.put("out/"+name(lastDay.AddDate(0, 0, -1)), []byte("in the way"))
	s.put("in/2.grib2", join(cycle(lastDay.AddDate(0, 0, -1))...))
	s.await(lastDay.AddDate(0, 0, -1), "failed", "not a directory")
	s.at(0, -90*time.Minute)
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	s.await(lastDay.AddDate(0, 0, -1), "issued", "")
	delivered(3)

	s.at(1, 8*time.Hour) // the days pass
	s.await(next, "issued", "")
	s.at(1, time.Minute-time.Hour*1)
	s.await(lastDay, "issued", "")
	newest(next, "")
	if after := folder(t, filepath.Dir(dir), name(lastDay)); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("products were published again")
	}
	delivered(3)
}
