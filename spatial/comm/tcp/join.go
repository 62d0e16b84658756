package tcp

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Launch holds what a process needs to know to join a job.
type Launch struct {
	Rank, Size  int
	Coordinator string  // host:port at which rank 0 listens
	Token       string  // processes with another one are refused
	Rate        float64 // bytes per second that a process may send; 0 is without limit
}

// Pauses and limits of connecting.
const (
	dialPause   = 100 * time.Millisecond // between two attempts to reach a process that does not listen yet
	helloTime   = 10 * time.Second       // in which a connected process must have greeted
	defaultJoin = 10 * time.Minute       // for all processes to arrive, without a stall timeout
)

// Join connects all processes of a job. A message that does not arrive within stall fails; 0 is without limit. The processes
// must arrive within that time, or ten minutes.
//
// Errors: exit 64 for launch values that contradict each other or those of other processes; 71 if processes do not arrive.
func Join(l Launch, stall time.Duration) (*World, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	w := &World{rank: l.Rank, size: l.Size, connections: make([]*connection, l.Size), box: newMailbox()}
	if l.Rate > 0 {
		w.limit = &rateLimit{rate: l.Rate}
	}
	patience := stall
	if patience == 0 {
		patience = defaultJoin
	}
	if l.Size > 1 {
		join := w.joinOthers
		if l.Rank == 0 {
			join = w.coordinate
		}
		if err := join(l, time.Now().Add(patience)); err != nil {
			for _, c := range w.connections {
				if c != nil {
					_ = c.Close() // the error is known
				}
			}
			return nil, err
		}
	}
	w.start(stall)
	return w, nil
}

// check refuses launch values that no job can have.
func (l Launch) check() error {
	_, port, err := net.SplitHostPort(l.Coordinator)
	n, e := strconv.Atoi(port)
	if l.Size < 1 || l.Rank < 0 || l.Rank >= l.Size || err != nil || e != nil || n < 1 || n > 65535 || !(l.Rate >= 0) {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("rank %d of %d at coordinator %q: this cannot be a job", l.Rank, l.Size, l.Coordinator),
			Why: "ranks are numbered from 0, below their number, and the coordinator is HOST:PORT", Fix: "set ENSEMBLE_RANKS, ENSEMBLE_RANK and ENSEMBLE_COORDINATOR"}
	}
	return nil
}

// coordinate accepts the connections of all other processes, and tells them their addresses.
func (w *World) coordinate(l Launch, until time.Time) error {
	listener, err := net.Listen("tcp", l.Coordinator)
	if err != nil { // its name may not be known on this machine, or belong to an address in front of it
		_, port, _ := net.SplitHostPort(l.Coordinator)
		var e error
		if listener, e = net.Listen("tcp", ":"+port); e != nil {
			return &exit.Error{Code: exit.Usage, What: "the coordinator cannot listen at " + l.Coordinator, Why: err.Error(), Fix: "set ENSEMBLE_COORDINATOR to an address and a free port of the machine of rank 0", Err: err}
		}
	}
	defer listener.Close()
	addresses := make([]string, l.Size)
	for range l.Size - 1 {
		c, h, err := w.accept(listener, l, 1, until)
		if err != nil {
			return err
		}
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		addresses[h.Rank] = net.JoinHostPort(host, strconv.Itoa(h.Port))
		w.connections[h.Rank] = c
	}
	for _, c := range w.connections[1:] {
		if err := writeLine(c, welcome{Addresses: addresses}); err != nil {
			return joinError(l, err)
		}
	}
	return nil
}

// joinOthers connects with the coordinator, with all lower ranks, and accepts the connections of all higher ones.
func (w *World) joinOthers(l Launch, until time.Time) error {
	c, err := dial(l.Coordinator, until)
	if err != nil {
		return joinError(l, err)
	}
	w.connections[0] = c
	host, _, _ := net.SplitHostPort(c.LocalAddr().String())
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return joinError(l, err)
	}
	defer listener.Close()
	answer, err := greet(c, l, listener.Addr().(*net.TCPAddr).Port, until)
	if err != nil {
		return err
	}
	if len(answer.Addresses) != l.Size {
		return joinError(l, fmt.Errorf("the coordinator knows %d addresses of %d ranks", len(answer.Addresses), l.Size))
	}
	for r := 1; r < l.Rank; r++ {
		if c, err = dial(answer.Addresses[r], until); err != nil {
			return joinError(l, fmt.Errorf("rank %d: %w", r, err))
		}
		w.connections[r] = c
		if _, err := greet(c, l, 0, until); err != nil {
			return err
		}
	}
	for range l.Size - 1 - l.Rank {
		c, h, err := w.accept(listener, l, l.Rank+1, until)
		if err != nil {
			return err
		}
		w.connections[h.Rank] = c
		if err := writeLine(c, welcome{}); err != nil {
			return joinError(l, err)
		}
	}
	return nil
}

