package cluster

// clock is the event queue of a simulation: a binary heap ordered by time, then by
// the order of scheduling.
type clock struct {
	now    Time
	seq    uint64   // number of events scheduled so far
	due    []event  // binary heap
	ending []func() // run after the last event of the current time
	done   int64    // number of events processed
}

// event is a function to call at a time.
type event struct {
	at  Time
	seq uint64 // order of scheduling, for equal times
	do  func()
}

// before reports whether e happens before f.
func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// at schedules a call at time t, which must not be before the current time.
//
// Cost: O(log n) for n scheduled events.
func (c *clock) at(t Time, do func()) {
	c.seq++
	c.due = append(c.due, event{t, c.seq, do})
	for i := len(c.due) - 1; i > 0; {
		parent := (i - 1) / 2
		if !c.due[i].before(c.due[parent]) {
			break
		}
		c.due[i], c.due[parent] = c.due[parent], c.due[i]
		i = parent
	}
}

// atEnd schedules a call after all events of the current time.
func (c *clock) atEnd(do func()) { c.ending = append(c.ending, do) }

// next processes the next event and reports whether there was one. Events that
// atEnd scheduled run after the last event of the current time, before time
// advances.
func (c *clock) next() bool {
	switch {
	case len(c.due) > 0 && c.due[0].at == c.now:
	case len(c.ending) > 0:
		ending := c.ending
		c.ending = nil
		for _, do := range ending {
			do()
		}
		return true
	case len(c.due) == 0:
		return false
	}
	e := c.pop()
	c.now = e.at
	c.done++
	e.do()
	return true
}

// pop removes and returns the first event of the heap.
func (c *clock) pop() event {
	first, last := c.due[0], len(c.due)-1
	c.due[0], c.due[last] = c.due[last], event{}
	c.due = c.due[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if c.due[child].before(c.due[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		c.due[i], c.due[least] = c.due[least], c.due[i]
		i = least
	}
}
