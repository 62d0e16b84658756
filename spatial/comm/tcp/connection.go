package tcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"time"
)

// chunkBytes is the largest part of a payload that is written at a time at a limited rate, and read at a time: its checksum is
// computed while it is in the processor's cache.
const chunkBytes = 64 << 10

// connection is the connection with one other process.
type connection struct {
	net.Conn
	in   *bufio.Reader
	mu   sync.Mutex
	more sync.Cond // outgoing has changed
	// frames to write, in order; the first may be in progress
	outgoing []*request
	closed   bool // no frame is added any more; those queued are written
}

func newConnection(c net.Conn) *connection {
	n := &connection{Conn: c, in: bufio.NewReaderSize(c, chunkBytes)}
	n.more.L = &n.mu
	return n
}

// send queues a frame.
func (c *connection) send(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		r.end(errors.New("the connection is closed"))
		return
	}
	c.outgoing = append(c.outgoing, r)
	c.more.Signal()
}

// close stops the writer after the frames that are queued.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.more.Signal()
}

// next returns the first frame, when there is one; nil after close.
func (c *connection) next() *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.outgoing) == 0 && !c.closed {
		c.more.Wait()
	}
	if len(c.outgoing) == 0 {
		return nil
	}
	return c.outgoing[0]
}

// write writes frames until close, or until an error, with which the frames that are left end.
func (c *connection) write(limit *rateLimit) {
	var err error
	n := uint64(0)
	for r := c.next(); r != nil; r = c.next() {
		if err == nil {
			err = c.writeFrame(r, n, limit)
			n++
		}
		r.end(err)
		c.mu.Lock()
		c.outgoing = c.outgoing[1:]
		c.mu.Unlock()
	}
}

// writeFrame writes the n-th frame.
func (c *connection) writeFrame(r *request, n uint64, limit *rateLimit) error {
	header := header{r.channel, r.tag, uint64(len(r.memory)), crc32.Checksum(r.memory, castagnoli)}.append(make([]byte, 0, headerBytes), n)
	if limit == nil {
		frame := net.Buffers{header, r.memory}
		_, err := frame.WriteTo(c.Conn)
		return err
	}
	limit.wait(len(header))
	if _, err := c.Conn.Write(header); err != nil {
		return err
	}
	for rest := r.memory; len(rest) > 0; {
		n := min(len(rest), chunkBytes)
		limit.wait(n)
		if _, err := c.Conn.Write(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// read reads frames until the connection ends or a frame is damaged, and returns why.
func (c *connection) read(from int, box *mailbox) error {
	var raw [headerBytes]byte
	for n := uint64(0); ; n++ {
		if _, err := io.ReadFull(c.in, raw[:]); err != nil {
			return err
		}
		h, err := parseHeader(&raw, n)
		if err != nil {
			return err
		}
		if err := c.readPayload(from, h, box); err != nil {
			return err
		}
	}
}

// readPayload reads the payload of a frame, into the memory of the receive that is posted for it if there is one. If the payload is
// incomplete or damaged, the receive stays posted, without values, until its rank is lost.
func (c *connection) readPayload(from int, h header, box *mailbox) error {
	if h.size > 1<<62 {
		return fmt.Errorf("a message of %d bytes", h.size)
	}
	at := route{from, h.channel, h.tag}
	r := box.take(at)
	switch {
	case r == nil:
	case h.size != uint64(len(r.memory)):
		r.end(sizeError(int(h.size), len(r.memory)))
		_, err := io.CopyN(io.Discard, c.in, int64(h.size))
		return err
	default:
		err := h.read(c.in, r.memory)
		if err != nil {
			clear(r.memory)
			box.putBack(r)
			return err
		}
		r.end(nil)
		return nil
	}
	// Memory grows with the data that arrive: a sender that is no rank may state any size.
	var data bytes.Buffer
	data.Grow(int(min(h.size, chunkBytes)))
	if _, err := io.CopyN(&data, c.in, int64(h.size)); err != nil {
		return err
	}
	if err := h.check(crc32.Checksum(data.Bytes(), castagnoli)); err != nil {
		return err
	}
	box.put(at, data.Bytes())
	return nil
}

// read reads a payload.
func (h header) read(in io.Reader, to []byte) error {
	var sum uint32
	for len(to) > 0 {
		piece := to[:min(len(to), chunkBytes)]
		if _, err := io.ReadFull(in, piece); err != nil {
			return err
		}
		sum, to = crc32.Update(sum, castagnoli, piece), to[len(piece):]
	}
	return h.check(sum)
}

// rateLimit bounds the bytes per second that a process writes, over all its connections, for measurements of slow networks.
//
// Concurrency: any goroutine may wait.
type rateLimit struct {
	rate float64 // bytes per second
	mu   sync.Mutex
	free time.Time // when the bytes written so far have left
}

// wait waits until n more bytes may be written.
func (l *rateLimit) wait(n int) {
	l.mu.Lock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	until := l.free
	l.mu.Unlock()
	time.Sleep(time.Until(until))
}
