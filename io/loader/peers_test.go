package loader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/faultnet"
)

// Allocate implements PeerDataset.
func (n *numbers) Allocate(_ int, room *[]byte) *[]byte { return n.into(room, make([]byte, 8)) }

// Buffers implements PeerDataset.
func (n *numbers) Buffers(x *[]byte) [][]byte { return [][]byte{(*x)[:3], (*x)[3:]} }

// met returns connected loaders of all readers of a schedule, with their caches
// planned. spoil may change the addresses that others get.
func met(t *testing.T, s Schedule, o Options, spoil func(reader int, p *Peer)) (all []*Loader[*[]byte], of []*numbers) {
	t.Helper()
	var peers []Peer
	for r := range s.Readers {
		of = append(of, &numbers{slow: true})
		all = append(all, newLoader(t, of[r], o))
		p, err := all[r].Serve("rank", r%2 == 1)
		if err != nil {
			t.Fatal(err)
		}
		if spoil != nil {
			spoil(r, &p)
		}
		peers = append(peers, p)
	}
	for r, l := range all {
		l.ConnectPeers(peers, r, true)
		l.PlanCaches(s.Passes(0), s.numSamples(), r)
	}
	return all, of
}

// together drains the streams of all readers concurrently.
func together(t *testing.T, s Schedule, all []*Loader[*[]byte], reads func(reader int) []int) (sum Counts) {
	t.Helper()
	var done sync.WaitGroup
	before := make([]Counts, len(all))
	for r, l := range all {
		before[r] = l.Counts()
		done.Go(func() {
			if err := drain(l, reads(r)); err != nil {
				t.Errorf("reader %d: %v", r, err)
			}
		})
	}
	done.Wait()
	for r, l := range all {
		c := l.Counts().Since(before[r])
		for _, x := range []struct {
			to   *Count
			from Count
		}{{&sum.Memory, c.Memory}, {&sum.Disk, c.Disk}, {&sum.Peers, c.Peers}, {&sum.FileSystem, c.FileSystem}} {
			x.to.Reads, x.to.Bytes = x.to.Reads+x.from.Reads, x.to.Bytes+x.from.Bytes
		}
		sum.PeerError = errors.Join(sum.PeerError, c.PeerError)
	}
	return sum
}

// If the memories of all readers together hold all samples, each sample is read
// from the file system once, also if all readers begin by reading all of them.
// Readers on other machines are found by their addresses.
func TestPeersReadOnce(t *testing.T) {
	s := Schedule{Seed: 9, Samples: 40, Epochs: 3, Batch: 8, Readers: 4, PadLastBatch: true, Validation: 3}
	all, of := met(t, s, Options{Prefetch: 3, Memory: 18 * 8}, func(_ int, p *Peer) {
		if len(p.Hosts) > 0 {
			p.Machine = "another one"
			p.Hosts = append([]string{"no address"}, p.Hosts...)
		}
	})
	every := make([]int, s.numSamples())
	for k := range every {
		every[k] = k
	}
	c := together(t, s, all, func(int) []int { return every })
	if c.FileSystem.Reads != int64(s.numSamples()) || c.PeerError != nil {
		t.Errorf("of %d samples %+v", s.numSamples(), c)
	}
	if c = together(t, s, all, s.Reads); c.FileSystem.Reads > 0 || c.Peers.Reads == 0 {
		t.Errorf("later %+v", c)
	}
	total := 0
	for _, n := range of {
		total += len(n.reads)
	}
	if total != s.numSamples() {
		t.Errorf("%d reads of %d samples", total, s.numSamples())
	}
	// Another order: samples that are placed anew are read from their holders.
	s.Seed++
	for r, l := range all {
		l.PlanCaches(s.Passes(0), s.numSamples(), r)
	}
	if c = together(t, s, all, s.Reads); c.PeerError != nil {
		t.Error(c.PeerError)
	}
}

// between puts a faulty network between a peer and those that ask it; faults are those of its replies.
func between(t *testing.T, p *Peer, faults faultnet.Faults) {
	t.Helper()
	proxy, err := faultnet.New(fmt.Sprintf("127.0.0.1:%d", p.Port), 40, func(int) (toServer, toClient faultnet.Faults) { return faultnet.Faults{}, faults })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	p.Port = proxy.Address().Port
}

// proofBytes is the size of the first reply of a peer.
const proofBytes = sha256.Size

// Peers that reply incorrectly, not at all, or do not exist cost time but no
// sample, and are reported.
func TestPeersFail(t *testing.T) {
	s := Schedule{Seed: 5, Samples: 24, Epochs: 3, Batch: 4, Readers: 2, PadLastBatch: true}
	for _, c := range []struct {
		name, why string
		spoil     func(t *testing.T, p *Peer)
		asked     bool // repeatedly
	}{
		{"damaged", "rank: damaged reply", func(t *testing.T, p *Peer) { between(t, p, faultnet.Faults{From: proofBytes, Then: faultnet.Damage}) }, true},
		{"silent", "rank: no reply within 2s", func(t *testing.T, p *Peer) {
			between(t, p, faultnet.Faults{From: proofBytes + 20, Then: faultnet.Drop})
		}, false},
		{"a stranger", "cannot be reached", func(_ *testing.T, p *Peer) { p.Key[0]++ }, false},
		{"absent", "cannot be reached", func(t *testing.T, p *Peer) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			p.Port = l.Addr().(*net.TCPAddr).Port
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, _ := met(t, s, Options{Prefetch: 2, Memory: 9 * 8, PeerTimeout: 2 * time.Second}, func(r int, p *Peer) {
				if r == 1 {
					c.spoil(t, p)
				}
			})
			sum := together(t, s, all, s.Reads)
			err := all[0].Counts().PeerError
			if err == nil || !strings.Contains(err.Error(), c.why) || all[1].Counts().PeerError != nil {
				t.Errorf("%v, want %q", err, c.why)
			}
			if all[0].Counts().Peers.Reads > 3 || all[1].Counts().Peers.Reads == 0 || sum.FileSystem.Reads < 30 {
				t.Errorf("reader 0 %+v, reader 1 %+v", all[0].Counts(), all[1].Counts())
			}
			if failed := all[0].peers.others[1].failed; failed == c.asked {
				t.Errorf("given up: %v", failed)
			}
		})
	}
}

