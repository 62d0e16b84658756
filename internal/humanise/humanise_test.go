package humanise_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/humanise"
)

func TestPhrases(t *testing.T) {
	for n, want := range map[int]string{0: "0 ranks", 1: "1 rank", 12: "12 ranks"} {
		if got := humanise.Count(n, "rank"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
	for one, want := range map[string]string{"batch": "2 batches", "epoch": "2 epochs", "process": "2 processes"} {
		if got := humanise.Count(2, one); got != want {
			t.Errorf("%s: %q", one, got)
		}
	}
	for want, words := range map[string][]string{"": nil, "1": {"1"}, "1 and 3": {"1", "3"}, "1, 3 and 4": {"1", "3", "4"}} {
		if got := humanise.And(words); got != want {
			t.Errorf("%q: %q", words, got)
		}
	}
	if got := humanise.Strings([]time.Duration{time.Second, time.Hour}); !slices.Equal(got, []string{"1s", "1h0m0s"}) {
		t.Error(got)
	}
}
