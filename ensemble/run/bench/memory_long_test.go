//go:build long

package bench

import "testing"

func TestLongShardedMemory(t *testing.T) { shardedMemory(t, 4, 8) }
