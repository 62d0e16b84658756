//go:build !race

// The memory of the race detector is larger than the limit.

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
)

// TestFault45Memory: a decoder that exceeds its memory limit ends, by whatever does not get memory first: an allocation or a thread.
func TestFault45Memory(t *testing.T) {
	if text, code := asWild(t, "memory", wire.MemoryEnv+"="+fmt.Sprint(3<<30)); !strings.Contains(text, "out of memory") && !strings.Contains(text, "pthread_create failed") || code == int(exit.OK) {
		t.Errorf("exit %d: %.300s", code, text)
	}
}
