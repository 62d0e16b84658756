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

// PeerDataset is an Origin whose samples readers can send each other.
type PeerDataset[T any] interface {
	Dataset[T]
	// Allocate is a sample k without its values: room, or a new one where that is the zero value.
	Allocate(k int, room T) T
	// Buffers is that of the values of a sample.
	Buffers(x T) [][]byte
}

// Peer is how a reader is asked by others for what it keeps in memory, and how many samples
// that is.
type Peer struct {
	Name         string   // in errors
	Machine      string   // equal where Port can be reached without a network
	Hosts        []string // addresses of the machine for others
	Port         int
	Key          [sha256.Size]byte // proves that one is meant
	Memory, Disk int64             // samples
}

// peerClient is a peer as another one asks it, over connections that are used again.
type peerClient struct {
	Peer
	dial sync.Mutex

	mu      sync.Mutex
	idle    []net.Conn
	reached bool
	failed  bool // it is not asked any more
}

// peers are what a loader has of others, and its server for them.
type peers[T any] struct {
	dataset  PeerDataset[T]
	own      Peer
	listener net.Listener
	ctx      context.Context
	stop     context.CancelFunc
	done     sync.WaitGroup
	timeout  time.Duration

	others []*peerClient // by reader; nil for those that cannot be asked, and for this one

	mu    sync.Mutex
	conns map[net.Conn]bool // all that are open
	ended bool
	err   error // why a peer that should have answered was not asked, or not believed
}

const (
	// peerGreeting begins a connection; the number changes with what is said on it.
	peerGreeting = "ensemble samples 1\n"
	// connectTimeout is the time for connecting.
	connectTimeout = 5 * time.Second
	// chunkBytes of an answer are sent and summed at once, while they are in the cache.
	chunkBytes = 256 << 10
)

