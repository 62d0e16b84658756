package tcp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// headerBytes is the size of a frame's header.
const headerBytes = 16

// chunkBytes is the largest part of a payload that is written at a time at a limited rate, and read at a time without a
// receive.
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
	for r := c.next(); r != nil; r = c.next() {
		if err == nil {
			err = c.writeFrame(r, limit)
		}
		r.end(err)
		c.mu.Lock()
		c.outgoing = c.outgoing[1:]
		c.mu.Unlock()
	}
}

// writeFrame writes one frame.
func (c *connection) writeFrame(r *request, limit *rateLimit) error {
	header := binary.LittleEndian.AppendUint32(make([]byte, 0, headerBytes), uint32(r.channel))
	header = binary.LittleEndian.AppendUint32(header, uint32(r.tag))
	header = binary.LittleEndian.AppendUint64(header, uint64(len(r.memory)))
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

// read reads frames until the connection ends, and returns why.
func (c *connection) read(from int, box *mailbox) error {
	var header [headerBytes]byte
	for {
		if _, err := io.ReadFull(c.in, header[:]); err != nil {
			return err
		}
		at := route{from, int(binary.LittleEndian.Uint32(header[:])), int(binary.LittleEndian.Uint32(header[4:]))}
		size := binary.LittleEndian.Uint64(header[8:])
		if err := c.readPayload(at, size, box); err != nil {
			return err
		}
	}
}

// readPayload reads the payload of a frame, into the memory of the receive that is posted for it if there is one.
func (c *connection) readPayload(at route, size uint64, box *mailbox) error {
	if r := box.take(at); r != nil {
		if size != uint64(len(r.memory)) {
			r.end(sizeError(int(size), len(r.memory)))
			_, err := io.CopyN(io.Discard, c.in, int64(size))
			return err
		}
		_, err := io.ReadFull(c.in, r.memory)
		r.end(err)
		return err
	}
	if size > 1<<62 {
		return fmt.Errorf("a message of %d bytes", size)
	}
	// Memory grows with the data that arrive, whatever a damaged header says.
	var data bytes.Buffer
	data.Grow(int(min(size, chunkBytes)))
	if _, err := io.CopyN(&data, c.in, int64(size)); err != nil {
		return err
	}
	box.put(at, data.Bytes())
	return nil
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