// A peer that ends before the others receives no more requests, and no error is
// reported. A pending request ends with its stream.
func TestPeerEnds(t *testing.T) {
	s := Schedule{Seed: 5, Samples: 24, Epochs: 2, Batch: 4, Readers: 2, PadLastBatch: true}
	all, _ := met(t, s, Options{Prefetch: 2, Memory: 9 * 8}, nil)
	for o := all[0].peers.others[1]; ; time.Sleep(time.Millisecond) {
		if c, err := o.takeIdle(); c != nil || err != nil {
			o.release(c)
			break
		}
	}
	all[1].peers.shutdown()
	if err := drain(all[0], s.Reads(0)); err != nil || all[0].Counts().PeerError != nil {
		t.Errorf("%v, %+v", err, all[0].Counts())
	}

	silent, _ := met(t, s, Options{Prefetch: 2, Memory: 9 * 8}, func(_ int, p *Peer) {
		between(t, p, faultnet.Faults{From: proofBytes, Then: faultnet.Drop})
	})
	ctx, cancel := context.WithCancel(context.Background())
	stream := silent[0].Stream(ctx, s.Reads(0))
	time.AfterFunc(20*time.Millisecond, cancel)
	for {
		if _, err := stream.Next(); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
	}
	stream.Close()
	if c := silent[0].Counts(); c.PeerError != nil {
		t.Error(c.PeerError)
	}
}

// TestPeersOnBadNetwork: late replies are used, and connections that end in the middle of one cost no sample.
func TestPeersOnBadNetwork(t *testing.T) {
	s := Schedule{Seed: 5, Samples: 24, Epochs: 3, Batch: 4, Readers: 2, PadLastBatch: true}
	for name, faults := range map[string]faultnet.Faults{"late": {Delay: 5 * time.Millisecond}, "cut": {From: proofBytes + 30, Then: faultnet.Cut}} {
		all, _ := met(t, s, Options{Prefetch: 2, Memory: 9 * 8, PeerTimeout: patience}, func(_ int, p *Peer) { between(t, p, faults) })
		sum := together(t, s, all, s.Reads)
		if used := sum.Peers.Reads > 3; sum.PeerError != nil || used != (name == "late") {
			t.Errorf("%s: %+v", name, sum)
		}
	}
}

// patience is the timeout for fast events; it allows for a busy machine.
const patience = 2 * time.Minute

// A client with a wrong key, or a request for an unknown sample, gets nothing.
func TestUnknownClient(t *testing.T) {
	s := Schedule{Seed: 5, Samples: 4, Epochs: 1, Batch: 2, Readers: 2}
	all, of := met(t, s, Options{Memory: 100}, nil)
	p := all[1].peers
	for _, c := range []struct {
		hello []byte
		want  int // bytes of a reply
	}{
		{[]byte("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html, application/xhtml+xml\r\n\r\n"), 0},
		{append([]byte(peerGreeting), make([]byte, 40)...), 0},
		{append(append([]byte(peerGreeting), p.own.Key[:]...), bytes.Repeat([]byte{255}, 8)...), 33},
		{append(append([]byte(peerGreeting), p.own.Key[:]...), 4, 0, 0, 0, 0, 0, 0, 0), 33},
	} {
		conn, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.own.Port})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(c.hello); err != nil {
			t.Fatal(err)
		}
		conn.CloseWrite()
		if got, _ := io.ReadAll(conn); len(got) != c.want || c.want > 0 && got[32] != answerAbsent {
			t.Errorf("%q is answered with %d bytes", c.hello, len(got))
		}
		conn.Close()
	}
	if len(of[1].reads) > 0 {
		t.Errorf("samples %v were read for strangers", of[1].reads)
	}
}

// Peers that are slower than the file system are not used, but probed from time to
// time.
func TestLatency(t *testing.T) {
	var p latencies
	asked := 0
	for range 640 {
		peers, shared := p.expected(false)
		if source, _ := fastestSource(0, shared, []holder{{1, inMemory}}, func(holder) (float64, bool) { return peers, true }); source == Remote {
			asked++
			p.peers.add(0.2)
		} else {
			p.fileSystem.add(0.1)
		}
	}
	if asked < minProbes+8 || asked > minProbes+12 {
		t.Errorf("a slow peer was asked %d times", asked)
	}
	if peers, shared := p.expected(true); peers >= shared {
		t.Errorf("%v and %v", peers, shared)
	}
}
