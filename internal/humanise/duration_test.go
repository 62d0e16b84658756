package humanise_test

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/humanise"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 90 * time.Second: "1m30s", 5 * time.Minute: "5m", 3 * time.Hour: "3h", 14*time.Hour + 10*time.Minute + time.Second: "14h10m",
		47 * time.Hour: "47h", 50 * time.Hour: "2 days", 3400 * time.Hour: "142 days"} {
		if got := humanise.Duration(d); got != want {
			t.Errorf("%d is %q, want %q", d, got, want)
		}
	}
}
