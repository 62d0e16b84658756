package loader

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// PeerDataset is a Dataset whose samples can be sent between readers.
type PeerDataset[T any] interface {
	Dataset[T]
	// Allocate returns sample k without values: room, or a new one if room is the
	// zero value.
	Allocate(k int, room T) T
	Buffers(x T) [][]byte // Buffers returns the memory of the values of a sample.
}

// Peer is the address of a reader and the capacity of its caches.
type Peer struct {
	// Name appears in errors.
	Name string
	// Machine is equal for readers that reach each other over loopback.
	Machine string
	// Hosts lists the addresses of the machine for other machines.
	Hosts []string
	Port  int
	// Key authenticates a connection. It is random for each run.
	Key [sha256.Size]byte
	// Memory and Disk are the capacities of the caches in samples.
	Memory, Disk int64
}

// peerClient is the connection pool to one peer.
type peerClient struct {
	Peer
	dial sync.Mutex

	mu sync.Mutex
	// idle holds open connections that are not in use.
	idle []net.Conn
	// reached reports that a connection was established once.
	reached bool
	// failed disables further requests.
	failed bool
}

// peers holds the server of a loader and its clients of other loaders.
type peers[T any] struct {
	dataset  PeerDataset[T]
	own      Peer
	listener net.Listener
	ctx      context.Context
	stop     context.CancelFunc
	done     sync.WaitGroup
	timeout  time.Duration

	// others holds the clients by reader; nil for this reader and for those that
	// cannot be reached.
	others []*peerClient

	mu sync.Mutex
	// conns holds all open connections, so that Close can close them.
	conns map[net.Conn]bool
	ended bool
	// err is the first error of a peer.
	err error
}

const (
	// peerGreeting begins a connection; its number is the version of the protocol.
	peerGreeting = "ensemble samples 1\n"
	// connectTimeout bounds connecting and authentication.
	connectTimeout = 5 * time.Second
	// chunkBytes are sent and summed at once, while they are in the CPU cache.
	chunkBytes = 256 << 10
)

// First byte of a reply: the sample follows, from memory or just read from the file
// system, or it is absent.
const (
	answerCached = iota
	answerRead
	answerAbsent
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Machine returns a string that is equal for processes that reach each other over
// loopback: host name, boot ID and network namespace.
func Machine() string {
	host, _ := os.Hostname() // a part that cannot be read is empty
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	network, _ := os.Readlink("/proc/self/ns/net")
	return strings.Join([]string{host, strings.TrimSpace(string(boot)), network}, " ")
}

// Serve starts a server through which other readers read samples from the memory of
// this one. name identifies this reader in errors. remote accepts connections from
// other machines. Requests are served concurrently with the loader's own reads
// until Close.
//
// Errors: a dataset that is not a PeerDataset; 74 if no port is available.
func (l *Loader[T]) Serve(name string, remote bool) (Peer, error) {
	origin, ok := l.dataset.(PeerDataset[T])
	if !ok {
		return Peer{}, fmt.Errorf("%T is not a PeerDataset", l.dataset)
	}
	p := &peers[T]{dataset: origin, conns: map[net.Conn]bool{}, timeout: l.o.PeerTimeout}
	own := l.room()
	p.own = Peer{Name: name, Machine: Machine(), Memory: own.memory, Disk: own.disk}
	if _, err := rand.Read(p.own.Key[:]); err != nil {
		return Peer{}, err
	}
	address := "127.0.0.1:0"
	if remote {
		address, p.own.Hosts = ":0", addresses()
	}
	var err error
	if p.listener, err = net.Listen("tcp", address); err != nil {
		return Peer{}, fmt.Errorf("listen for other ranks: %w", err)
	}
	p.own.Port = p.listener.Addr().(*net.TCPAddr).Port
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.done.Go(func() { l.serve(p) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers = p
	return p.own, nil
}

// addresses returns the global unicast addresses of this machine.
func addresses() (hosts []string) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			hosts = append(hosts, ip.IP.String())
		}
	}
	return hosts
}

