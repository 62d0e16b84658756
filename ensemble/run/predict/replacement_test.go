package predict

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

func TestReplacementText(t *testing.T) {
	type m = []ensemble.Member
	for _, c := range []struct {
		instead, missing m
		want             string
	}{
		{m{6, 8}, m{1, 3}, "members 6 and 8 replace 1 and 3"},
		{m{6}, m{1}, "member 6 replaces 1"},
		{m{6}, m{1, 3}, "member 6 replaces 1"},
		{m{6}, nil, "member 6 replaces the excluded control"},
		{m{6, 8, 9}, m{1, 3}, "members 6, 8 and 9 replace the excluded control, 1 and 3"},
	} {
		if got := replacementText(c.instead, c.missing); got != c.want {
			t.Errorf("%v for %v: %q, want %q", c.instead, c.missing, got, c.want)
		}
	}
}
