package sbp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/sbp"
)

// hand returns a plan of two layers with given rules.
func hand(t *testing.T, rules ...string) sbp.Plan {
	t.Helper()
	p, err := sbp.NewPlan(chain(64, []int{32, 32, 32}, "dp", "col", "row"), fast(2, 2), rules...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlanText(t *testing.T) {
	p := hand(t, "dp x col", "dp x row")
	want := `mesh data=2 lat=2
layer1: dp x col: X [(S0,B)] W (B,S1) Y (S0,S1)
layer2: dp x row: X [(S0,S1)] W (B,S0) Y (S0,P)
`
	if p.String() != want {
		t.Errorf("plan\n%vwant\n%v", p, want)
	}
	n := chain(64, []int{32, 32, 32}, "dp", "col", "row")
	again, err := sbp.ReadPlan(want, n, fast(2, 2))
	if err != nil || again.Hash() != p.Hash() || again.Estimate != p.Estimate {
		t.Errorf("read again\n%v%v", again, err)
	}
	for name, text := range map[string]string{
		"empty":        "",
		"a line less":  strings.Join(strings.SplitAfter(want, "\n")[:2], ""),
		"other mesh":   strings.Replace(want, "data=2", "data=4", 1),
		"other rule":   strings.Replace(want, "dp x col", "dp x fast", 1),
		"other letter": strings.Replace(want, "(B,S1)", "(B,S0)", 1),
		"other node":   strings.Replace(want, "layer2", "layer3", 1),
	} {
		if _, err := sbp.ReadPlan(text, n, fast(2, 2)); !errors.Is(err, sbp.ErrPlan) {
			t.Errorf("%s: %v, want ErrPlan", name, err)
		}
	}
}

// Equal searches give equal plans; Agree finds ranks with another plan.
func TestAgree(t *testing.T) {
	err := comm.Run(3, comm.Parallel, func(c *comm.Comm) error {
		p, err := sbp.Descent{Seed: 5}.Search(chain(64, []int{32, 32, 32}, "dp", "col", "row"), fast(3))
		if err != nil {
			return err
		}
		return sbp.Agree(c, p)
	})
	if err != nil {
		t.Error(err)
	}
	plans := []sbp.Plan{hand(t, "dp x col", "dp x row"), hand(t, "dp x col", "dp x row"), hand(t, "dp x col", "dp x dp")}
	err = comm.Run(3, comm.Parallel, func(c *comm.Comm) error {
		if err := sbp.Agree(c, plans[c.Rank()]); !errors.Is(err, sbp.ErrPlan) || !strings.Contains(err.Error(), "rank 2") {
			return fmt.Errorf("%v, want ErrPlan for rank 2", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func Example() {
	network := sbp.Network{Unit: 4, Nodes: []sbp.Node{
		{Name: "hidden", Op: sbp.MatMul(1024, 4096, 4096), From: []int{sbp.Input}},
		{Name: "output", Op: sbp.MatMul(1024, 4096, 4096), From: []int{0}},
	}}
	machine := sbp.Machine{
		Mesh: spatial.Mesh{{Name: "data", Size: 2}, {Name: "channel", Size: 2}},
		Link: sbp.Link{Alpha: 5e-6, Beta: 8e-11}, // s, s/byte
		Rate: 1e12,                               // FLOP/s
	}
	plan, err := sbp.Descent{}.Search(network, machine)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan)
	fmt.Printf("%.1f ms, %d bytes sent per rank\n", 1e3*plan.Estimate.Seconds, plan.Estimate.Communication().Sent)
	// Output:
	// mesh data=2 channel=2
	// hidden: col x col: X [(B,B)] W (S1,S1) Y (S1,S1)
	// output: row x col: X [(S1,B)] W (S0,S1) Y (P,S1)
	// 52.9 ms, 16777216 bytes sent per rank
}

func ExampleConvert() {
	m := spatial.Mesh{{Name: "channel", Size: 2}}
	path, err := (&sbp.Converter{Mesh: m, Unit: 4}).Path([]int{2, 2}, sbp.Signature{sbp.P}, sbp.Signature{sbp.S(0)})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows := make([][]float32, 2)
	err = comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		var err error
		rows[c.Rank()], err = sbp.Convert(c, path, []float32{1, 2, 3, 4}) // the summand of each rank
		return err
	})
	fmt.Println(rows, path.Cost.Sent, "bytes sent per rank", err)
	// Output: [[2 4] [6 8]] 8 bytes sent per rank <nil>
}
