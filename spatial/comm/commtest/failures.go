package commtest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/liveness"
)

// Job is a transport between processes that tells a failure to the others.
type Job interface {
	comm.Transport
	Fail(report []byte, patience time.Duration)
	Close() error
}

// RunRank runs a program as one process of a job: "programs" are all of Programs, "parts N" the same on N hosted ranks, other
// names are those of failures.
//
// Errors: those of the program; after a stall the process ends with exit 71.
func RunRank(what string, join func(stall time.Duration) (Job, error)) error {
	fails := failures[what]
	if f := hostedFailures[what]; f != nil {
		fails = func(c *comm.Comm, _ Job) error { return comm.HostRanks(c, 7, f) }
	}
	stall := time.Minute
	if fails != nil && what != "fails" {
		stall = ShortStall
	}
	j, err := join(stall)
	if err != nil {
		return err
	}
	c := comm.New(j)
	if fails != nil {
		if err = fails(c, j); err == nil {
			return nil // without leaving the job
		}
		fmt.Fprintf(os.Stderr, "rank %d: %v\n", c.Rank(), err)
		runtime.GC() // collect abandoned requests, as a process would that goes on to report an error
		time.Sleep(20 * time.Millisecond)
		if errors.Is(err, liveness.ErrStalled) {
			os.Exit(int(exit.RankLost))
		}
		return err
	}
	if parts, hosted := strings.CutPrefix(what, "parts "); hosted {
		n, _ := strconv.Atoi(parts)
		err = comm.HostRanks(c, n, runPrograms)
	} else {
		err = runPrograms(c)
	}
	if err != nil {
		return err
	}
	return j.Close()
}

// runPrograms runs all programs, and prints the number of ranks on success.
func runPrograms(c *comm.Comm) error {
	for _, p := range Programs {
		if err := p.Run(c); err != nil {
			err = fmt.Errorf("%s: rank %d of %d: %w", p.Name, c.Rank(), c.Size(), err)
			fmt.Fprintln(os.Stderr, err)
			return err
		}
	}
	if c.Rank() == 0 {
		fmt.Printf("passed on %d ranks\n", c.Size())
	}
	return nil
}

// ShortStall is the stall timeout of ranks that fail.
const ShortStall = 2 * time.Second

// failures are programs of three ranks of which rank 1 fails. Rank 0 waits for rank
// 2, which waits for rank 1.
var failures = map[string]func(c *comm.Comm, j Job) error{
	"sleeps": func(c *comm.Comm, _ Job) error {
		if c.Rank() == 1 {
			time.Sleep(time.Minute)
		}
		return around(c)
	},
	"is stopped": func(c *comm.Comm, _ Job) error {
		for c.Rank() == 1 { // launchers may continue it
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return err
			}
		}
		return around(c)
	},
	"leaves": func(c *comm.Comm, j Job) error {
		if c.Rank() == 1 {
			return j.Close()
		}
		return around(c)
	},
	"fails": func(c *comm.Comm, j Job) error {
		const reported = 7
		if c.Rank() == 1 {
			j.Fail([]byte("its disk is full"), time.Minute)
			return errors.Join(c.Recv(0, reported, make([]byte, 1)).Wait(), c.Recv(2, reported, make([]byte, 1)).Wait(), errors.New("ends last"))
		}
		err := around(c)
		fmt.Fprintf(os.Stderr, "rank %d: %v\n", c.Rank(), err)
		_ = c.Send(1, reported, []byte{1}).Wait() // ends with the same error if the message takes a while
		time.Sleep(time.Minute)                   // rank 1 ends the job
		return err
	},
	"is killed": func(c *comm.Comm, _ Job) error {
		if c.Rank() == 1 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return err
			}
		}
		return around(c)
	},
	"sleeps while others wait for any message": func(c *comm.Comm, _ Job) error {
		if c.Rank() == 1 {
			time.Sleep(time.Minute)
		}
		return taskOfAny(c).Wait(c)
	},
	"computes": func(c *comm.Comm, j Job) error {
		task := taskOfAny(c)
		time.Sleep(ShortStall + ShortStall/2) // all ranks: their tasks wait longer than the stall timeout
		return errors.Join(c.Send(c.Rank(), 1, []byte{1}).Wait(), task.Wait(c), j.Close())
	},
	"loses a message": func(c *comm.Comm, _ Job) error {
		if c.Rank() == 1 {
			return c.Recv(2, 1, make([]byte, 1)).Wait() // sends nothing to rank 2, and waits for it
		}
		return around(c)
	},
}

// hostedFailures are programs of seven hosted ranks on three processes, of which
// hosted rank 3 of process 1 fails. The others communicate in rounds that make
// every process wait for itself and for all others.
var hostedFailures = map[string]func(c *comm.Comm) error{
	"a part sleeps": func(c *comm.Comm) error {
		if c.Rank() == 3 {
			time.Sleep(time.Minute)
		}
		return comm.Barrier(c)
	},
	"its process is stopped": func(c *comm.Comm) error {
		for c.Rank() == 3 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return err
			}
		}
		return comm.Barrier(c)
	},
	"a part is broken": func(c *comm.Comm) error {
		if c.Rank() == 3 {
			return errors.New("broken")
		}
		return comm.Barrier(c)
	},
}

// around sends a byte from rank 1 to rank 2 to rank 0.
func around(c *comm.Comm) error {
	token := []byte{1}
	if c.Rank() != 1 {
		if err := c.Recv((c.Rank()+2)%3, 0, token).Wait(); err != nil {
			return err
		}
	}
	return c.Send((c.Rank()+1)%3, 0, token).Wait()
}

// taskOfAny starts a task that waits for a message of its own rank or of rank 1.
func taskOfAny(c *comm.Comm) *comm.Task {
	return c.Go(nil, func(g *comm.Comm) error {
		_, err := g.WaitAny(g.Recv(1, 0, make([]byte, 1)), g.Recv(g.Rank(), 1, make([]byte, 1)))
		return err
	})
}