// ConnectPeers sets the readers of the passes. From the next PlanCaches on, samples
// are read from their homes: always if always is set, otherwise while that is
// faster than the file system. Readers without a port receive no requests. Serve must
// have been called; all readers must pass the same list.
func (l *Loader[T]) ConnectPeers(all []Peer, reader int, always bool) {
	others, rooms := make([]*peerClient, len(all)), make([]room, len(all))
	for r, p := range all {
		if rooms[r] = (room{p.Memory, p.Disk, p.Port == 0}); r != reader && p.Port > 0 {
			others[r] = &peerClient{Peer: p}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers
	p.others, l.reader, l.rooms, l.peersFirst, l.plan = others, reader, rooms, always, nil
	// Connect now, so that an unreachable peer is distinguished from one that has
	// finished.
	for _, o := range others {
		if o != nil {
			p.done.Go(func() {
				if c, err := p.connect(p.ctx, o); err == nil {
					o.release(c)
				}
			})
		}
	}
}

// serve accepts connections until the listener is closed.
func (l *Loader[T]) serve(p *peers[T]) {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.register(c) {
			return
		}
		p.done.Go(func() {
			defer p.close(c)
			// A client with a wrong key or a closed connection is not an error of
			// this reader.
			_ = l.serveConn(p, c)
		})
	}
}

// register records a connection, so that Close closes it. It returns false if the
// loader is already closed.
func (p *peers[T]) register(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

// close closes a connection.
func (p *peers[T]) close(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// shutdown closes all connections and waits for their goroutines.
func (p *peers[T]) shutdown() {
	p.stop()
	p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}

// recordError keeps the first error.
func (p *peers[T]) recordError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// firstError returns the first error of a peer.
func (p *peers[T]) firstError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// serveConn serves the requests of one connection until it ends. The client sends
// greeting and key; the server proves that it has the key by its hash.
func (l *Loader[T]) serveConn(p *peers[T], c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(connectTimeout))
	hello := make([]byte, len(peerGreeting)+len(p.own.Key))
	if _, err := io.ReadFull(c, hello); err != nil {
		return err
	}
	// Constant time, so that the key cannot be guessed byte by byte.
	if subtle.ConstantTimeCompare(hello, append([]byte(peerGreeting), p.own.Key[:]...)) != 1 {
		return errors.New("wrong greeting or key")
	}
	proof := sha256.Sum256(p.own.Key[:])
	if _, err := c.Write(proof[:]); err != nil {
		return err
	}
	_ = c.SetDeadline(time.Time{})
	var request [8]byte
	for {
		if _, err := io.ReadFull(c, request[:]); err != nil {
			return err
		}
		k := binary.LittleEndian.Uint64(request[:])
		if err := l.sendSample(p, c, k); err != nil {
			return err
		}
	}
}

// sendSample sends a sample: status byte, length, values, and CRC-32C of number and
// values.
func (l *Loader[T]) sendSample(p *peers[T], c net.Conn, k uint64) error {
	x, kind := l.sampleForPeer(p.ctx, k)
	defer l.release(&x)
	_ = c.SetWriteDeadline(time.Now().Add(p.timeout))
	if kind == answerAbsent {
		_, err := c.Write([]byte{kind})
		return err
	}
	values := p.dataset.Buffers(x.sample)
	head := binary.LittleEndian.AppendUint64([]byte{kind}, uint64(totalBytes(values)))
	if _, err := c.Write(head); err != nil {
		return err
	}
	sum := checksumSeed(k)
	err := forEachChunk(values, func(piece []byte) error {
		_ = c.SetWriteDeadline(time.Now().Add(p.timeout))
		sum = crc32.Update(sum, castagnoli, piece)
		_, err := c.Write(piece)
		return err
	})
	if err != nil {
		return err
	}
	_, err = c.Write(binary.LittleEndian.AppendUint32(nil, sum))
	return err
}

// checksumSeed starts a checksum with the number of the sample, so that another
// sample is detected.
func checksumSeed(k uint64) uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(nil, k), castagnoli)
}

// totalBytes returns the bytes of all buffers.
func totalBytes(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}

// forEachChunk calls f with consecutive chunks of at most chunkBytes.
func forEachChunk(values [][]byte, f func(piece []byte) error) error {
	for _, v := range values {
		for len(v) > 0 {
			n := min(len(v), chunkBytes)
			if err := f(v[:n]); err != nil {
				return err
			}
			v = v[n:]
		}
	}
	return nil
}

// sampleForPeer returns a sample for another reader: from memory, or read from the
// file system if this reader is its home. A home never requests its samples from
// another reader, so readers cannot wait for each other in a cycle.
func (l *Loader[T]) sampleForPeer(ctx context.Context, number uint64) (x loaded[T], answer byte) {
	k := int(min(number, math.MaxInt))
	l.mu.Lock()
	here := l.plan != nil && k < len(l.plan.home) && l.isHome(k)
	l.mu.Unlock()
	if !here {
		return x, answerAbsent
	}
	x, f, err := l.load(ctx, k)
	switch {
	case err != nil:
		return loaded[T]{}, answerAbsent // the client reads the file system and reports its error
	case f == fromMemory:
		return x, answerCached
	case f == fromFileSystem:
		l.count(f)
	}
	return x, answerRead
}

// request reads a sample from another reader. fresh reports that the peer had to
// read it from the file system. room is memory that may be reused.
//
// Errors: ctx.Err(); errAbsent; errors of the peer.
func (p *peers[T]) request(ctx context.Context, reader, k int, room T) (x T, fresh bool, err error) {
	x = p.dataset.Allocate(k, room)
	o := p.others[reader]
	c, err := p.connect(ctx, o)
	if err != nil {
		return x, false, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() }) // interrupts a pending read
	fresh, err = p.receive(c, uint64(k), p.dataset.Buffers(x))
	if !stop() {
		p.close(c)
		return x, false, ctx.Err()
	}
	if err == nil || errors.Is(err, errAbsent) {
		o.release(c)
		return x, fresh, err
	}
	p.close(c)
	p.recordFailure(o, err)
	return x, false, err
}

