package loader

import "time"

// latency is how long samples took lately that came from one source.
type latency struct {
	reads int
	mean  float64 // seconds
}

// latencies are those of the memory of peers and of the file system.
type latencies struct {
	peers, fileSystem latency
	decisions         int
}

const (
	// recentReads is over how many reads a pace is the mean, about.
	recentReads = 8
	// minProbes is how many reads are tried before a source is judged, and probeInterval after how many
	// decisions the slower one is tried again: loads change.
	minProbes, probeInterval = 4, 64
)

// add counts a read.
func (p *latency) add(seconds float64) {
	p.reads++
	p.mean += (seconds - p.mean) / float64(min(p.reads, recentReads))
}

// expected is what a read is expected to take; nothing for a source that is to be tried.
func (p *latency) expected() float64 {
	if p.reads < minProbes {
		return 0
	}
	return p.mean
}

// expected are what reads are expected to take. If peers always come first these are no times,
// but an order.
func (p *latencies) expected(always bool) (peers, fileSystem float64) {
	if always {
		return 0, 1
	}
	peers, fileSystem = p.peers.expected(), p.fileSystem.expected()
	if p.decisions++; p.decisions%probeInterval == 0 {
		peers, fileSystem = fileSystem, peers
	}
	return peers, fileSystem
}

// recordLatency notes how long a sample took.
func (l *Loader[T]) recordLatency(f servedFrom, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f == fromPeers {
		l.latencies.peers.add(took.Seconds())
	} else {
		l.latencies.fileSystem.add(took.Seconds())
	}
}
