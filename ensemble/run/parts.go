package run

import (
	"fmt"
	"sync"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// A mesh may have more parts than there are processes. Each process then runs several, as
// goroutines: they are the ranks of the mesh, and do not see how many processes there are.

// partsOf is the number of parts of a mesh that was given; 0 leaves it to the number of
// ranks.
func partsOf(mesh string) (int, error) {
	if mesh == "" || mesh == autoMesh {
		return 0, nil
	}
	m, err := spatial.ParseMesh(mesh)
	return m.Size(), err
}

// onParts calls f on that many parts, if they are more than the processes of c; else on c.
//
// Errors: what f gives on a part of this process.
func onParts(c *comm.Comm, parts int, f func(c *comm.Comm) error) error {
	if parts <= c.Size() {
		return f(c)
	}
	// A part that ends with what all know must not take messages from those that are not
	// yet as far.
	var mu sync.Mutex
	var known error
	first := parts
	err := comm.Host(c, parts, func(c *comm.Comm) error {
		err := f(c)
		if err == nil || !agreed(err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if c.Rank() < first {
			known, first = err, c.Rank()
		}
		return nil
	})
	if err == nil {
		err = known
	}
	return err
}

// processes is how many run the ranks of c.
func processes(c *comm.Comm) int { return c.Process(c.Size()-1) + 1 }

// ranksOf says how many ranks there are, and how many parts they have.
func ranksOf(ranks, parts int) string {
	if parts == ranks {
		return count(ranks, "rank")
	}
	return fmt.Sprintf("%s on %s", count(parts, "part"), count(ranks, "rank"))
}

// agreed tells whether an error is one that all ranks have, so that they leave the job
// together.
func agreed(err error) bool { return exit.CodeOf(err) == exit.SaveAndStop || Joint(err) }

// most is the largest number of parts of a process.
func (t *team) most() int {
	n := 0
	for part := range t.size() {
		n = max(n, t.beside(part)+1)
	}
	return n
}

// beside is how many parts of the same process come before one.
func (t *team) beside(part int) int {
	n := 0
	for part > n && t.c.Process(part-n-1) == t.c.Process(part) {
		n++
	}
	return n
}

// speaks tells whether this part is the one that stands for its process.
func (t *team) speaks() bool { return t == nil || t.beside(t.c.Rank()) == 0 }

// ofPart are the options of one of the parts of a process: one alone is told to stop, and
// shows what is done.
func (o TrainOptions) ofPart(t *team) TrainOptions {
	if !t.speaks() {
		o.Stop, o.Progress, o.Warn = nil, nil, nil
	}
	return o
}
