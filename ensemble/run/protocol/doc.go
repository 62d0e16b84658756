// Package protocol serves published protocols of post-processing: what their data are and how to request them
// (Request), and archives of the same shape made of synthetic weather, on which a protocol can be tried (Synthesize):
//
//	r, err := protocol.Synthesize(ctx, protocol.SynthesizeOptions{Protocol: p, Out: "archive"})
package protocol
