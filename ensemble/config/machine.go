package config

// Machine describes the machine that a training is planned for: machine.yaml.
type Machine struct {
	Version   int       `key:"version"`
	Node      Node      `key:"node"`
	Rank      Rank      `key:"rank"`
	Network   Link      `key:"network"`
	IntraNode IntraNode `key:"inside"`
}

// Node is one computer.
type Node struct {
	Ranks int `key:"ranks"`
}

// Rank is what one rank has.
type Rank struct {
	GFLOPs float64 `key:"gflops"`
	GBs    float64 `key:"gb_s"`
	Memory Bytes   `key:"memory"`
}

// Link is the network between nodes.
type Link struct {
	Topology  string  `key:"topology"`
	LatencyUs float64 `key:"alpha_us"`
	GBs       float64 `key:"gb_s"`
}

// IntraNode is the way between the ranks of a node.
type IntraNode struct {
	LatencyUs float64 `key:"alpha_us"`
	GBs       float64 `key:"gb_s"`
}

// MachineSchema describes machine.yaml.
var MachineSchema = newFileSchema[Machine]("machine", "--machine or train.machine", []Key{
	{Path: "version", Required: true, Check: OneOf("1"), Example: "1",
		Help: "Version of this format."},
	{Path: "node.ranks", Default: "1", Check: Between(1, 4096), Example: "4",
		Help: "Ranks of a node; consecutive ranks share one."},
	{Path: "rank.gflops", Required: true, Check: Between(1, 1e9), Example: "1200",
		Help: "GFLOP/s that convolutions reach on one rank, useful ones, as `ensemble bench` prints."},
	{Path: "rank.gb_s", Required: true, Check: Between(0.1, 1e6), Example: "100",
		Help: "GB/s between one rank and its memory."},
	{Path: "rank.memory", Default: "0", Example: "64GiB",
		Help: "Memory of one rank; 0 sets no limit."},
	{Path: "network.topology", Example: "fattree:16",
		Help: "How nodes are joined, for steps that are played: crossbar:N, leafspine:N,radix, fattree:k, torus:r,c, hx:a,b,x,y, dragonfly:p,a,h or ethernet:N. Without it messages meet at the nodes only."},
	{Path: "network.alpha_us", Required: true, Check: Between(0, 1e6), Example: "2",
		Help: "Microseconds that a message between nodes takes beside its bytes."},
	{Path: "network.gb_s", Required: true, Check: Between(0.001, 1e6), Example: "12.5",
		Help: "GB/s of a node's link each way, which its ranks share."},
	{Path: "inside.alpha_us", Default: "1", Check: Between(0, 1e6), Example: "0.5",
		Help: "Microseconds that a message within a node takes beside its bytes."},
	{Path: "inside.gb_s", Default: "10", Check: Between(0.001, 1e6), Example: "50",
		Help: "GB/s from one rank to another of its node."},
})

// MachineConfig is a loaded machine.yaml.
type MachineConfig struct {
	Machine
	*loaded
}

// LoadMachine reads the description of a machine. The environment does not change it.
//
// Errors: exit 64 with all faults at once, each with its place and a remedy.
func LoadMachine(path string) (*MachineConfig, error) {
	e, err := load(MachineSchema, Sources{Files: []string{path}})
	if err != nil {
		return nil, err
	}
	c := &MachineConfig{loaded: e}
	e.fill(&c.Machine)
	return c, nil
}

// Fault is the error of a value that does not go with something outside of the file, at the
// place where it was set.
func (c *MachineConfig) Fault(path, what, why, fix string) error {
	return c.fault(path, what, why, fix)
}
