package config

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Machine is machine.yaml, the description of the parallel machine for the cost model.
type Machine struct {
	Version   int       `key:"version"`
	Node      Node      `key:"node"`
	Rank      Rank      `key:"rank"`
	Network   Link      `key:"network"`
	IntraNode IntraNode `key:"intra_node"`
	Imbalance Imbalance `key:"imbalance"`
}

// Node is a compute node.
type Node struct {
	Ranks int `key:"ranks"`
}

// Rank describes the resources of one rank.
type Rank struct {
	GFLOPs float64 `key:"gflops"` // GFLOP/s of convolutions
	GBs    float64 `key:"gb_s"`   // memory bandwidth, GB/s
	Memory Bytes   `key:"memory"` // 0: no limit
}

// Link is the network between nodes, in the latency-bandwidth model: a message of n bytes takes
// LatencyUs µs + n / GBs.
type Link struct {
	Topology  string  `key:"topology"`
	LatencyUs float64 `key:"latency_us"`
	GBs       float64 `key:"gb_s"`
}

// IntraNode is the connection between the ranks of a node, as Link.
type IntraNode struct {
	LatencyUs float64 `key:"latency_us"`
	GBs       float64 `key:"gb_s"`
}

// Imbalance is how the times differ that ranks compute in a step, as `ensemble bench --parallel` measures it.
type Imbalance struct {
	Ranks      int       `key:"ranks"`      // of the measurement; 0: not measured
	Slowest    float64   `key:"slowest"`    // slowest rank of a step over the mean of the ranks
	Persistent float64   `key:"persistent"` // slowest rank of all steps over the mean of the ranks
	Times      []float64 `key:"times"`      // equally likely times of a rank in a step over its mean
}

// MachineSchema is the schema of machine.yaml.
var MachineSchema = NewFileSchema[Machine]("machine", "--machine or train.machine", []schema.Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "node.ranks", Default: "1", Check: Between(1, 4096), Example: "4",
		Help: "Ranks a node; consecutive ranks share a node."},
	{Path: "rank.gflops", Required: true, Check: Between(0.001, 1e9), Example: "1200",
		Help: "Rate of convolutions on one rank in GFLOP/s, as `ensemble bench` prints it."},
	{Path: "rank.gb_s", Required: true, Check: Between(0.1, 1e6), Example: "100",
		Help: "Memory bandwidth of one rank in GB/s."},
	{Path: "rank.memory", Default: "0", Example: "64GiB",
		Help: "Memory of one rank; 0: no limit."},
	{Path: "network.topology", Example: "fattree:16",
		Help: "Network topology for simulated steps: crossbar:N, leafspine:N,radix, fattree:k, torus:r,c, hx:a,b,x,y, dragonfly:p,a,h or ethernet:N. Default: contention at the nodes only."},
	{Path: "network.latency_us", Required: true, Check: Between(0, 1e6), Example: "2",
		Help: "Latency of a message between nodes in microseconds."},
	{Path: "network.gb_s", Required: true, Check: Between(0.001, 1e6), Example: "12.5",
		Help: "Bandwidth of a node's link in GB/s in each direction, shared by its ranks."},
	{Path: "intra_node.latency_us", Default: "1", Check: Between(0, 1e6), Example: "0.5",
		Help: "Latency of a message within a node in microseconds."},
	{Path: "intra_node.gb_s", Default: "10", Check: Between(0.001, 1e6), Example: "50",
		Help: "Bandwidth between two ranks of a node in GB/s."},
	{Path: "imbalance.ranks", Default: "0", Check: Between(0, 65536), Example: "4",
		Help: "Ranks on which the imbalance was measured by `ensemble bench --parallel`; 0: not measured."},
	{Path: "imbalance.slowest", Default: "1", Check: Between(1, 65536), Example: "1.3",
		Help: "Time that the slowest rank of a step computes over the mean of the ranks, in the mean over steps."},
	{Path: "imbalance.persistent", Default: "1", Check: Between(1, 65536), Example: "1.05",
		Help: "Mean time that the slowest rank computes over the mean of the ranks: the part of imbalance.slowest that is the same rank in all steps."},
	{Path: "imbalance.times", Check: AtLeast(0), Example: "[0.95, 0.97, 0.98, 1.1]",
		Help: "Equally likely times that a rank computes in a step, over its own mean. Default: one of the ranks, drawn at random in each step, takes longer than the others, as imbalance.slowest says."},
})

// MachineConfig is a loaded machine.yaml.
type MachineConfig struct {
	Machine
	*Loaded
}

// LoadMachine loads machine.yaml. Environment variables have no effect.
//
// Errors: exit 64 with all faults, each with its position and a fix.
func LoadMachine(path string) (*MachineConfig, error) {
	e, err := Load(MachineSchema, Sources{Files: []string{path}})
	if err != nil {
		return nil, err
	}
	c := &MachineConfig{Loaded: e}
	e.Fill(&c.Machine)
	if f := c.checkImbalance(); f != nil {
		return nil, f
	}
	return c, nil
}

// checkImbalance checks that the ratios belong to a number of ranks, and to each other.
func (c *MachineConfig) checkImbalance() *exit.Error {
	b := c.Imbalance
	switch {
	case b.Ranks < 2 && (b.Slowest > 1 || len(b.Times) > 0):
		return c.Fault("imbalance.ranks", fmt.Sprintf("imbalance.ranks is %d", b.Ranks), "how much slower the slowest rank is depends on the number of ranks", "state the number of ranks that were measured, 2 or more")
	case b.Ranks >= 2 && b.Slowest > float64(b.Ranks):
		return c.Fault("imbalance.slowest", fmt.Sprintf("imbalance.slowest is %g", b.Slowest), fmt.Sprintf("the slowest of %d ranks takes at most %d times their mean", b.Ranks, b.Ranks), fmt.Sprintf("set it to %d or less", b.Ranks))
	case b.Persistent > b.Slowest:
		return c.Fault("imbalance.persistent", fmt.Sprintf("imbalance.persistent is %g", b.Persistent), fmt.Sprintf("the slowest rank of each step takes %g of the mean, so no rank takes more in all steps", b.Slowest), fmt.Sprintf("set it to %g or less", b.Slowest))
	}
	return nil
}
