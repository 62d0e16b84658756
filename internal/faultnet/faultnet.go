// Package faultnet puts a faulty network between the two ends of TCP connections: a proxy that delays, cuts, silences,
// damages and reorders what it forwards. Only tests import it.
package faultnet

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Faults are those of one direction of a connection. The zero value forwards unchanged.
type Faults struct {
	// Delay is the largest time by which a piece is late; each is late by a random part of it.
	Delay time.Duration
	// From is the number of bytes that are forwarded unchanged before Then applies.
	From int64
	Then Fault
	// Messages reads one message with its route; nil forwards bytes as they come. Messages of different routes overtake each
	// other, those of one route never.
	Messages func(r io.Reader) (route string, message []byte, err error)
}

// Fault is what happens to the bytes after the first ones.
type Fault int

// Faults after the first bytes of a direction.
const (
	None   Fault = iota
	Cut          // the connection is reset
	Drop         // bytes are read and lost; both ends stay connected, as with a half-open connection
	Damage       // a bit of each piece is flipped
	Flip         // a bit of the first byte is flipped, and no other
)

// Network is what a proxy does to the n-th connection, numbered from 0, in each direction.
type Network func(n int) (toServer, toClient Faults)

// Proxy forwards connections to a server.
//
// Concurrency: any goroutine may call its methods.
type Proxy struct {
	listener net.Listener
	server   string
	network  Network
	seed     uint64
	done     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	ended bool
}

// New starts a proxy on a free port of this machine. seed determines delays and order.
//
// Errors: those of listening.
func New(server string, seed uint64, network Network) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, server: server, network: network, seed: seed, conns: map[net.Conn]bool{}}
	p.done.Go(p.serve)
	return p, nil
}

// Address is the one to which clients connect.
func (p *Proxy) Address() *net.TCPAddr { return p.listener.Addr().(*net.TCPAddr) }

// Close ends all connections and waits for their goroutines.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}

// serve accepts connections until Close.
func (p *Proxy) serve() {
	for n := 0; ; n++ {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		toServer, toClient := p.network(n)
		p.done.Go(func() {
			server, err := p.dial()
			if err != nil || !p.register(client, server) {
				client.Close()
				return
			}
			p.done.Go(func() { toServer.forward(server, client, rand.New(rand.NewPCG(p.seed, uint64(2*n)))) })
			toClient.forward(client, server, rand.New(rand.NewPCG(p.seed, uint64(2*n+1))))
		})
	}
}

// dial connects to the server, which may not listen yet.
func (p *Proxy) dial() (c net.Conn, err error) {
	for range 1000 {
		if c, err = net.Dial("tcp", p.server); err == nil || p.hasEnded() {
			return c, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, err
}

// hasEnded reports whether Close was called.
func (p *Proxy) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// register records connections, so that Close closes them. It returns false after Close.
func (p *Proxy) register(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.ended {
			c.Close()
			continue
		}
		p.conns[c] = true
	}
	return !p.ended
}

// errCut ends a direction by a reset.
var errCut = errors.New("faultnet: cut")

// forward copies one direction until it ends, and passes on how it ended.
func (f Faults) forward(to, from net.Conn, random *rand.Rand) {
	var err error
	if f.Messages != nil {
		err = f.reorder(to, from, random)
	} else {
		err = f.copy(to, from, random)
	}
	if errors.Is(err, errCut) {
		for _, c := range []net.Conn{to, from} {
			_ = c.(*net.TCPConn).SetLinger(0) // a reset
			c.Close()
		}
		return
	}
	_ = to.(*net.TCPConn).CloseWrite()
}

// copy forwards bytes.
func (f Faults) copy(to io.Writer, from io.Reader, random *rand.Rand) error {
	buffer := make([]byte, 32<<10)
	for sent := int64(0); ; {
		room := buffer
		if f.Then != None && sent < f.From { // so that the fault begins at its byte
			room = buffer[:min(int64(len(buffer)), f.From-sent)]
		}
		n, err := from.Read(room)
		if n > 0 {
			f.wait(random)
			piece := room[:n]
			switch {
			case sent < f.From || f.Then == None:
			case f.Then == Cut:
				return errCut
			case f.Then == Drop:
				piece = nil
			case f.Then == Damage:
				piece[n-1] ^= 0x10
			case f.Then == Flip && sent == f.From:
				piece[0] ^= 0x10
			}
			sent += int64(n)
			if _, err := to.Write(piece); err != nil {
				return err
			}
		}
		if f.Then == Cut && sent >= f.From {
			return errCut
		}
		if err != nil {
			return err
		}
	}
}

// wait delays a piece.
func (f Faults) wait(random *rand.Rand) {
	if f.Delay > 0 {
		time.Sleep(time.Duration(random.Int64N(int64(f.Delay))))
	}
}

// message is one that another may overtake.
type message struct {
	route string
	text  []byte
	err   error
}

// holdTime is the longest time for which a message waits for another one to overtake it.
const holdTime = 5 * time.Millisecond

// reorder forwards messages. One of two is held back until one of another route has overtaken it, or until no other comes.
func (f Faults) reorder(to io.Writer, from io.Reader, random *rand.Rand) error {
	if f.From > 0 {
		if _, err := io.CopyN(to, from, f.From); err != nil {
			return err
		}
	}
	next := make(chan message)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			route, text, err := f.Messages(from)
			select {
			case next <- message{route, text, err}:
			case <-ended:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var held *message
	for {
		var late <-chan time.Time
		if held != nil {
			late = time.After(holdTime)
		}
		var out []message
		select {
		case m := <-next:
			switch {
			case held != nil && (m.err != nil || m.route == held.route):
				out, held = append(out, *held, m), nil
			case held != nil:
				out, held = append(out, m, *held), nil
			case m.err == nil && random.IntN(2) == 0:
				held = &m
			default:
				out = append(out, m)
			}
		case <-late:
			out, held = append(out, *held), nil
		}
		for _, m := range out {
			if m.err != nil {
				return m.err
			}
			f.wait(random)
			if _, err := to.Write(m.text); err != nil {
				return err
			}
		}
	}
}
