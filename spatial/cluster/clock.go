package cluster

// clock does what is due, in the order of time and then of asking.
type clock struct {
	now    Time
	seq    uint64  // how often
	due    []event // a binary heap
	ending []func()
	done   int64 // events so far
}

// event is something to do at a time.
type event struct {
	at  Time
	seq uint64
	do  func()
}

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// at asks for something to be done at a time that has not passed.
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

// atEnd asks for something to be done once nothing else is left for this moment.
func (c *clock) atEnd(do func()) { c.ending = append(c.ending, do) }

// next does the next thing; it tells whether there was one.
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

// pop takes the first event off the heap.
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
