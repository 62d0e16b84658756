// Package channels removes channels from a network: what is left is a smaller dense network, faster and
// smaller on every device with the kernels that there are.
//
//	c := channels.Find(g)                                                      // what goes together, and what stays why
//	kept, err := c.Choose(channels.Goal{FLOPs: 0.25}, c.Magnitudes(parameters)) // by score
//	small, cut, err := c.Shrink(kept)                                          // the network without the rest
//	weights, shape := cut.Take(name, shape, weights)                           // and its parameters
//
// A network is built whole from its configuration, and shrunk by the lists of what is left of it, which
// a model keeps beside its weights.
//
// Source: Hoefler et al. 2021, arXiv:2102.00554, and the works named at each score.
package channels
