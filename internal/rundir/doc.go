// Package rundir keeps the directory of one run:
//
//	runs/NAME/
//	  manifest.json           written last; without it the run is not finished
//	  SHA256SUMS              the same checksums for sha256sum -c
//	  config.effective.yaml   config.source/  copies of the files it was made from
//	  environment.json        version, machine, libraries, seed
//	  events.jsonl            one JSON object a line, flushed per line
//	  tensorboard/            the same numbers as standard event files
//	  checkpoints/  model/  logs/  report/
//	  run.lock                the lease of the process that writes here
//
// A directory belongs to one run. Open decides whether it is new, to be resumed,
// finished already, or somebody else's (exit 73), and holds the lease until Close.
package rundir
