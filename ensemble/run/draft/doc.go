// Package draft writes the first configuration of a training from the files of an archive: what they contain
// determines input, target, members and split.
//
//	d, err := draft.Run(ctx, draft.Options{Files: []string{"fc", "an"}})
//	os.Stdout.Write(d.Config) // train.yaml
package draft
