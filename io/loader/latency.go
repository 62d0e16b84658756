package loader

import "time"

// latency is the recent mean time of reading a sample from one source.
type latency struct {
	// reads is the number of reads so far.
	reads int
	// mean is the moving mean of seconds per read.
	mean float64
}

// latencies holds the latency of peers and of the file system.
type latencies struct {
	peers, fileSystem latency
	decisions         int // number of choices between the two
}

const (
	// recentReads is the approximate number of reads in the moving mean.
	recentReads = 8
	// minProbes is the number of reads before a source is compared. probeInterval
	// is the number of decisions after which the slower source is tried again,
	// because loads change.
	minProbes, probeInterval = 4, 64
)

// add adds a read to the moving mean.
func (p *latency) add(seconds float64) {
	p.reads++
	// Arithmetic mean of the first reads, then exponential with weight
	// 1/recentReads.
	p.mean += (seconds - p.mean) / float64(min(p.reads, recentReads))
}

// expected returns the expected time of a read in seconds; 0 for a source with
// fewer than minProbes reads.
func (p *latency) expected() float64 {
	if p.reads < minProbes {
		return 0
	}
	return p.mean
}

// expected returns the expected times of both sources. If peers always have
// precedence, the numbers only define this order.
func (p *latencies) expected(always bool) (peers, fileSystem float64) {
	if always {
		return 0, 1
	}
	peers, fileSystem = p.peers.expected(), p.fileSystem.expected()
	// Swapping the times selects the slower source once.
	if p.decisions++; p.decisions%probeInterval == 0 {
		peers, fileSystem = fileSystem, peers
	}
	return peers, fileSystem
}

// recordLatency records the time of one read.
func (l *Loader[T]) recordLatency(f servedFrom, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f == fromPeers {
		l.latencies.peers.add(took.Seconds())
	} else {
		l.latencies.fileSystem.add(took.Seconds())
	}
}
