// Package sbp plans the distribution of operations over a mesh of ranks. The
// placement of a tensor has one entry for each mesh axis:
//
//	S(i)  split along dimension i
//	B     broadcast: replicated on every rank
//	P     partial: the tensor is the sum over the ranks
//
// (PyTorch's DTensor calls them Shard, Replicate and Partial.) The placements of
// one tensor on all axes form its Signature. An operation has rules: signatures of
// its tensors under which each rank computes its part from its own parts alone. If
// producer and consumer have different signatures, the tensor is converted. For T
// bytes of the whole tensor and p ranks on the axis this costs
//
//	from  to    collective      bytes of all ranks  sent by each rank  rounds
//	S(i)  S(j)  all-to-all      (p-1)/p T           (p-1)/p² T         p-1
//	S     B     all-gather      (p-1) T             (p-1)/p T          p-1
//	P     S     reduce-scatter  (p-1) T             (p-1)/p T          p-1
//	P     B     all-reduce      2(p-1) T            2(p-1)/p T         2(p-1)
//	B     S, P  none            0                   0                  0
//	S     P     none            0                   0                  0
//
// A plan selects a rule for each operation of a network. Descent searches a fast
// plan; Chain and Exhaustive find the best plan of small networks:
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
// The cost of a training step includes computing, halos and conversions of values
// and of their gradients, and the sums of the gradients of weights. An input is
// loaded in the signature in which it is read. The loss takes its operand in the
// signature of its gradient. Gradients of inputs count only with
// Network.InputGradients.
//
// On meshes with several axes, a conversion changes one axis after the other, in
// the cheapest order; Converter.Merge allows one all-reduce over several axes.
// Costs are counted in whole bytes from the parts that ranks hold, also for uneven
// parts and nested splits. In (S0,S0) the second axis splits the parts of the
// first. So (B,S0) to (S0,S0) on a mesh of n × m ranks costs (1-1/m) T. Convert
// sends exactly the bytes that Path predicts.
//
// Every exchange is pairwise: each rank sends every other rank one message per
// round. Summands are added in rank order.
//
// Source: Yuan et al. 2021, arXiv:2110.15032; Chen et al. 2023, arXiv:2301.06813.
package sbp