// Answers to a request: what is asked for follows, from memory or from the file system, or it
// is not there.
const (
	answerCached = iota
	answerRead
	answerAbsent
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Machine is text that is equal for processes that reach each other without a network.
func Machine() string {
	host, _ := os.Hostname() // what cannot be read tells no machines apart
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	network, _ := os.Readlink("/proc/self/ns/net")
	return strings.Join([]string{host, strings.TrimSpace(string(boot)), network}, " ")
}

// Serve lets other readers ask this one, of that name, for what is in memory, those on other
// machines too if abroad. Requests are answered beside what the loader does for its own reader, until it is
// closed.
//
// Errors: 74 if the system gives no port; an origin that is not Portable.
func (l *Loader[T]) Serve(name string, abroad bool) (Peer, error) {
	origin, ok := l.dataset.(PeerDataset[T])
	if !ok {
		return Peer{}, fmt.Errorf("samples of a %T cannot be sent", l.dataset)
	}
	p := &peers[T]{dataset: origin, conns: map[net.Conn]bool{}, timeout: l.o.PeerTimeout}
	caches := l.capacities()
	p.own = Peer{Name: name, Machine: Machine(), Memory: caches[inMemory], Disk: caches[onDisk]}
	if _, err := rand.Read(p.own.Key[:]); err != nil {
		return Peer{}, err
	}
	address := "127.0.0.1:0"
	if abroad {
		address, p.own.Hosts = ":0", addresses()
	}
	var err error
	if p.listener, err = net.Listen("tcp", address); err != nil {
		return Peer{}, fmt.Errorf("no port for other ranks: %w", err)
	}
	p.own.Port = p.listener.Addr().(*net.TCPAddr).Port
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.done.Go(func() { l.serve(p) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers = p
	return p.own, nil
}

// addresses are those of this machine's interfaces to the outside.
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

// ConnectPeers says who the readers of a schedule are: what they keep is asked of them from the next
// Keep on, always or where they were faster than the file system lately. Those without a
// port are not asked. Serve must have been called; peers are those that all of them know.
func (l *Loader[T]) ConnectPeers(all []Peer, reader int, always bool) {
	others := make([]*peerClient, len(all))
	for r, p := range all {
		if r != reader && p.Port > 0 {
			others[r] = &peerClient{Peer: p}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers
	p.others, l.reader, l.peersFirst = others, reader, always
	// At once, so that one that cannot be reached is not taken for one that has done its part.
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

// serve takes connections until the listener is closed.
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
			// Who does not know the key, or goes away, is no error of this reader.
			_ = l.serveConn(p, c)
		})
	}
}

// register notes a connection, so that it is closed with the loader; it tells whether that is
// still open.
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

func (p *peers[T]) close(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// shutdown closes all connections and waits for those who answer.
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

func (p *peers[T]) firstError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// serveConn answers one connection's requests until it ends.
func (l *Loader[T]) serveConn(p *peers[T], c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(connectTimeout))
	hello := make([]byte, len(peerGreeting)+len(p.own.Key))
	if _, err := io.ReadFull(c, hello); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(hello, append([]byte(peerGreeting), p.own.Key[:]...)) != 1 {
		return errors.New("a stranger")
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

// sendSample sends a sample: whether it is there, its bytes, its checksum with its number.
func (l *Loader[T]) sendSample(p *peers[T], c net.Conn, k uint64) error {
	x, kind := l.sampleForPeer(p.ctx, k)
	_ = c.SetWriteDeadline(time.Now().Add(p.timeout))
	if kind == answerAbsent {
		_, err := c.Write([]byte{kind})
		return err
	}
	values := p.dataset.Buffers(x)
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

// checksumSeed is a checksum that begins with the number of the sample, so that no other is taken
// for it.
func checksumSeed(k uint64) uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(nil, k), castagnoli)
}

func totalBytes(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}

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

// sampleForPeer is a sample for another reader: one that is in memory, or whose home is here and that is
// read now. A home asks nobody, so no readers wait for each other in a circle.
func (l *Loader[T]) sampleForPeer(ctx context.Context, number uint64) (x T, answer byte) {
	var none T
	l.mu.Lock()
	k := int(min(number, math.MaxInt))
	x, held := l.memory[k]
	here := k < len(l.holders)
	if here {
		p, ok := owner(k, l.holders[k])
		here = ok && p.reader == l.reader
	}
	l.mu.Unlock()
	switch {
	case held:
		return x, answerCached
	case !here:
		return x, answerAbsent
	}
	x, _, f, err := l.load(ctx, k, none)
	switch {
	case err != nil:
		return none, answerAbsent // the one who asks will find out why
	case f == fromFileSystem:
		l.count(f)
	}
	return x, answerRead
}

// request has a sample from another reader, and whether that had to read it. room is memory that
// may be used.
//
// Errors: ctx.Err(); errAbsent; what is wrong with the other one.
func (p *peers[T]) request(ctx context.Context, reader, k int, room T) (x T, fresh bool, err error) {
	x = p.dataset.Allocate(k, room)
	o := p.others[reader]
	c, err := p.connect(ctx, o)
	if err != nil {
		return x, false, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() }) // wakes who reads from it
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

// recordFailure notes what is wrong with a peer. Damaged answers do not end the asking. That one has
// gone away is told by the job itself, unless it has done its part.
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
		p.recordError(fmt.Errorf("%s: it does not answer within %v: %w", o.Name, p.timeout, err))
	}
}

var (
	errAbsent  = errors.New("the sample is not there")
	errDamaged = errors.New("its answer is damaged")
	errFailed  = errors.New("it has failed before")
)

// receive sends a request, and reads the answer into values.
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
		return false, fmt.Errorf("%w: it begins with %d", errDamaged, head[0])
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
		return false, fmt.Errorf("%w: its checksum is %08x, that of what came %08x", errDamaged, got, sum)
	}
	return fresh, nil
}

// connect gives a connection to a peer: one that is idle, or a new one.
func (p *peers[T]) connect(ctx context.Context, o *peerClient) (net.Conn, error) {
	if c, err := o.takeIdle(); c != nil || err != nil {
		return c, err
	}
	o.dial.Lock() // who waits for others to find the way need not try all addresses
	defer o.dial.Unlock()
	if c, err := o.takeIdle(); c != nil || err != nil {
		return c, err
	}
	hosts := o.Hosts
	if o.Machine == p.own.Machine {
		hosts = []string{"127.0.0.1"}
	}
	why := errors.New("it has no address")
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
	err := fmt.Errorf("it cannot be reached: %w", why)
	p.recordFailure(o, err)
	return nil, err
}

// release lets a connection be used again.
func (o *peerClient) release(c net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.idle = append(o.idle, c)
}

// takeIdle is an idle connection to a peer, nil if there is none.
//
// Errors: the peer is not to be asked any more.
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

// handshake connects to an address, if the peer with that key is there.
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
			err = errors.New("another program answers there")
		}
	}
	if err != nil {
		p.close(c)
		return nil, err
	}
	return c, nil
}
