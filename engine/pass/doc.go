// Package pass is the compiler of the engine: an ordered list of passes that
// turn the graph a network was built as into an order of execution and a plan
// of the memory. List is the list and Order the reasons for its order; one file
// holds each pass.
//
// To add a pass: one file, one line in List at its place, and a line in Order
// for every neighbour it must not change places with. The list is a value: a
// caller may hand Compile a longer one.
package pass
