// Package sbp plans how operations are spread over a mesh of ranks. A tensor has one
// letter for each axis of the mesh: S(i), split along dimension i; B, broadcast; P,
// partial, the sum over ranks being the tensor. An operation has rules, the letters
// under which each rank computes its part from its own parts alone. Where the letters of
// a producer and of a consumer differ, the tensor is converted, which costs (T bytes of
// the whole tensor, p ranks on the axis)
//
//	from  to    exchange        bytes of all ranks  sent by each rank  rounds
//	S(i)  S(j)  all-to-all      (p-1)/p T           (p-1)/p² T         p-1
//	S     B     all-gather      (p-1) T             (p-1)/p T          p-1
//	P     S     reduce-scatter  (p-1) T             (p-1)/p T          p-1
//	P     B     all-reduce      2(p-1) T            2(p-1)/p T         2(p-1)
//	B     S, P  none            0                   0                  0
//	S     P     none            0                   0                  0
//
// A plan chooses a rule for each operation of a network; Descent searches one that takes
// little time, Chain and Exhaustive find the best of small networks:
//
//	m := sbp.Machine{
//		Mesh: spatial.Mesh{{Name: "data", Size: 2}, {Name: "channel", Size: 2}},
//		Link: sbp.Link{Alpha: 5e-6, Beta: 8e-11}, // s, s/byte
//		Rate: 1e12, // FLOP/s
//	}
//	n := sbp.Network{Unit: 4, Nodes: []sbp.Node{
//		{Name: "hidden", Op: sbp.MatMul(1024, 4096, 4096), From: []int{sbp.Input}},
//		{Name: "output", Op: sbp.MatMul(1024, 4096, 4096), From: []int{0}},
//	}}
//	plan, err := sbp.Descent{}.Search(n, m)
//
// What counts in a step of training: computing, halos and conversions of values and of
// their gradients, and the sums of the gradients of weights. An input is loaded in the
// letters in which it is read, the loss takes its operand in the letters in which it
// gives the gradient, and the gradients of inputs count if Network.InputGradients says
// so.
//
// On meshes of several axes a conversion changes one axis after the other, in the
// cheapest order; Converter.Merge lets all-reduces over several axes be one. Costs are
// counted from the parts that ranks hold, in whole bytes, also where parts are uneven or
// splits are nested: of (S0,S0) the second axis cuts the parts of the first. So (B,S0)
// to (S0,S0) on a mesh of n × m ranks costs (1-1/m) T, and Convert sends what Path
// promised.
//
// All exchanges are pairwise: each rank sends every other what it wants in one message,
// in rounds, and summands are added in the order of ranks.
//
// Source: Yuan et al. 2021, arXiv:2110.15032; Chen et al. 2023, arXiv:2301.06813.
package sbp
