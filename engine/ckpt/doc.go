// Package ckpt keeps tensors in files: weights as safetensors, and checkpoints, the
// whole state of a training run at one step.
//
// A checkpoint is a folder that is either whole or not there:
//
//	checkpoints/
//	  step-000001200/
//	    rank-0000.st   safetensors: parameters, optimiser moments, statistics
//	    index.json     step, state of the run, every part with its checksums
//	  LATEST           the name of the newest whole checkpoint
//	  BEST             the name of the one that validated best
//
// It is written under a hidden name, read back, compared, and only then renamed;
// LATEST follows. Loading compares every tensor with its checksum and names the one
// that differs. A format that can hold code (pickle, and the zip archives and HDF5
// files that frameworks put around it) is refused by content.
//
// Source of the safetensors format: github.com/huggingface/safetensors, README,
// "Format".
package ckpt
