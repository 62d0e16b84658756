//go:build long

package spatial

import "testing"

// All networks on all meshes.
func TestLongShard(t *testing.T)             { shard(t, every) }
func TestLongShardOnCPU(t *testing.T)        { shardOnCPU(t, every) }
func TestLongShardUnlikeStages(t *testing.T) { shardUnlikeStages(t, every) }

// The moments of 20 steps.
func TestLongShards(t *testing.T) { shards(t, 20) }

func TestLongBuckets(t *testing.T) { bucketsOfSeeds(t, 12) }

// Many more cuts of each operation.
func TestLongHalosByExperiment(t *testing.T) { halosByExperiment(t, 25) }
