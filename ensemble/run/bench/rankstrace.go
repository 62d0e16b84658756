package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Threads of a rank in a trace. Messages that are in transit at the same time need further ones.
const (
	stepThread = 1 + iota
	waitThread
	sumThread
	messageThread
)

// traceTag is the message tag of the events of a rank.
const traceTag = 1

// writeTrace runs one more step and writes its timeline on all ranks, each from the time at which it leaves a barrier. Rank 0 writes
// the file.
//
// Errors: exit 73 and 74 for the file; failures of ranks.
func (r *rankRun) writeTrace(ctx context.Context, path string) error {
	if err := comm.Barrier(r.c); err != nil {
		return err
	}
	r.clock.Record()
	begin := time.Now()
	s := &StepRecord{Phase: BenchTrain}
	err := r.plan.Run(ctx, r.n)
	s.Graph = time.Since(begin)
	if err == nil {
		_, err = r.opt.Step(benchRate)
	}
	s.Whole = time.Since(begin)
	s.Optimizer, s.Kernels = s.Whole-s.Graph, r.plan.Timeline(engine.Peaks{})
	spans := r.clock.Spans()
	if err != nil {
		return err
	}
	t := &trace{cases: r.c.Rank()}
	t.addRank(r.of, r.c.Rank(), s, spans, begin)
	return r.gatherTrace(t, path)
}

// gatherTrace writes the events of all ranks on rank 0.
func (r *rankRun) gatherTrace(t *trace, path string) error {
	text, err := json.Marshal(t.Events)
	if err != nil {
		return err
	}
	sizes, err := comm.AllGather(r.c, []int64{int64(len(text))})
	if err != nil {
		return err
	}
	if r.c.Rank() > 0 {
		return r.c.Send(0, traceTag, text).Wait()
	}
	for rank := 1; rank < r.c.Size(); rank++ {
		text := make([]byte, sizes[rank])
		if err := r.c.Recv(rank, traceTag, text).Wait(); err != nil {
			return err
		}
		var events []traceEvent
		if err := json.Unmarshal(text, &events); err != nil {
			return err
		}
		t.Events = append(t.Events, events...)
	}
	return t.save(path)
}

// addRank appends the step of a rank and what it communicated, from the time begin on.
func (t *trace) addRank(c Case, rank int, s *StepRecord, spans []comm.Span, begin time.Time) {
	t.cases++
	t.name("process_name", 0, fmt.Sprintf("rank %d: %v", rank, c))
	t.name("thread_name", stepThread, string(s.Phase))
	t.step(stepThread, c, s)
	t.name("thread_name", waitThread, "waits")
	t.name("thread_name", sumThread, "sums of gradients")
	slices.SortStableFunc(spans, func(a, b comm.Span) int { return cmp.Compare(a.Begin.Sub(b.Begin), 0) })
	var ends []time.Time // of the messages in each row
	sums := 0
	for _, x := range spans {
		start, d := x.Begin.Sub(begin), x.End.Sub(x.Begin)
		switch x.Kind {
		case comm.WaitSpan:
			t.span(waitThread, "wait", string(x.Kind), start, d, nil)
		case comm.TaskSpan:
			sums++
			t.span(sumThread, fmt.Sprintf("sum %d", sums), string(x.Kind), start, d, map[string]any{"bytes_sent": x.Bytes})
		default:
			row := slices.IndexFunc(ends, func(end time.Time) bool { return !end.After(x.Begin) })
			if row < 0 {
				row = len(ends)
				ends = append(ends, time.Time{})
				t.name("thread_name", messageThread+row, "messages")
			}
			ends[row] = x.End
			t.span(messageThread+row, fmt.Sprintf("%s %d", x.Kind, x.Peer), string(x.Kind), start, d, map[string]any{"peer": x.Peer, "bytes": x.Bytes})
		}
	}
}
