// Package protocol serves published post-processing protocols, such as ENS-10: it describes their data and
// writes download requests ([Request]), and generates synthetic archives of the same layout for tests
// (Synthesize):
//
//	r, err := protocol.Synthesize(ctx, protocol.SynthesizeOptions{Protocol: p, Out: "archive"})
package protocol
