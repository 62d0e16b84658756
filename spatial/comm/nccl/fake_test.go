//go:build cgo && linux

package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
	"github.com/ensemble-weather/ensemble/internal/allocs"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

func TestMain(m *testing.M) { librariestest.Main(m) }

// loaded is a device as its handles tell it.
const loaded = librariestest.FakeHandles(0x50000)

// at is an address of no memory of this program.
var at = librariestest.FakeAddress

// fake opens the fake NCCL library. log returns its calls since the last call of
// log.
func fake(t *testing.T) (l *Library, log func() []string) {
	t.Helper()
	find, log := librariestest.Fake(t, "FAKE_HANG")
	l, err := Open(find)
	if err != nil {
		t.Fatal(err)
	}
	return l, log
}

// alone is the communicator of a group of one rank.
func alone(t *testing.T, l *Library) *Comm {
	t.Helper()
	c, err := l.Join(comm.New(single{}), loaded)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// All ranks of a group join with the id of its first, and groups have ids of their own.
func TestJoin(t *testing.T) {
	l, log := fake(t)
	err := comm.Run(4, comm.Parallel, func(world *comm.Comm) error {
		group, err := world.Split(world.Rank()%2, -world.Rank()) // the other way round
		if err != nil {
			return err
		}
		c, err := l.Join(group, loaded)
		if err != nil {
			return err
		}
		if c.Rank() != group.Rank() || c.Size() != 2 {
			return fmt.Errorf("rank %d of %d, want %d of 2", c.Rank(), c.Size(), group.Rank())
		}
		if err := comm.Barrier(world); err != nil {
			return err
		}
		return errors.Join(c.Close(), c.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string][]string{}
	ended := 0 // ranks write side by side: how many each finds alive is not in order
	for _, line := range log() {
		switch w := strings.Fields(line); w[0] {
		case "init":
			ids[w[5]] = append(ids[w[5]], w[1])
		case "destroy":
			ended++
		}
	}
	if len(ids) != 2 {
		t.Errorf("ids: got %v, want two", ids)
	}
	for id, ranks := range ids {
		slices.Sort(ranks)
		if !slices.Equal(ranks, []string{"0", "1"}) {
			t.Errorf("id %s: ranks %v", id, ranks)
		}
	}
	if ended != 4 {
		t.Errorf("%d communicators of 4 were ended", ended)
	}
}

// If rank 0 has no id, or versions differ, all ranks get an error and none hangs.
func TestJoinFails(t *testing.T) {
	l, _ := fake(t)
	t.Setenv("FAKE_FAIL", "ncclGetUniqueId=3@1")
	errs := make([]error, 3)
	if err := comm.Run(3, comm.Parallel, func(group *comm.Comm) error {
		_, errs[group.Rank()] = l.Join(group, loaded)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for r, want := range []string{"ncclGetUniqueId: internal error (3)", "rank 0 could not create a communicator id", "rank 0 could not create a communicator id"} {
		if errs[r] == nil || !strings.Contains(errs[r].Error(), want) {
			t.Errorf("rank %d: got %v, want %q", r, errs[r], want)
		}
	}
	t.Setenv("FAKE_FAIL", "ncclCommInitRank=3@1")
	if err := comm.Run(1, comm.Parallel, func(group *comm.Comm) error { _, err := l.Join(group, loaded); return err }); err == nil || !strings.Contains(err.Error(), "ncclCommInitRank: internal error") {
		t.Errorf("got %v", err)
	}
	t.Setenv("FAKE_FAIL", "")
	older := &Library{t: l.t, code: 22100, path: l.path}
	if err := comm.Run(3, comm.Parallel, func(group *comm.Comm) error {
		lib := l
		if group.Rank() == 1 {
			lib = older
		}
		_, errs[group.Rank()] = lib.Join(group, loaded)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for r, err := range errs {
		if exit.CodeOf(err) != exit.NoDevice || !strings.Contains(fmt.Sprint(err), "from 2.21.0 to 2.32.3") {
			t.Errorf("rank %d: got %v", r, err)
		}
	}
}

// The arguments of all calls of NCCL; the calls allocate nothing.
func TestOperations(t *testing.T) {
	l, log := fake(t)
	c := alone(t, l)
	log()
	x, y := at(0x10000), at(0x20000)
	parts := []Part{{Rank: 0, Send: x, SendBytes: 12, Recv: y, RecvBytes: 16}, {Rank: 0, Recv: x, RecvBytes: 8}, {Rank: 0}}
	ask := func() error {
		return errors.Join(c.AllReduce(x, x, 5, Float32), c.AllReduce(x, x, 0, Float32), c.ReduceScatter(x, y, 6, BFloat16), c.AllGather(y, x, 7, Float16), c.Exchange(parts))
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ncclAllReduce 0: 5 of type 7 op 0 from 0x10000 to 0x10000 on 0x50000",
		"ncclReduceScatter 0: 6 of type 9 op 0 from 0x10000 to 0x20000 on 0x50000",
		"ncclAllGather 0: 7 of type 6 op -1 from 0x20000 to 0x10000 on 0x50000",
		"begin 1",
		"ncclSend 0: 12 of type 1 op 0 from 0x10000 to (nil) on 0x50000 in a group",
		"ncclRecv 0: 16 of type 1 op 0 from (nil) to 0x20000 on 0x50000 in a group",
		"ncclRecv 0: 8 of type 1 op 0 from (nil) to 0x10000 on 0x50000 in a group",
		"end 1",
	}
	if got := log(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	t.Setenv("FAKE_LOG", "")
	if n := allocs.PerRun(100, func() {
		if c.AllReduce(x, x, 5, Float32) != nil || c.Exchange(parts) != nil {
			t.Fatal("failed")
		}
	}); n > 0 {
		t.Errorf("%g allocations a run", n)
	}
	for name, err := range map[string]error{
		"no memory":     c.AllReduce(nil, x, 1, Float32),
		"negative":      c.AllGather(x, y, -1, Float32),
		"nothing there": c.Exchange([]Part{{Rank: 0, SendBytes: 4}}),
		"no such rank":  c.Exchange([]Part{{Rank: 1}}),
	} {
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.AllReduce(x, x, 1, Float32); !errors.Is(err, ErrAborted) {
		t.Errorf("after Close: got %v", err)
	}
}

// An error names the failed call, an open group call is ended, and a remote error
// counts as a lost rank.
func TestFailures(t *testing.T) {
	l, log := fake(t)
	c := alone(t, l)
	x := at(0x10000)
	parts := []Part{{Rank: 0, Send: x, SendBytes: 4, Recv: x, RecvBytes: 4}}
	for _, test := range []struct {
		call   string
		ask    func() error
		groups int
	}{
		{"ncclAllReduce", func() error { return c.AllReduce(x, x, 1, Float32) }, 0},
		{"ncclReduceScatter", func() error { return c.ReduceScatter(x, x, 1, Float32) }, 0},
		{"ncclAllGather", func() error { return c.AllGather(x, x, 1, Float32) }, 0},
		{"ncclGroupStart", func() error { return c.Exchange(parts) }, 0},
		{"ncclSend", func() error { return c.Exchange(parts) }, 1},
		{"ncclRecv", func() error { return c.Exchange(parts) }, 1},
		{"ncclGroupEnd", func() error { return c.Exchange(parts) }, 1},
		{"ncclCommGetAsyncError", c.Err, 0},
	} {
		for status, code := range map[int]exit.Code{3: exit.Bug, 6: exit.RankLost, 2: exit.RankLost} {
			log()
			t.Setenv("FAKE_FAIL", fmt.Sprintf("%s=%d@1", test.call, status))
			err := test.ask()
			var e *CallError
			if !errors.As(err, &e) || e.Call != test.call || e.Status != status || e.Detail != "peer 1 closed its socket" || !strings.Contains(err.Error(), test.call) {
				t.Errorf("%s %d: got %v", test.call, status, err)
			}
			if got := exit.CodeOf(err); got != code {
				t.Errorf("%s %d: exit code %d, want %d", test.call, status, got, code)
			}
			t.Setenv("FAKE_FAIL", "")
			if err := c.AllReduce(x, x, 1, Float32); err != nil {
				t.Errorf("after %s: %v", test.call, err)
			}
			text := strings.Join(log(), "\n")
			if strings.Count(text, "begin") != test.groups || strings.Count(text, "end 1") != test.groups || strings.Contains(text, "ncclAllReduce 0: 1 of type 7 op 0 from 0x10000 to 0x10000 on 0x50000 in a group") {
				t.Errorf("%s: groups are not closed:\n%s", test.call, text)
			}
			if err := c.AllReduce(x, x, 1, Float32); err != nil {
				t.Error(err)
			}
		}
	}
	for _, call := range []string{"ncclCommDestroy", "ncclCommAbort"} {
		c := alone(t, l)
		t.Setenv("FAKE_FAIL", call+"=3@1")
		err := c.Close()
		if call == "ncclCommAbort" {
			c = alone(t, l)
			err = c.Abort(nil)
		}
		if err == nil || !strings.Contains(err.Error(), call) {
			t.Errorf("%s: got %v", call, err)
		}
		t.Setenv("FAKE_FAIL", "")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if got := log(); !strings.HasSuffix(got[len(got)-1], "live 0") {
		t.Errorf("communicators that are left: %s", got[len(got)-1])
	}
}

// limited is a transport with a stall timeout.
type limited struct{ single }

func (limited) StallTimeout() time.Duration { return 50 * time.Millisecond }

// A rank that is lost while the GPUs connect ends the wait after the stall timeout.
func TestJoinTimeout(t *testing.T) {
	l, _ := fake(t)
	t.Setenv("FAKE_HANG", "ncclCommInitRank")
	if _, err := l.Join(comm.New(limited{}), loaded); exit.CodeOf(err) != exit.RankLost || !strings.Contains(err.Error(), "did not connect") {
		t.Errorf("got %v", err)
	}
}

// An abort ends a call that waits for a lost rank; later operations fail with the
// reason.
func TestAbort(t *testing.T) {
	l, log := fake(t)
	c := alone(t, l)
	t.Setenv("FAKE_HANG", "ncclAllReduce")
	x := at(0x10000)
	result := make(chan error, 1)
	go func() { result <- c.AllReduce(x, x, 1, Float32) }()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(os.Getenv("FAKE_LOG")); err == nil && strings.Contains(string(text), "hang 0") {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("the call does not hang")
		}
	}
	if err := c.Err(); err != nil { // does not wait for the call
		t.Error(err)
	}
	lost := errors.New("rank 3 was lost")
	if err := c.Abort(lost); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, ErrAborted) || !errors.Is(err, lost) {
		t.Errorf("the call that hung: got %v", err)
	}
	for name, err := range map[string]error{"AllGather": c.AllGather(x, x, 1, Float32), "Exchange": c.Exchange(nil), "Err": c.Err()} {
		if !errors.Is(err, ErrAborted) || !errors.Is(err, lost) {
			t.Errorf("%s after it: got %v", name, err)
		}
	}
	if err := errors.Join(c.Abort(nil), c.Close()); err != nil {
		t.Error(err)
	}
	if got := log(); got[len(got)-1] != "abort 0, live 0" || strings.Count(strings.Join(got, "\n"), "abort") != 1 {
		t.Errorf("got %q", got)
	}
}

// A watch aborts on an asynchronous error and at the end of its context, and
// otherwise does nothing.
func TestWatch(t *testing.T) {
	l, _ := fake(t)
	c := alone(t, l)
	t.Setenv("FAKE_VALUES", "async=7") // in progress
	stop := c.Watch(context.Background(), time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	if err := errors.Join(stop(), stop()); err != nil {
		t.Errorf("nothing went wrong: got %v", err)
	}
	until := func(c *Comm) {
		t.Helper()
		for begin := time.Now(); !errors.Is(c.Err(), ErrAborted); time.Sleep(time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatal("the watch does not abort")
			}
		}
	}
	stop = c.Watch(context.Background(), time.Millisecond)
	t.Setenv("FAKE_VALUES", "async=6")
	until(c)
	if err := stop(); exit.CodeOf(err) != exit.RankLost || !strings.Contains(err.Error(), "an asynchronous operation: remote process exited") {
		t.Errorf("a rank that was lost: got %v", err)
	}
	t.Setenv("FAKE_VALUES", "async=0")
	c = alone(t, l)
	ctx, cancel := context.WithCancelCause(context.Background())
	stop = c.Watch(ctx, time.Hour)
	why := errors.New("the job failed elsewhere")
	cancel(why)
	until(c)
	if err := stop(); !errors.Is(err, why) {
		t.Errorf("the end of the context: got %v", err)
	}
	c = alone(t, l)
	stop = c.Watch(context.Background(), time.Millisecond)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Errorf("a communicator that was closed: got %v", err)
	}
}

// A missing library, another library, and a version that is too old or too new give
// exit code 69.
func TestMissing(t *testing.T) {
	librariestest.Missing(t, func(find func(libraries.Library) (*dl.Library, error)) error { _, err := Open(find); return err },
		ErrUnavailable, "ncclGetVersion", "ncclCommGetAsyncError", "ncclGroupEnd")
	find, _ := librariestest.Fake(t)
	for version, want := range map[string]string{"2804": "version 0.28.4", "30100": "version 3.1.0"} {
		t.Setenv("FAKE_VALUES", "version="+version)
		if _, err := Open(find); exit.CodeOf(err) != exit.NoDevice || !strings.Contains(err.Error(), want) {
			t.Errorf("version %s: got %v", version, err)
		}
	}
}
