package train

import (
	"maps"
	"testing"
)

// TestMergeChoices: of several choices that of the lowest rank counts, and the first operation with several is named. Choices of some
// ranks only, as for shards of other sizes, are kept.
func TestMergeChoices(t *testing.T) {
	for _, c := range []struct {
		all    []map[string]string
		want   map[string]string
		differ string
	}{
		{[]map[string]string{{"a": "x"}}, map[string]string{"a": "x"}, ""},
		{[]map[string]string{{"a": "x"}, nil, {"a": "x", "b": "y"}}, map[string]string{"a": "x", "b": "y"}, ""},
		{[]map[string]string{{"c": "u"}, {"a": "x", "b": "y", "c": "u"}, {"a": "x", "c": "w", "b": "z"}}, map[string]string{"a": "x", "b": "y", "c": "u"}, `rank 1 uses "y" and rank 2 "z" for b`},
	} {
		got, differ := mergeChoices(c.all)
		if !maps.Equal(got, c.want) || differ != c.differ {
			t.Errorf("%v: %v, %q; want %v, %q", c.all, got, differ, c.want, c.differ)
		}
	}
}
