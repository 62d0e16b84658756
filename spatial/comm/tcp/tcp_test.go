package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
	"github.com/ensemble-weather/ensemble/spatial/comm/liveness"
)

// part is the variable that makes this test binary a process of a job: program, rank, size, coordinator.
const part = "ENSEMBLE_TCP_TEST"

func TestMain(m *testing.M) {
	if what := os.Getenv(part); what != "" {
		f := strings.Split(what, ";")
		rank, _ := strconv.Atoi(f[1])
		size, _ := strconv.Atoi(f[2])
		err := commtest.RunRank(f[0], func(stall time.Duration) (commtest.Job, error) {
			return Join(Launch{Rank: rank, Size: size, Coordinator: f[3], Token: "test"}, stall)
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(int(exit.CodeOf(err)))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// freeAddress returns an address of this machine at which nobody listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// runJob runs a program on n processes of this test binary, and returns their output and exit codes.
func runJob(t *testing.T, what string, n int) (output string, codes []int) {
	t.Helper()
	at := freeAddress(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out lockedBuffer
	var all sync.WaitGroup
	codes = make([]int, n)
	for r := range n {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "GOMAXPROCS=2", fmt.Sprintf("%s=%s;%d;%d;%s", part, what, r, n, at))
		cmd.Stdout, cmd.Stderr = &out, &out
		all.Go(func() {
			var e *exec.ExitError
			if err := cmd.Run(); errors.As(err, &e) {
				codes[r] = e.ExitCode()
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	if !hangs[what] {
		all.Wait()
		return out.String(), codes
	}
	for range 600 { // those that do not end are ended, as a launcher would
		time.Sleep(50 * time.Millisecond)
		if strings.Contains(out.String(), "rank 0:") && strings.Contains(out.String(), "rank 2:") {
			break
		}
	}
	cancel()
	all.Wait()
	return out.String(), codes
}

// hangs are the programs of which a process does not end by itself.
var hangs = map[string]bool{"sleeps": true, "is stopped": true, "fails": true, "sleeps while others wait for any message": true}

// lockedBuffer is a buffer that several processes write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The conformance suite passes on processes, and on hosted ranks.
func TestPrograms(t *testing.T) {
	for _, k := range []struct {
		what     string
		n, ranks int
	}{{"programs", 1, 1}, {"programs", 2, 2}, {"programs", 3, 3}, {"programs", 5, 5}, {"parts 3", 1, 3}, {"parts 8", 3, 8}} {
		out, codes := runJob(t, k.what, k.n)
		if !strings.Contains(out, fmt.Sprintf("passed on %d ranks", k.ranks)) {
			t.Errorf("%s on %d processes: %v\n%s", k.what, k.n, codes, out)
		}
	}
}

// Each failure of rank 1 ends the others with the same reason: a rank that is killed, that leaves or that reports an error at
// once, one that does not answer after the stall timeout.
func TestFailures(t *testing.T) {
	for what, want := range map[string]struct {
		text   string
		atOnce bool
	}{
		"sleeps": {"rank 1: no answer in time: 2s", false}, "sleeps while others wait for any message": {"rank 1: no answer in time: 2s", false}, "is stopped": {"rank 1: no answer in time: 2s", false},
		"leaves": {"rank 1: no answer in time: 2s: it has already finished", false}, "fails": {"rank 1: it failed: its disk is full", true},
		"is killed": {"rank 1: its connection ended: ", true}, "loses a message": {"no answer in time: 2s", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			out, codes := runJob(t, what, 3)
			if !strings.Contains(out, want.text) || codes[0] == 0 || codes[2] == 0 {
				t.Errorf("%v\n%s", codes, out)
			}
			if want.text != "no answer in time: 2s" && strings.Contains(out, "rank 0: rank 2:") {
				t.Errorf("rank 2 is blamed\n%s", out)
			}
			if d := time.Since(begin); want.atOnce && d > 20*time.Second {
				t.Errorf("ended after %v", d)
			}
		})
	}
}

// A task that waits for its own process too does not count as stalled while that computes.
func TestOwnRankComputes(t *testing.T) {
	if out, codes := runJob(t, "computes", 3); slices.Max(codes) > 0 || strings.Contains(out, "no answer") {
		t.Errorf("%v\n%s", codes, out)
	}
}

// join joins all ranks of a job within this process.
func join(t *testing.T, launches []Launch, stall time.Duration) ([]*World, []error) {
	t.Helper()
	worlds, errs := make([]*World, len(launches)), make([]error, len(launches))
	var all sync.WaitGroup
	for i, l := range launches {
		all.Go(func() { worlds[i], errs[i] = Join(l, stall) })
	}
	all.Wait()
	return worlds, errs
}

// Processes that contradict each other are refused with the reason, on both sides.
func TestContradictions(t *testing.T) {
	at := freeAddress(t)
	for name, k := range map[string]struct {
		launches []Launch
		codes    []exit.Code
		want     string
	}{
		"two of one rank": {[]Launch{{Rank: 0, Size: 3, Coordinator: at}, {Rank: 1, Size: 3, Coordinator: at}, {Rank: 1, Size: 3, Coordinator: at}}, []exit.Code{exit.Usage, 0, 0}, "two processes are rank 1"},
		"other size":      {[]Launch{{Rank: 0, Size: 2, Coordinator: at}, {Rank: 1, Size: 3, Coordinator: at}}, []exit.Code{exit.Usage, exit.Usage}, "rank 1 of a job of 3, this one has 2"},
		"other token":     {[]Launch{{Rank: 0, Size: 2, Coordinator: at, Token: "a"}, {Rank: 1, Size: 2, Coordinator: at, Token: "b"}}, []exit.Code{exit.RankLost, exit.Usage}, "token"},
		"one is missing":  {[]Launch{{Rank: 0, Size: 3, Coordinator: at}, {Rank: 1, Size: 3, Coordinator: at}}, []exit.Code{exit.RankLost, exit.RankLost}, "ranks [2] have not connected"},
		"nobody":          {[]Launch{{Rank: 1, Size: 2, Coordinator: at}}, []exit.Code{exit.RankLost}, "cannot join the job"},
		"no rank":         {[]Launch{{Rank: 2, Size: 2, Coordinator: at}}, []exit.Code{exit.Usage}, "ranks are numbered from 0"},
		"no port":         {[]Launch{{Rank: 0, Size: 1, Coordinator: "node"}}, []exit.Code{exit.Usage}, "HOST:PORT"},
	} {
		_, errs := join(t, k.launches, time.Second)
		if text := fmt.Sprint(errs); !strings.Contains(text, k.want) {
			t.Errorf("%s: %s, want %q", name, text, k.want)
		}
		for i, want := range k.codes {
			if want != 0 && exit.CodeOf(errs[i]) != want {
				t.Errorf("%s: rank %d: %v, want exit %d", name, i, errs[i], want)
			}
		}
	}
}

// A connection of another program neither ends nor joins the job.
func TestStranger(t *testing.T) {
	at := freeAddress(t)
	stop := make(chan struct{})
	var strangers sync.WaitGroup
	strangers.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if c, err := net.Dial("tcp", at); err == nil {
				fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", strings.Repeat("x", 5000))
				_ = c.Close()
			}
		}
	})
	worlds, errs := join(t, []Launch{{Rank: 0, Size: 2, Coordinator: at}, {Rank: 1, Size: 2, Coordinator: at}}, 10*time.Second)
	close(stop)
	strangers.Wait()
	if errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	closeAll(t, worlds)
}

func closeAll(t *testing.T, worlds []*World) {
	t.Helper()
	var all sync.WaitGroup
	for _, w := range worlds {
		all.Go(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// At a limited rate a message takes at least its bytes over the rate.
func TestRate(t *testing.T) {
	at := freeAddress(t)
	const rate, bytes = 20e6, 4e6
	worlds, errs := join(t, []Launch{{Rank: 0, Size: 2, Coordinator: at, Rate: rate}, {Rank: 1, Size: 2, Coordinator: at, Rate: rate}}, 10*time.Second)
	if errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	begin := time.Now()
	var all sync.WaitGroup
	for _, w := range worlds {
		all.Go(func() {
			x := make([]float32, bytes/4)
			if err := comm.WaitAll(w.Recv(1-w.Rank(), 1, make([]float32, len(x))), w.Send(1-w.Rank(), 1, x)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s := time.Since(begin).Seconds(); s < bytes/rate {
		t.Errorf("%.0f bytes at %.0f a second took %.3f s", bytes, rate, s)
	}
	closeAll(t, worlds)
}

// FuzzFrames: frames of any content end with an error or a message, without memory beyond the bytes that arrive.
func FuzzFrames(f *testing.F) {
	whole := frames([]byte{1, 2, 3})
	f.Add(whole, false)
	f.Add(whole[:len(whole)-1], false)
	f.Add(slices.Concat([]byte{0, 0, 0, 0, 5, 0, 0, 0}, bytes.Repeat([]byte{255}, 40)), true)
	f.Fuzz(func(t *testing.T, data []byte, sum bool) {
		if sum && len(data) >= headerBytes { // a header that is what its sender wrote
			binary.LittleEndian.PutUint32(data[headerBytes-4:], headerSum(data[:headerBytes-4], 0))
		}
		here, there := net.Pipe()
		go func() {
			_, _ = there.Write(data)
			_ = there.Close()
		}()
		box := newMailbox()
		r := &request{route: route{1, 0, 5}, memory: make([]byte, 3), done: make(chan struct{})}
		box.post(r)
		if err := newConnection(here).read(1, box); err == nil {
			t.Error("a connection that ended has no error")
		}
		box.lose(1, errors.New("ended"))
		if !r.Test() {
			t.Error("a receive has not ended")
		}
	})
}

// A process leaves the job also if another one never does, or reads no more: the error names that one.
func TestCloseWithoutOthers(t *testing.T) {
	at := freeAddress(t)
	worlds, errs := join(t, []Launch{{Rank: 0, Size: 3, Coordinator: at}, {Rank: 1, Size: 3, Coordinator: at}, {Rank: 2, Size: 3, Coordinator: at}}, time.Second)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe() // whose other end is not read
	defer there.Close()
	deaf := &World{rank: 0, size: 2, connections: []*connection{nil, newConnection(here)}, box: newMailbox()}
	deaf.start(100 * time.Millisecond)
	var all sync.WaitGroup
	for w, rank := range map[*World]int{worlds[0]: 2, worlds[1]: 2, deaf: 1} {
		all.Go(func() {
			var lost *comm.RankError
			if err := w.Close(); !errors.As(err, &lost) || lost.Rank != rank || !errors.Is(err, liveness.ErrStalled) {
				t.Errorf("got %v, want that of rank %d", err, rank)
			}
		})
	}
	all.Wait()
	if err := worlds[2].Close(); err != nil {
		t.Errorf("after all others have left: %v", err)
	}
}

// A rank that dies while others leave is an error of those.
func TestCloseBesideLostRank(t *testing.T) {
	at := freeAddress(t)
	worlds, errs := join(t, []Launch{{Rank: 0, Size: 2, Coordinator: at}, {Rank: 1, Size: 2, Coordinator: at}}, time.Minute)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if err := worlds[1].connections[0].Close(); err != nil {
		t.Fatal(err)
	}
	var lost *comm.RankError
	if err := worlds[0].Close(); !errors.As(err, &lost) || lost.Rank != 1 || errors.Is(err, liveness.ErrStalled) {
		t.Errorf("got %v, want that rank 1 was lost", err)
	}
}
