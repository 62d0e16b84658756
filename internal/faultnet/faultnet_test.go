package faultnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that returns what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

// TestFaults: each fault has its effect on the client, at its byte.
func TestFaults(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789"), 10_000) // several pieces
	for name, c := range map[string]struct {
		faults Faults
		check  func(got []byte, err error) bool
	}{
		"none": {Faults{}, func(got []byte, err error) bool { return err == nil && bytes.Equal(got, sent) }},
		"late": {Faults{Delay: time.Millisecond}, func(got []byte, err error) bool { return err == nil && bytes.Equal(got, sent) }},
		"cut":  {Faults{From: 30, Then: Cut}, func(got []byte, err error) bool { return err != nil && len(got) <= 30 }},
		"drop": {Faults{From: 30, Then: Drop}, func(got []byte, err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) && len(got) == 30 }},
		"damage": {Faults{From: 30, Then: Damage}, func(got []byte, err error) bool {
			return err == nil && bytes.Equal(got[:30], sent[:30]) && !bytes.Equal(got, sent)
		}},
		"flip": {Faults{From: 30, Then: Flip}, func(got []byte, err error) bool {
			return err == nil && got[30] == sent[30]^0x10 && bytes.Equal(got[:30], sent[:30]) && bytes.Equal(got[31:], sent[31:])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := New(echo(t), 1, func(int) (toServer, toClient Faults) { return Faults{}, c.faults })
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			conn, err := net.Dial("tcp", p.Address().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() { _, _ = conn.Write(sent) }() // which fails if it is cut
			wait := time.Minute
			if c.faults.Then == Drop {
				wait = 500 * time.Millisecond
			}
			_ = conn.SetReadDeadline(time.Now().Add(wait))
			got := make([]byte, len(sent))
			n, err := io.ReadFull(conn, got)
			if !c.check(got[:n], err) {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
}

// TestReorder: messages of different routes overtake each other, those of one route do not, and none is lost.
func TestReorder(t *testing.T) {
	one := func(r io.Reader) (string, []byte, error) {
		m := make([]byte, 2)
		_, err := io.ReadFull(r, m)
		return string(m[:1]), m, err
	}
	p, err := New(echo(t), 1, func(int) (toServer, toClient Faults) { return Faults{Messages: one}, Faults{} })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	conn, err := net.Dial("tcp", p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var sent []byte
	for i := range byte(100) {
		sent = append(sent, 'a'+i%2, i)
	}
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(sent))
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	next := map[byte]byte{'a': 0, 'b': 1}
	for i := 0; i < len(got); i += 2 {
		if route := got[i]; got[i+1] != next[route] {
			t.Fatalf("route %c: message %d, want %d", route, got[i+1], next[route])
		} else {
			next[route] += 2
		}
	}
	if bytes.Equal(got, sent) {
		t.Error("no message has overtaken another")
	}
}
