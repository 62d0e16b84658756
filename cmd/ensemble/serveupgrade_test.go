package main

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestServeUpgrade: another version of the program leaves the products of the old one, makes the next ones, and remakes one
// that an operator accepts; after the roll back its own stay in turn.
func TestServeUpgrade(t *testing.T) {
	s := &scheduled{trial: faulty(t)}
	s.at(0, 3*time.Hour)
	out := filepath.Join(s.dir, "out")
	stop := s.serveWith(predict.Options{Version: "1.0"})
	s.put("in/0.grib2", join(cycle(lastDay)...))
	s.await(lastDay, "issued", "")
	old := tree(t, out)

	stop()
	stop = s.serveWith(predict.Options{Version: "2.0"})
	s.await(lastDay, "kept", "products of another model or version exist and stay")
	next := s.at(1, 3*time.Hour)
	s.put("in/1.grib2", join(cycle(next)...))
	s.await(next, "issued", "")
	now := tree(t, out)
	maps.DeleteFunc(now, func(path, _ string) bool { return strings.HasPrefix(path, "/"+name(next)) })
	if !maps.Equal(now, old) {
		t.Error("the other version changed existing products")
	}
	s.awaitMetrics("ensemble_changed_inits 0")
	s.decide(exit.OK, "", "accept", lastDay)
	s.await(lastDay, "issued", "")
	if text := s.get("/products/" + name(lastDay) + "/manifest.json"); !strings.Contains(text, `"version": "2.0"`) {
		t.Errorf("accepted, and the manifest is\n%s", text)
	}

	stop()
	stop = s.serveWith(predict.Options{Version: "1.0"})
	s.await(next, "kept", "products of another model or version exist and stay")
	later := s.at(2, 3*time.Hour)
	s.put("in/2.grib2", join(cycle(later)...))
	s.await(later, "issued", "")
	stop()
}