// recordFailure records the error of a peer. A damaged reply does not disable the
// peer. A connection that closes is not reported: either the peer has finished, or
// the job reports its failure.
func (p *peers[T]) recordFailure(o *peerClient, err error) {
	damaged := errors.Is(err, errDamaged)
	o.mu.Lock()
	o.failed = o.failed || !damaged
	reached := o.reached
	o.mu.Unlock()
	var wait net.Error
	switch {
	case damaged || !reached:
		p.recordError(fmt.Errorf("%s: %w", o.Name, err))
	case errors.As(err, &wait) && wait.Timeout():
		p.recordError(fmt.Errorf("%s: no reply within %v: %w", o.Name, p.timeout, err))
	}
}

var (
	errAbsent  = errors.New("the peer does not have the sample")
	errDamaged = errors.New("damaged reply")
	errFailed  = errors.New("the peer is disabled after an error")
)

// receive sends a request and reads the reply into values.
func (p *peers[T]) receive(c net.Conn, k uint64, values [][]byte) (fresh bool, err error) {
	_ = c.SetDeadline(time.Now().Add(p.timeout))
	if _, err := c.Write(binary.LittleEndian.AppendUint64(nil, k)); err != nil {
		return false, err
	}
	var head [9]byte
	if _, err := io.ReadFull(c, head[:1]); err != nil {
		return false, err
	}
	switch head[0] {
	case answerCached, answerRead:
	case answerAbsent:
		return false, errAbsent
	default:
		return false, fmt.Errorf("%w: unknown status %d", errDamaged, head[0])
	}
	fresh = head[0] == answerRead
	if _, err := io.ReadFull(c, head[1:]); err != nil {
		return false, err
	}
	if n := binary.LittleEndian.Uint64(head[1:]); n != uint64(totalBytes(values)) {
		return false, fmt.Errorf("%w: %d bytes, want %d", errDamaged, n, totalBytes(values))
	}
	sum := checksumSeed(k)
	err = forEachChunk(values, func(piece []byte) error {
		_ = c.SetReadDeadline(time.Now().Add(p.timeout))
		if _, err := io.ReadFull(c, piece); err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, piece)
		return nil
	})
	if err != nil {
		return false, err
	}
	if _, err := io.ReadFull(c, head[:4]); err != nil {
		return false, err
	}
	if got := binary.LittleEndian.Uint32(head[:4]); got != sum {
		return false, fmt.Errorf("%w: checksum %08x, computed %08x", errDamaged, got, sum)
	}
	return fresh, nil
}

// connect returns an idle connection to a peer, or a new one.
func (p *peers[T]) connect(ctx context.Context, o *peerClient) (net.Conn, error) {
	if c, err := o.takeIdle(); c != nil || err != nil {
		return c, err
	}
	o.dial.Lock() // waiting goroutines reuse the address that the first one found
	defer o.dial.Unlock()
	if c, err := o.takeIdle(); c != nil || err != nil {
		return c, err
	}
	// Loopback does not depend on the configuration of the network.
	hosts := o.Hosts
	if o.Machine == p.own.Machine {
		hosts = []string{"127.0.0.1"}
	}
	why := errors.New("the peer has no address")
	for i, host := range hosts {
		c, err := p.handshake(ctx, net.JoinHostPort(host, strconv.Itoa(o.Port)), o.Key)
		if err == nil {
			if i > 0 {
				o.Hosts = []string{host}
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.reached = true
			return c, nil
		}
		why = err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	err := fmt.Errorf("the peer cannot be reached: %w", why)
	p.recordFailure(o, err)
	return nil, err
}

// release returns a connection to the pool.
func (o *peerClient) release(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.idle = append(o.idle, c)
}

// takeIdle returns an idle connection; nil if there is none.
//
// Errors: errFailed if the peer is disabled.
func (o *peerClient) takeIdle() (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed {
		return nil, errFailed
	}
	n := len(o.idle) - 1
	if n < 0 {
		return nil, nil
	}
	c := o.idle[n]
	o.idle = o.idle[:n]
	return c, nil
}

// handshake connects to an address and verifies that the peer has the key.
func (p *peers[T]) handshake(ctx context.Context, address string, key [sha256.Size]byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if !p.register(c) {
		return nil, net.ErrClosed
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	_ = c.SetDeadline(time.Now().Add(connectTimeout))
	var proof [sha256.Size]byte
	want := sha256.Sum256(key[:])
	if _, err = c.Write(append([]byte(peerGreeting), key[:]...)); err == nil {
		if _, err = io.ReadFull(c, proof[:]); err == nil && proof != want {
			err = errors.New("another program uses this port")
		}
	}
	if err != nil {
		p.close(c)
		return nil, err
	}
	return c, nil
}
