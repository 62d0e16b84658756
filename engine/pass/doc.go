// Package pass is the compiler of the engine: an ordered list of passes. They
// turn the graph of a network into an order of execution and a memory plan.
// List holds the passes, and Order the constraints on their order with reasons.
// Each pass has its own file.
//
// To add a pass, write one file, one line in List, and one line in Order for
// every pass that must run before or after it. The list is a value: callers of
// Compile may provide a longer one.
package pass
