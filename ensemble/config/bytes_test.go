package config

import (
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for _, c := range []struct {
		text   string
		want   Bytes
		prints string
	}{
		{"0", 0, "0"},
		{"4GiB", 4 << 30, "4GiB"},
		{"1.5GiB", 3 << 29, "1536MiB"},
		{"800MB", 800e6, "781250KiB"},
		{"12kB", 12000, "12000B"},
		{"7B", 7, "7B"},
		{"2TiB", 2 << 40, "2TiB"},
	} {
		got, err := ParseBytes(c.text)
		if err != nil || got != c.want || got.String() != c.prints {
			t.Errorf("%s: %d, printed %s, error %v; want %d, printed %s", c.text, got, got, err, c.want, c.prints)
		}
		if back, err := ParseBytes(got.String()); err != nil || back != got {
			t.Errorf("%s: printed %s, read back as %d, %v", c.text, got, back, err)
		}
	}
	for text, why := range map[string]string{
		"4": "write 4GiB", "-1GiB": "wrong type", "4 GiB": "wrong type", "4gib": "wrong type", "4KB": "wrong type", "GiB": "wrong type",
		"99999999TiB": "too large", "0.3B": "whole number of bytes", "": "wrong type",
	} {
		if got, err := ParseBytes(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %d, error %v, want one that says %q", text, got, err, why)
		}
	}
}
