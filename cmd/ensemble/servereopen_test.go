package main

import (
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestServeReopens: a service that starts while its device has no memory left issues the fallback, tries to open the
// network again, and issues forecasts of the network when the device has memory, without a reload.
func TestServeReopens(t *testing.T) {
	var attempts atomic.Int32
	var free atomic.Bool
	all := engine.Backends
	t.Cleanup(func() { engine.Backends = all })
	engine.Backends = append(slices.Clone(all), engine.Backend{Name: "busy", Open: func(o engine.Options) (backend.Backend, error) {
		if attempts.Add(1); !free.Load() {
			return nil, &exit.Error{Code: exit.NoDevice, What: "the memory of the device does not suffice", Fix: "end other programs"}
		}
		return all[0].Open(o)
	}})
	s := startScheduledOn(t, "busy", lastDay.Add(3*time.Hour), "on_failure=fallback", "fallback=[raw]")
	s.put("in/0.grib2", join(cycle(lastDay)...))
	s.await(lastDay, "degraded", "the memory of the device does not suffice")
	eventually(t, "the network is tried again", func() bool { return attempts.Load() >= 4 })
	free.Store(true)
	eventually(t, "the network is open", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Count(s.log.String(), `"msg":"the model is ready"`) == 2
	})
	opened := attempts.Load()
	next := s.at(1, 3*time.Hour)
	s.put("in/1.grib2", join(cycle(next)...))
	s.await(next, "issued", "")
	var manifest struct{ Fallback string }
	if err := json.Unmarshal([]byte(s.get("/products/"+name(next)+"/manifest.json")), &manifest); err != nil || manifest.Fallback != "" {
		t.Errorf("with the network: fallback %q, %v", manifest.Fallback, err)
	}
	s.await(lastDay, "degraded", "") // products of the fallback stay
	if n := attempts.Load(); n != opened {
		t.Errorf("an open network was opened %d more times", n-opened)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if log := s.log.String(); strings.Count(log, `"msg":"the network cannot be opened and is tried again later`) < 3 {
		t.Errorf("the log lacks the reasons:\n%s", log)
	}
}
