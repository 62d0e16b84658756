package loader

import "time"

// pace is how long samples took lately that came from one source.
type pace struct {
	reads int
	mean  float64 // seconds
}

// paces are those of the memory of peers and of the file system.
type paces struct {
	peers, fileSystem pace
	decisions         int
}

const (
	// recentReads is over how many reads a pace is the mean, about.
	recentReads = 8
	// probed is how many reads are tried before a source is judged, and lookAgain after how many
	// decisions the slower one is tried again: loads change.
	probed, lookAgain = 4, 64
)

// add counts a read.
func (p *pace) add(seconds float64) {
	p.reads++
	p.mean += (seconds - p.mean) / float64(min(p.reads, recentReads))
}

// time is what a read is expected to take; nothing for a source that is to be tried.
func (p *pace) time() float64 {
	if p.reads < probed {
		return 0
	}
	return p.mean
}

// times are what reads are expected to take. If peers always come first these are no times,
// but an order.
func (p *paces) times(always bool) (peers, fileSystem float64) {
	if always {
		return 0, 1
	}
	peers, fileSystem = p.peers.time(), p.fileSystem.time()
	if p.decisions++; p.decisions%lookAgain == 0 {
		peers, fileSystem = fileSystem, peers
	}
	return peers, fileSystem
}

// paced notes how long a sample took.
func (l *Loader[T]) paced(f from, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f == fromPeers {
		l.paces.peers.add(took.Seconds())
	} else {
		l.paces.fileSystem.add(took.Seconds())
	}
}
