package tcp

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// flipping is a connection of which one bit of what is written is flipped.
type flipping struct {
	net.Conn
	bit     int // from 0; -1: none
	written int // bytes so far
}

func (f *flipping) Write(b []byte) (int, error) {
	raw := append([]byte{}, b...)
	if at := f.bit/8 - f.written; f.bit >= 0 && at >= 0 && at < len(raw) {
		raw[at] ^= 1 << (f.bit % 8)
	}
	n, err := f.Conn.Write(raw)
	f.written += n
	return n, err
}

// greetThrough lets rank 1 of three greet rank 0 through a connection that flips one bit of the greeting or of its answer. It returns the sizes of both, and the
// error of the rank that greets.
func greetThrough(until time.Time, greetingBit, answerBit int) (greeting, answer int, err error) {
	here, there := net.Pipe()
	l := Launch{Rank: 1, Size: 3, Coordinator: "127.0.0.1:7", Token: "JOB"} // a bit of J makes it the end of a line
	out, back := &flipping{Conn: here, bit: greetingBit}, &flipping{Conn: there, bit: answerBit}
	var host sync.WaitGroup
	host.Go(func() {
		c := newConnection(back)
		defer c.Close()
		w := &World{size: l.Size, connections: make([]*connection, l.Size)}
		_, a, _ := w.admit(c, l, 1)
		if a.accepts() {
			a.Addresses = []string{"", "127.0.0.1:8", "127.0.0.1:9"}
		}
		_ = c.SetDeadline(until)
		_ = writeLine(c, a) // the other end may have left
		_, _ = c.Read(make([]byte, 1))
	})
	_, err = greet(newConnection(out), l, 8, until)
	_ = here.Close()
	host.Wait()
	return out.written, back.written, err
}

// TestFault37Greetings: whichever bit of a greeting or of its answer is flipped, the rank that greets ends with 71, and never with a contradiction of the ranks (64).
// If the flipped bit leaves the line without an end, it ends by its time limit.
func TestFault37Greetings(t *testing.T) {
	greeting, answer, err := greetThrough(time.Now().Add(time.Minute), -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	check := func(what string, bytes, bit, greetingBit, answerBit int) {
		all.Go(func() {
			endless := bit/8 == bytes-1
			limit := time.Minute
			if endless {
				limit = time.Second
			}
			_, _, err := greetThrough(time.Now().Add(limit), greetingBit, answerBit)
			var damaged *damagedError
			if exit.CodeOf(err) != exit.RankLost || !endless && !errors.As(err, &damaged) {
				t.Errorf("bit %d of %d bytes of the %s: %v, want the damage with exit code 71", bit, bytes, what, err)
			}
		})
	}
	for bit := range 8 * greeting {
		check("greeting", greeting, bit, bit, -1)
	}
	for bit := range 8 * answer {
		check("answer", answer, bit, -1, bit)
	}
	all.Wait()
}

// TestGreetingOfAnotherVersion: a rank with another version of the protocol is refused, as one with another token is.
func TestGreetingOfAnotherVersion(t *testing.T) {
	here, there := net.Pipe()
	l := Launch{Rank: 1, Size: 2, Coordinator: "127.0.0.1:7"}
	go func() {
		c := newConnection(there)
		w := &World{size: l.Size, connections: make([]*connection, l.Size)}
		_, a, _ := w.admit(c, l, 1)
		_ = writeLine(c, a) // an error shows at the other end
	}()
	c := newConnection(here)
	if err := writeLine(c, hello{strings.Replace(helloFormat, "3", "4", 1), l.Token, l.Size, l.Rank, 8}); err != nil {
		t.Fatal(err)
	}
	var answer welcome
	if err := readLine(c.in, &answer, maxHello); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(answer.Refused, "version") {
		t.Errorf("answered %+v, want that the version is refused", answer)
	}
}