// dial connects to a process, which may not listen yet.
func dial(address string, until time.Time) (*connection, error) {
	for {
		c, err := net.DialTimeout("tcp", address, max(time.Until(until), time.Millisecond))
		if err == nil {
			return newConnection(c), nil
		}
		if time.Until(until) < dialPause {
			return nil, err
		}
		time.Sleep(dialPause)
	}
}

// greet introduces this process on a connection and returns the answer.
//
// Errors: exit 64 if the other process refuses this one; 71, also if the greeting or its answer is damaged.
func greet(c *connection, l Launch, port int, until time.Time) (welcome, error) {
	var answer welcome
	_ = c.SetDeadline(until) // an error shows in what follows
	err := writeLine(c, hello{helloFormat, l.Token, l.Size, l.Rank, port})
	if err == nil {
		err = readLine(c.in, &answer, maxHello+64*l.Size)
	}
	if err != nil {
		return answer, joinError(l, err)
	}
	_ = c.SetDeadline(time.Time{})
	if answer.Damaged != "" {
		return answer, joinError(l, &damagedError{"the greeting of this rank: " + answer.Damaged})
	}
	if answer.Refused != "" {
		return answer, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("rank %d is not accepted into the job", l.Rank), At: c.RemoteAddr().String(), Why: answer.Refused,
			Fix: "give all processes the same ENSEMBLE_RANKS, ENSEMBLE_COORDINATOR and ENSEMBLE_JOB, each its own ENSEMBLE_RANK, and the same program"}
	}
	return answer, nil
}

// accept returns the next connection of a process with rank least or more. Connections of other programs, and damaged greetings,
// are refused and do not end the job.
//
// Errors: exit 64 for a process of this job with contradicting values; 71 if none arrives.
func (w *World) accept(listener net.Listener, l Launch, least int, until time.Time) (*connection, hello, error) {
	for {
		_ = listener.(*net.TCPListener).SetDeadline(until)
		conn, err := listener.Accept()
		if err != nil {
			return nil, hello{}, joinError(l, errors.Join(err, w.missing(least)))
		}
		c := newConnection(conn)
		h, answer, err := w.admit(c, l, least)
		if answer.accepts() {
			return c, h, nil
		}
		_ = writeLine(c, answer)
		_ = c.Close()
		if err != nil {
			return nil, h, err
		}
	}
}

// admit reads the greeting of a process. The answer is empty if the process is accepted, else what it is to be answered.
//
// Errors: as accept, of a process of this job.
func (w *World) admit(c *connection, l Launch, least int) (h hello, answer welcome, err error) {
	_ = c.SetDeadline(time.Now().Add(helloTime)) // an error shows in what follows
	err = readLine(c.in, &h, maxHello)
	_ = c.SetDeadline(time.Time{})
	switch {
	case err != nil: // of another program, or of a rank, which must not take this for a contradiction
		return h, welcome{Damaged: err.Error()}, nil
	case h.Format != helloFormat || subtle.ConstantTimeCompare([]byte(h.Token), []byte(l.Token)) == 0:
		return h, welcome{Refused: "another program, version or token than that of the job"}, nil
	case h.Size != l.Size:
		answer.Refused = fmt.Sprintf("rank %d of a job of %d, this one has %d", h.Rank, h.Size, l.Size)
	case h.Rank < least || h.Rank >= l.Size || h.Port < 0 || h.Port > 65535:
		answer.Refused = fmt.Sprintf("rank %d is not expected", h.Rank)
	case w.connections[h.Rank] != nil:
		answer.Refused = fmt.Sprintf("two processes are rank %d", h.Rank)
	default:
		return h, answer, nil
	}
	return h, answer, &exit.Error{Code: exit.Usage, What: "the processes of the job contradict each other", At: c.RemoteAddr().String(), Why: answer.Refused,
		Fix: "give all processes the same ENSEMBLE_RANKS and each its own ENSEMBLE_RANK"}
}

// missing names the ranks from least on that have not connected.
func (w *World) missing(least int) error {
	var ranks []int
	for r := least; r < w.size; r++ {
		if w.connections[r] == nil {
			ranks = append(ranks, r)
		}
	}
	return fmt.Errorf("ranks %v have not connected", ranks)
}

// joinError is the error of a process that cannot reach the others.
func joinError(l Launch, err error) error {
	return &exit.Error{Code: exit.RankLost, What: fmt.Sprintf("rank %d of %d cannot join the job", l.Rank, l.Size), At: l.Coordinator, Why: err.Error(),
		Fix: "check that all processes run and reach the coordinator, and run the same command again", Err: err}
}
