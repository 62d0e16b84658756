package config

import "time"

// Distribution has the keys of the section train that distribute its steps over ranks.
type Distribution struct {
	Mesh           string        `key:"mesh"`
	Machine        Path          `key:"machine"`
	StallTimeout   time.Duration `key:"stall_timeout"`
	ShardOptimizer bool          `key:"shard_optimizer"`
	Compression    Compression   `key:"compression"`
	Exchange       Exchange      `key:"exchange"`
	Pipeline       Pipeline      `key:"pipeline"`
}
