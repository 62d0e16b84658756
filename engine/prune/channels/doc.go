// Package channels removes whole channels from a network (structured pruning). The result is a
// smaller dense network, which needs less time and memory on every device with the existing
// kernels.
//
//	c := channels.Find(g)                                                      // channels that must be removed together
//	kept, err := c.Choose(channels.Goal{FLOPFraction: 0.25}, c.Magnitudes(parameters)) // by score
//	small, selection, err := c.Shrink(kept)                                    // the smaller network
//	weights, shape := selection.Take(name, shape, weights)                     // its parameters
//
// A network is always built at full size from its configuration, and then shrunk by the lists of
// kept channels. A model stores these lists with its weights.
//
// The analysis has three steps. Every index of every axis of every value starts as a set of its
// own. The rule of each operation (graph.Op.Channels) joins sets: a convolution joins the channel
// axis of its input with the input axis of its filter, an addition joins its operands with its
// result, a concatenation joins each operand with a part of the result. Inputs, outputs and
// operations without a rule pin their sets, which then cannot be removed. In the U-Net, for
// example, a channel of the encoder is coupled with the same channel of the skip, and thereby with
// an input channel of a filter of the decoder.
//
// Source: Hoefler et al. 2021, arXiv:2102.00554, and the papers named at each score.
package channels
