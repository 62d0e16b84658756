package engine

import "fmt"

func (p *Plan) DumpZZ() {
	fmt.Println("lower", p.unit.Memory.Lower*4>>20, "arena", p.ArenaBytes()>>20)
	for t, k := range p.kernels {
		live := 0
		for _, s := range p.unit.Memory.Spans {
			if s.First <= t && t <= s.Last {
				live += s.Size
			}
		}
		fmt.Printf("%3d live %6.1f scratch %6.1f %-20s %v\n", t, float64(live)*4/(1<<20), float64(k.Scratch)/(1<<20), k.node.Op.Name, k.node.Shape)
	}
}
