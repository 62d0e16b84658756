// Package graphnet predicts times of operations by a graph network over the program graph of a step, to compare it with package cost.
// The program does not link it.
//
// Vertices are the operations of a step. Edges are data flow, from the operation that makes a value to the one that reads it with the number
// of the operand as position, and control flow, from an operation to the next one; a reversed copy of each is of a type of its own. The
// network passes messages along edges, updates the state of each vertex by a gated recurrent unit, and reads from the last state the
// logarithm of the ratio of the operation's time to a unit (Units). The time of a step is the sum over its operations.
//
// Differences from ProGraML: values are no vertices of their own, since each has one maker, whose features hold its size; messages are
// summed before they are multiplied, which is the same; the read-out is the logarithm of a time.
//
// Source: Cummins et al. 2021, arXiv:2003.10536, section 4; Li, Tarlow, Brockschmidt and Zemel 2016, arXiv:1511.05493, for gated graph
// networks; Cho et al. 2014, arXiv:1406.1078, for the unit.
package graphnet
