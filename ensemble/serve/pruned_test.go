package serve

import (
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
)

// TestForgettable: a pruned initialisation leaves the list after 30 days, unless the service would make it again.
func TestForgettable(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	o := Options{}
	o.Predict.Clock.Time = func() time.Time { return now }
	u := &issuer{state: newState(o), resident: &predict.Service{}}
	pruned := map[string]time.Time{"2025120100": now.AddDate(0, 0, -31), "2025120112": now.AddDate(0, 0, -31), "2025120200": now.AddDate(0, 0, -29)}
	candidate := func(init time.Time) predict.Candidate { return predict.Candidate{Init: ensemble.InitAt(init)} }
	for _, c := range []struct {
		name   string
		maxAge time.Duration
		starts []predict.Candidate
		want   []string
	}{
		{"no input, which may come back", 0, nil, nil},
		{"no input, and one too old for it", 90*24*time.Hour - 6*time.Hour, nil, []string{"2025120100"}},
		{"no input, and all too old for it", 48 * time.Hour, nil, []string{"2025120100", "2025120112"}},
		{"other input", 0, []predict.Candidate{candidate(now)}, []string{"2025120100", "2025120112"}},
		{"its input exists", 0, []predict.Candidate{candidate(now), candidate(time.Date(2025, 12, 1, 12, 0, 0, 0, time.UTC))}, []string{"2025120100"}},
	} {
		u.o.Service.MaxAge = c.maxAge
		got := u.forgettable(pruned, c.starts)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
