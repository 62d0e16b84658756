// Package rundir manages the directory of one run:
//
//	runs/NAME/
//	  manifest.json           written last; without it the run is not finished
//	  SHA256SUMS              the same checksums for sha256sum -c
//	  config.effective.yaml   resolved configuration
//	  config.source/          copies of the configuration files
//	  environment.json        version, machine, libraries, seed
//	  events.jsonl            one JSON object per line, flushed per line
//	  tensorboard/            the same numbers as TensorBoard event files
//	  checkpoints/  model/  logs/  report/
//	  run.lock                lease of the process that writes to the directory
//	  .replaced/              the run before, until the new one has a checkpoint or is finished
//
// A directory belongs to one run. Open determines whether it is new, to be resumed,
// finished, or in use by another process (exit 73). It holds the lease until Close.
package rundir
