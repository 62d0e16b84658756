package wire

import (
	"strings"
	"testing"
)

func TestValuesIn(t *testing.T) {
	reply := make([]byte, 40)
	for _, c := range []struct {
		name  string
		v     Values
		width int
		want  string // part of the error; empty for valid values
	}{
		{"floats to the end", Values{Offset: 8, Count: 8}, 4, ""},
		{"doubles to the end", Values{Offset: 8, Count: 4}, 8, ""},
		{"none", Values{Offset: 40}, 8, ""},
		{"one too many", Values{Offset: 8, Count: 9}, 4, "9 values at byte 8 of a reply of 40"},
		{"before the reply", Values{Offset: -8, Count: 1}, 4, "at byte -8"},
		{"behind the reply", Values{Offset: 48}, 4, "at byte 48"},
		{"negative", Values{Count: -1}, 4, "-1 values"},
		{"overflow", Values{Offset: 8, Count: 1<<63 - 1}, 8, "values at byte 8"},
		{"the child's error", Values{Error: "no such variable"}, 4, "no such variable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := c.v.Bytes(reply, c.width)
			if c.want == "" {
				if err != nil || len(raw) != c.width*c.v.Count {
					t.Errorf("%d bytes, %v; want %d", len(raw), err, c.width*c.v.Count)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
