//go:build long

package tcp

import "testing"

// TestLongBrokenConnections is TestBrokenConnections at more bytes.
func TestLongBrokenConnections(t *testing.T) {
	var at []int64
	for i := int64(1); i < 4_000; i += 1 + i/4 {
		at = append(at, i)
	}
	checkBroken(t, at)
}
