//go:build long

package main

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestLongFault45Loop: a decoder that exceeds its processor time ends.
func TestLongFault45Loop(t *testing.T) {
	if text, code := asWild(t, "loop"); !strings.Contains(text, "the request exceeded its processor time") || code != int(exit.BadData) {
		t.Errorf("exit %d: %.300s", code, text)
	}
}
