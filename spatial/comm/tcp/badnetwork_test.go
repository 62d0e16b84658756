package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultnet"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// programsThrough runs the conformance suite on three ranks of this process, of which two reach rank 0 through a network, and
// returns the error of each.
func programsThrough(t *testing.T, network faultnet.Network, stall time.Duration) []error {
	t.Helper()
	at := freeAddress(t)
	proxy, err := faultnet.New(at, 40, network)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	errs := make([]error, 3)
	var all sync.WaitGroup
	for r, coordinator := range []string{at, proxy.Address().String(), proxy.Address().String()} {
		all.Go(func() {
			w, err := Join(Launch{Rank: r, Size: 3, Coordinator: coordinator, Token: "test"}, stall)
			if err != nil {
				errs[r] = err
				return
			}
			errs[r] = errors.Join(runAll(comm.New(w)), w.Close())
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("a rank has not ended")
	}
	return errs
}

// runAll runs the conformance suite, whose programs compare what they receive, bit by bit.
func runAll(c *comm.Comm) error {
	for _, p := range commtest.Programs {
		if err := p.Run(c); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// isLost reports whether an error ends a job with exit code 71.
func isLost(err error) bool {
	var lost *comm.RankError
	return errors.As(err, &lost) || exit.CodeOf(err) == exit.RankLost
}

// TestLateMessages: ranks compute the same if messages are late, each by another time, so that those of different ranks overtake
// each other.
func TestLateMessages(t *testing.T) {
	errs := programsThrough(t, func(int) (toServer, toClient faultnet.Faults) {
		return faultnet.Faults{Delay: 2 * time.Millisecond}, faultnet.Faults{Delay: time.Millisecond}
	}, time.Minute)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// brokenAt are the bytes of a connection after which it breaks: in the greeting, behind it, and among the messages.
var brokenAt = []int64{0, 40, 150, 3_000}

// TestBrokenConnections: if a connection is cut, or silent in one direction, all ranks end with the error of a lost rank.
func TestBrokenConnections(t *testing.T) { checkBroken(t, brokenAt) }

// checkBroken breaks one of two connections after each number of bytes, in each direction. Ranks that have joined notice a cut one at once,
// without the watchdog, whose time is longer here than that of the test.
func checkBroken(t *testing.T, at []int64) {
	for name, kind := range map[string]faultnet.Fault{"cut": faultnet.Cut, "silent": faultnet.Drop} {
		for _, from := range at {
			for broken := range 2 {
				for _, toServer := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s after %d bytes, connection %d, to rank 0 %v", name, from, broken, toServer), func(t *testing.T) {
						t.Parallel()
						stall := 2 * time.Second
						if kind == faultnet.Cut && from >= 3_000 {
							stall = 10 * time.Minute
						}
						errs := programsThrough(t, func(n int) (up, down faultnet.Faults) {
							f := faultnet.Faults{From: from, Then: kind}
							switch {
							case n != broken:
								return up, down
							case toServer:
								return f, down
							}
							return up, f
						}, stall)
						for r, err := range errs {
							if !isLost(err) {
								t.Errorf("rank %d: %v, want that a rank was lost", r, err)
							}
						}
					})
				}
			}
		}
	}
}

// readFrame reads the greeting of a connection, a line, or a frame, and returns its route.
func readFrame(r io.Reader) (route string, frame []byte, err error) {
	frame = make([]byte, 1, headerBytes)
	if _, err := io.ReadFull(r, frame); err != nil {
		return "", nil, err
	}
	if frame[0] == '{' { // no channel has this number
		for frame[len(frame)-1] != '\n' {
			frame = append(frame, 0)
			if _, err := io.ReadFull(r, frame[len(frame)-1:]); err != nil {
				return "", nil, err
			}
		}
		return "", frame, nil
	}
	if _, err := io.ReadFull(r, frame[1:headerBytes]); err != nil {
		return "", nil, err
	}
	frame = frame[:headerBytes]
	at := string(frame[:8])
	frame = append(frame, make([]byte, binary.LittleEndian.Uint64(frame[8:]))...)
	_, err = io.ReadFull(r, frame[headerBytes:])
	return at, frame, err
}

// TestReorderedMessages: if messages of different tags overtake each other within a connection, all ranks end with the error of a lost rank, and
// one of them states the reason.
func TestReorderedMessages(t *testing.T) {
	errs := programsThrough(t, func(int) (toServer, toClient faultnet.Faults) { return faultnet.Faults{Messages: readFrame}, toClient }, 30*time.Second)
	var damaged *damagedError
	if !errors.As(errors.Join(errs...), &damaged) || !strings.Contains(damaged.Error(), "header") {
		t.Errorf("no rank found the wrong order: %v", errs)
	}
	for r, err := range errs {
		if !isLost(err) {
			t.Errorf("rank %d: %v, want that a rank was lost", r, err)
		}
	}
}

// TestDamagedMessages: if one bit of a connection is flipped, in the greeting or behind it, all ranks end with the error of a lost rank, and that
// of one states the damage.
func TestDamagedMessages(t *testing.T) {
	for _, from := range []int64{0, 30, 80, 400, 401, 411, 3_000, 30_000} {
		stall := 30 * time.Second
		if from < 100 { // in the greeting or its answer; the others wait for the rank until they give up
			stall = 5 * time.Second
		}
		for _, toServer := range []bool{true, false} {
			t.Run(fmt.Sprintf("byte %d, to rank 0 %v", from, toServer), func(t *testing.T) {
				t.Parallel()
				errs := programsThrough(t, func(n int) (up, down faultnet.Faults) {
					f := faultnet.Faults{From: from, Then: faultnet.Flip}
					switch {
					case n != 1:
						return up, down
					case toServer:
						return f, down
					}
					return up, f
				}, stall)
				var damaged *damagedError
				if !errors.As(errors.Join(errs...), &damaged) {
					t.Errorf("no rank found the damage: %v", errs)
				}
				for r, err := range errs {
					if !isLost(err) {
						t.Errorf("rank %d: %v, want that a rank was lost", r, err)
					}
				}
			})
		}
	}
}
