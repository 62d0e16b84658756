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

// String is the plan as text: a line with the mesh, then one for each node with the name of
// its rule and the letters of its tensors. ReadPlan reads it.
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

// Hash is the SHA-256 of the text, in hexadecimal digits.
func (p Plan) Hash() string {
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:])
}

// ErrPlan is a plan that does not belong to a network and a machine, or that ranks do
// not share.
var ErrPlan = errors.New("another plan")

// NewPlan is the plan that gives each node of a network the rule of that name, as in
// "dp x col" on a mesh of two axes.
//
// Errors: ErrPlan for a name that a node does not have on the mesh; ErrNetwork.
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

// ReadPlan reads the text of a plan for a network on a machine, and estimates it.
//
// Errors: ErrPlan for a text that is not that of such a plan; ErrNetwork.
func ReadPlan(text string, n Network, m Machine) (Plan, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var rules []string
	for _, line := range lines[1:] {
		words := strings.Split(line, ": ")
		if len(words) != 3 {
			return Plan{}, fmt.Errorf("line %q, want node, rule and letters: %w", line, ErrPlan)
		}
		rules = append(rules, words[1])
	}
	p, err := NewPlan(n, m, rules...)
	if err != nil {
		return Plan{}, err
	}
	if got := p.String(); got != text {
		return Plan{}, fmt.Errorf("the text says\n%s\nthe network on this mesh\n%s%w", text, got, ErrPlan)
	}
	return p, nil
}

// Agree compares the hashes of all ranks' plans. All ranks of c call it.
//
// Errors: ErrPlan with the first rank whose plan is not that of rank 0; those of other
// ranks.
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

// plan is the plan of a choice of rules.
func (c *costTable) plan(choice []int) Plan {
	p := Plan{Mesh: c.machine.Mesh, Estimate: c.estimate(choice)}
	for v, i := range choice {
		p.Nodes = append(p.Nodes, c.network.Nodes[v].Name)
		p.Rules = append(p.Rules, c.rules[v][i])
	}
	return p
}
