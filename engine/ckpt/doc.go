// Package ckpt reads and writes tensors: weights as safetensors files, and checkpoints, which hold
// the whole state of a training run at one step.
//
// A checkpoint is a folder that either is complete or does not exist:
//
//	checkpoints/
//	  step-000001200/
//	    rank-0000.st   safetensors: parameters, optimiser moments, running statistics
//	    index.json     step, state of the run, files with checksums
//	  LATEST           name of the newest checkpoint
//	  BEST             name of the checkpoint with the best validation score
//
// Save writes a checkpoint into a hidden folder, reads it back, compares it, and renames it. Only
// then does it update LATEST. Load compares every tensor with its checksum and names a tensor that
// differs.
//
//	dir, err := ckpt.Save(root, ckpt.Meta{Step: 1200}, tensors, nil)
//	c, warnings, err := ckpt.LoadLatest(root)
//
// Formats that can contain code are refused, whatever the name of the file: pickle, and the zip and
// HDF5 files that frameworks use.
//
// Source of the safetensors format: github.com/huggingface/safetensors, README, section "Format".
package ckpt
