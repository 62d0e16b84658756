package sbp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Plan is one rule for each node of a network.
type Plan struct {
	Mesh     spatial.Mesh
	Nodes    []string // names
	Rules    []Rule   // by node
	Estimate Estimate
}

// String formats the plan: a line with the mesh, then a line for each node with its
// rule and the signatures of its tensors. ReadPlan parses it.
func (p Plan) String() string {
	var b strings.Builder
	b.WriteString("mesh")
	for _, a := range p.Mesh {
		fmt.Fprintf(&b, " %s=%d", a.Name, a.Size)
	}
	b.WriteByte('\n')
	for i, r := range p.Rules {
		fmt.Fprintf(&b, "%s: %s: X %v", p.Nodes[i], r.Name, r.X)
		if len(r.W) > 0 {
			fmt.Fprintf(&b, " W %v", r.W)
		}
		fmt.Fprintf(&b, " Y %v\n", r.Y)
	}
	return b.String()
}

// Hash returns the SHA-256 of the text in hexadecimal digits.
func (p Plan) Hash() string {
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:])
}

// ErrPlan marks a plan that does not belong to a network and a machine, or that
// differs between ranks.
var ErrPlan = errors.New("plan does not match")

// NewPlan returns the plan that gives each node of a network the named rule, such
// as "dp x col" on a mesh with two axes.
//
// Errors: ErrPlan for a rule that a node does not have on the mesh; ErrNetwork.
func NewPlan(n Network, m Machine, rules ...string) (Plan, error) {
	c, err := newCostTable(n, m)
	if err != nil {
		return Plan{}, err
	}
	if len(rules) != len(n.Nodes) {
		return Plan{}, fmt.Errorf("%d rules for %d nodes: %w", len(rules), len(n.Nodes), ErrPlan)
	}
	choice := make([]int, len(rules))
	for v, name := range rules {
		choice[v] = slices.IndexFunc(c.rules[v], func(r Rule) bool { return r.Name == name })
		if choice[v] < 0 {
			return Plan{}, fmt.Errorf("node %q has no rule %q on the mesh %v: %w", n.Nodes[v].Name, name, m.Mesh, ErrPlan)
		}
	}
	return c.plan(choice), nil
}

// ReadPlan parses a plan for a network on a machine, and estimates its cost.
//
// Errors: ErrPlan for a text that does not match the network and the mesh;
// ErrNetwork.
func ReadPlan(text string, n Network, m Machine) (Plan, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var rules []string
	for _, line := range lines[1:] {
		words := strings.Split(line, ": ")
		if len(words) != 3 {
			return Plan{}, fmt.Errorf("line %q, want node, rule and signatures: %w", line, ErrPlan)
		}
		rules = append(rules, words[1])
	}
	p, err := NewPlan(n, m, rules...)
	if err != nil {
		return Plan{}, err
	}
	if got := p.String(); got != text {
		return Plan{}, fmt.Errorf("the text is\n%s\nthe network on this mesh gives\n%s%w", text, got, ErrPlan)
	}
	return p, nil
}

// Agree compares the plans of all ranks by their hashes. All ranks of c call it.
//
// Errors: ErrPlan with the first rank whose plan differs from that of rank 0;
// failures of other ranks.
func Agree(c *comm.Comm, p Plan) error {
	own := p.Hash()
	all, err := comm.AllGather(c, []byte(own))
	if err != nil {
		return fmt.Errorf("comparing plans: %w", err)
	}
	first := string(all[:len(own)])
	for r := range c.Size() {
		if hash := string(all[r*len(own):][:len(own)]); hash != first {
			return fmt.Errorf("rank %d has plan %s, rank 0 %s: %w", r, hash, first, ErrPlan)
		}
	}
	return nil
}

// plan returns the plan of a choice of rules.
func (c *costTable) plan(choice []int) Plan {
	p := Plan{Mesh: c.machine.Mesh, Estimate: c.estimate(choice)}
	for v, i := range choice {
		p.Nodes = append(p.Nodes, c.network.Nodes[v].Name)
		p.Rules = append(p.Rules, c.rules[v][i])
	}
	return p
}
