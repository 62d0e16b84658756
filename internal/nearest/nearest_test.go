package nearest

import "testing"

func TestFind(t *testing.T) {
	keys := []string{"epochs", "batch_size", "learning_rate", "loss", "seed"}
	for _, c := range []struct{ word, want, reason string }{
		{"batchsize", "batch_size", "one letter missing"},
		{"batch-size", "batch_size", "hyphen for underscore"},
		{"Epochs", "epochs", "case"},
		{"epcohs", "epochs", "two letters swapped"},
		{"sede", "seed", "short word, one swap"},
		{"members", "", "nothing near"},
		{"x", "", "too short to guess"},
		{"learning", "learning_rate", "begins so, alone"},
		{"lo", "", "too short for a beginning"},
	} {
		if got := Find(c.word, keys); got != c.want {
			t.Errorf("%s: Find(%q) = %q, want %q", c.reason, c.word, got, c.want)
		}
	}
}
