package tcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// frames returns messages on channel 0 with tag 5 as a connection writes them.
func frames(messages ...[]byte) (raw []byte) {
	here, there := net.Pipe()
	arrived := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(there)
		arrived <- all
	}()
	c := newConnection(here)
	for _, m := range messages {
		c.send(&request{route: route{0, 0, 5}, memory: m, done: make(chan struct{})})
	}
	c.close()
	c.write(nil)
	_ = here.Close()
	return <-arrived
}

// readFrames reads frames of rank 1 from raw bytes. It returns the messages with tag 5 that arrived before the connection ended, received by
// posted receives of 3 bytes or, if none are posted, as they were stored.
func readFrames(t *testing.T, raw []byte, posted int) (messages [][]byte, err error) {
	t.Helper()
	here, there := net.Pipe()
	go func() {
		_, _ = there.Write(raw)
		_ = there.Close()
	}()
	box := newMailbox()
	var all []*request
	for range posted {
		all = append(all, &request{route: route{1, 0, 5}, memory: make([]byte, 3), done: make(chan struct{})})
		box.post(all[len(all)-1])
	}
	err = newConnection(here).read(1, box)
	for _, r := range all {
		switch {
		case r.Test():
			messages = append(messages, r.memory)
		case !bytes.Equal(r.memory, make([]byte, 3)):
			t.Errorf("a receive that has not ended has values: %v", r.memory)
		}
	}
	return append(messages, box.queue(route{1, 0, 5}).arrived...), err
}

// TestFlippedBits: whichever bit of a frame is flipped, its message and all later ones do not arrive, earlier ones do.
func TestFlippedBits(t *testing.T) {
	sent := [][]byte{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}
	whole := frames(sent...)
	one := len(whole) / len(sent)
	for _, posted := range []int{0, len(sent)} {
		if got, err := readFrames(t, whole, posted); !slices.EqualFunc(got, sent, bytes.Equal) || !errors.Is(err, io.EOF) {
			t.Fatalf("%d receives, sound: %v, %v", posted, got, err)
		}
		for bit := 8 * one; bit < 16*one; bit++ {
			raw := bytes.Clone(whole)
			raw[bit/8] ^= 1 << (bit % 8)
			got, err := readFrames(t, raw, posted)
			var damaged *damagedError
			if !slices.EqualFunc(got, sent[:1], bytes.Equal) || !errors.As(err, &damaged) {
				t.Errorf("%d receives, bit %d of the frame: %v, %v", posted, bit-8*one, got, err)
				continue
			}
			want := "header 1 of its messages"
			if bit/8 >= one+headerBytes {
				want = "a message with channel 0, tag 5 and 3 bytes"
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("bit %d: %v, want %q", bit-8*one, err, want)
			}
		}
	}
}

// TestFramesOutOfOrder: a frame that is lost, repeated or overtaken is found, although each frame is sound.
func TestFramesOutOfOrder(t *testing.T) {
	sent := [][]byte{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}
	whole := frames(sent...)
	one := len(whole) / len(sent)
	part := func(i int) []byte { return whole[i*one : (i+1)*one] }
	for name, c := range map[string]struct {
		raw  []byte
		want int // messages that arrive
	}{
		"lost":      {slices.Concat(part(0), part(2)), 1},
		"repeated":  {slices.Concat(part(0), part(0), part(1)), 1},
		"overtaken": {slices.Concat(part(1), part(0), part(2)), 0},
	} {
		got, err := readFrames(t, c.raw, 0)
		var damaged *damagedError
		if !slices.EqualFunc(got, sent[:c.want], bytes.Equal) || !errors.As(err, &damaged) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
