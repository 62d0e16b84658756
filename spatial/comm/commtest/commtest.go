// Package commtest is the conformance suite of comm.Transport. Each program
// compares its results with sums computed by one rank and returns an error if they
// differ. All ranks of a job run the same program.
package commtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Program is one conformance test.
type Program struct {
	Name string
	Run  func(c *comm.Comm) error
}

// Programs lists the conformance tests.
var Programs = []Program{
	{"messages", messages},
	{"order of messages", order},
	{"barrier", barrier},
	{"broadcast", broadcast},
	{"reduce-scatter and gather", reduceScatter},
	{"uneven pieces", unevenPieces},
	{"parts", parts},
	{"all-gather", allGather},
	{"all-to-all", allToAll},
	{"all-reduce", allReduce},
	{"bits of sums", bitsOfSums},
	{"split", split},
	{"tasks", tasks},
	{"any of several messages", anyMessage},
	{"signals to a task", signals},
	{"duplicates of groups", duplicates},
}

// lengths of vectors: empty, shorter than the number of ranks, odd, and longer than
// the eager limit of MPI libraries.
var lengths = []int{0, 1, 3, 17, 40_001}

// vector returns the input of rank r: integers, whose sums are exact in every
// order.
func vector(r, n int) []float32 {
	rng := rand.New(rand.NewPCG(uint64(r), uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.IntN(2001) - 1000)
	}
	return x
}

// total returns the sum of the vectors of all ranks.
func total(c *comm.Comm, n int) []float32 {
	sum := make([]float32, n)
	for r := range c.Size() {
		for i, v := range vector(r, n) {
			sum[i] += v
		}
	}
	return sum
}

func same[T comparable](what string, got, want []T) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
	return nil
}

// messages sends each element type once around the ranks.
func messages(c *comm.Comm) error {
	to, from := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
	for _, n := range lengths {
		f32, f64, i64, b := make([]float32, n), make([]float64, n), make([]int64, n), make([]byte, n)
		out64, outInt, outB := make([]float64, n), make([]int64, n), make([]byte, n)
		for i := range n {
			out64[i], outInt[i], outB[i] = float64(c.Rank())+float64(i)/8, int64(c.Rank()*n+i), byte(c.Rank()+i)
		}
		err := comm.WaitAll(c.Recv(from, 0, f32), c.Recv(from, 1, f64), c.Recv(from, 2, i64), c.Recv(from, 3, b),
			c.Send(to, 3, outB), c.Send(to, 2, outInt), c.Send(to, 1, out64), c.Send(to, 0, vector(c.Rank(), n)))
		if err != nil {
			return err
		}
		if err := same("float32", f32, vector(from, n)); err != nil {
			return err
		}
		for i := range n {
			if f64[i] != float64(from)+float64(i)/8 || i64[i] != int64(from*n+i) || b[i] != byte(from+i) {
				return fmt.Errorf("value %d of %d: %v, %d and %d", i, n, f64[i], i64[i], b[i])
			}
		}
	}
	return nil
}

// order sends many messages with one tag before any is received.
func order(c *comm.Comm) error {
	const many = 20
	to, from := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
	var requests []comm.Request
	in := make([][]int64, many)
	for i := range many {
		requests = append(requests, c.Send(to, 7, []int64{int64(i)}))
	}
	for i := range many {
		in[i] = make([]int64, 1)
		requests = append(requests, c.Recv(from, 7, in[i]))
	}
	if err := comm.WaitAll(requests...); err != nil {
		return err
	}
	for i := range many {
		if in[i][0] != int64(i) {
			return fmt.Errorf("got message %d as number %d", in[i][0], i)
		}
	}
	for _, r := range requests {
		if !r.Test() {
			return errors.New("a request is not complete after Wait")
		}
	}
	return nil
}

// barrier passes several barriers in a row.
func barrier(c *comm.Comm) error {
	for range 3 {
		if err := comm.Barrier(c); err != nil {
			return err
		}
	}
	return nil
}

func broadcast(c *comm.Comm) error {
	for root := range c.Size() {
		for _, n := range lengths {
			x := vector(c.Rank(), n)
			if err := comm.Broadcast(c, root, x); err != nil {
				return err
			}
			if err := same(fmt.Sprintf("root %d", root), x, vector(root, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func reduceScatter(c *comm.Comm) error {
	for _, n := range lengths {
		x, want := vector(c.Rank(), n), total(c, n)
		own, err := comm.ReduceScatterV(c, x, comm.SplitEvenly(n, c.Size()), comm.Ring)
		if err != nil {
			return err
		}
		lo, hi := n*c.Rank()/c.Size(), n*(c.Rank()+1)/c.Size()
		if err := same("own piece", own, want[lo:hi]); err != nil {
			return err
		}
		if err := comm.AllGatherInPlace(c, x); err != nil {
			return err
		}
		if err := same("gathered", x, want); err != nil {
			return err
		}
	}
	return nil
}

// unevenPieces compares reduce-scatter into pieces of any length, some empty, with
// the bits of all-reduce by the same algorithm; for Ring only if the pieces are
// even.
func unevenPieces(c *comm.Comm) error {
	const n = 1000
	p := c.Size()
	even, squares := comm.SplitEvenly(n, p), make([]int, p+1)
	for i := range squares {
		squares[i] = n * (i * i / 3) / max(1, p*p/3)
	}
	squares[p] = n
	for _, a := range []comm.Algorithm{comm.Ring, comm.Halving} {
		for _, cuts := range [][]int{even, squares} {
			x, want := vector(c.Rank(), n), total(c, n)
			if a == comm.Halving && p&(p-1) == 0 || cuts[1] == even[1] {
				for i := range x {
					x[i] /= 7
				}
				want = slices.Clone(x)
				b := a
				if p&(p-1) != 0 {
					b = comm.Ring
				}
				if err := comm.AllReduce(c, want, b); err != nil {
					return err
				}
			}
			own, err := comm.ReduceScatterV(c, x, cuts, a)
			if err != nil {
				return err
			}
			k := a.Piece(c.Rank(), p)
			if err := same("own piece", own, want[cuts[k]:cuts[k+1]]); err != nil {
				return err
			}
			if err := comm.AllGatherV(c, x, cuts, a); err != nil {
				return err
			}
			if err := same("gathered", x, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts sums and gathers a vector in slices of any length, some empty, as if it
// were one slice.
func parts(c *comm.Comm) error {
	const n = 600_001
	bounds := []int{0, 5, 5, 200_000, 200_017, 500_000, 599_999, n}
	cuts := comm.SplitEvenly(n, c.Size())
	for r := 1; r < c.Size(); r++ {
		cuts[r] -= 1000 * r % 17
	}
	whole, want := make([]float32, n), make([]float32, n)
	for i := range want {
		want[i] = float32(i % 1001 * c.Size() * (c.Size() + 1) / 2)
	}
	for _, a := range []comm.Algorithm{comm.Ring, comm.Halving} {
		for i := range whole {
			whole[i] = float32(i % 1001 * (c.Rank() + 1))
		}
		var x comm.Parts[float32]
		for i, lo := range bounds[:len(bounds)-1] {
			x = append(x, slices.Clone(whole[lo:bounds[i+1]]))
		}
		if err := comm.ReduceScatterParts(c, x, cuts, a); err != nil {
			return err
		}
		own := a.Piece(c.Rank(), c.Size())
		lo, hi := cuts[own], cuts[own+1]
		if err := same("own piece", slices.Concat(x...)[lo:hi], want[lo:hi]); err != nil {
			return err
		}
		if err := comm.AllGatherParts(c, x, cuts, a); err != nil {
			return err
		}
		if err := same("gathered", slices.Concat(x...), want); err != nil {
			return err
		}
		if err := comm.ReduceScatterParts(c, x[1:], cuts, a); err == nil {
			return fmt.Errorf("piece boundaries of another vector are accepted")
		}
	}
	return nil
}

// tasks runs sums in tasks of another group while the caller sums in its own.
func tasks(c *comm.Comm) error {
	group, err := c.Split(0, c.Rank())
	if err != nil {
		return err
	}
	for range 2 {
		var x [][]float32
		var last *comm.Task
		for _, n := range lengths {
			x = append(x, vector(c.Rank(), n))
			own := x[len(x)-1]
			last = group.Go(last, func(g *comm.Comm) error { return comm.AllReduce(g, own, comm.Ring) })
			y := vector(c.Rank(), n)
			if err := comm.AllReduce(c, y, comm.Doubling); err != nil {
				return err
			}
			if err := same("of the caller", y, total(c, n)); err != nil {
				return err
			}
		}
		if err := last.Wait(c); err != nil {
			return err
		}
		for i, n := range lengths {
			if err := same("of a task", x[i], total(c, n)); err != nil {
				return err
			}
		}
	}
	broken := fmt.Errorf("broken")
	bad := group.Go(nil, func(*comm.Comm) error { return broken })
	next := group.Go(bad, func(*comm.Comm) error { return nil })
	if err := next.Wait(c); err != broken {
		return fmt.Errorf("after a failed task: %v", err)
	}
	return nil
}

// anyMessage receives messages of the next ranks in an order that their senders choose: each
// waits for a reply before it sends the next one, so that one is done at a time.
func anyMessage(c *comm.Comm) error {
	clocked, clock := c.WithWaitClock()
	const reply = 4
	order := []int{2, 0, 3, 1}
	to, from := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
	values, requests := make([][]int64, len(order)), make([]comm.Request, len(order))
	for tag := range order {
		values[tag] = make([]int64, 1)
		requests[tag] = clocked.Recv(from, tag, values[tag])
	}
	for _, tag := range order {
		sent := c.Send(to, tag, []int64{int64(100*c.Rank() + tag)})
		i, err := clocked.WaitAny(requests...)
		if err != nil {
			return err
		}
		if i != tag || values[i][0] != int64(100*from+tag) {
			return fmt.Errorf("message %d with value %d, want %d of rank %d", i, values[i][0], tag, from)
		}
		requests[i] = nil
		if err := comm.WaitAll(sent, c.Send(from, reply, []byte{1}), c.Recv(to, reply, make([]byte, 1))); err != nil {
			return err
		}
	}
	if i, err := clocked.WaitAny(requests...); i != -1 || err == nil {
		return fmt.Errorf("any of no requests: %d, %v", i, err)
	}
	if clock.Waited() == 0 {
		return errors.New("waits for any message are not counted")
	}
	var done []comm.Request
	for i := range 3 { // of several that are done, the first
		done = append(done, c.Recv(c.Rank(), i, make([]byte, 1)), c.Send(c.Rank(), i, []byte{1}))
	}
	if err := comm.WaitAll(done...); err != nil {
		return err
	}
	if i, err := c.WaitAny(nil, done[0], done[1]); i != 1 || err != nil {
		return fmt.Errorf("several that are done: %d, %v", i, err)
	}
	return nil
}

// signals runs a task that serves messages of its own rank and of the rank before it, in the
// order in which they come, while the caller waits for the replies of its task. A cancelled
// task ends although no message comes.
func signals(c *comm.Comm) error {
	const request, reply, rounds = 0, 1, 5
	own, err := c.Duplicate()
	if err != nil {
		return err
	}
	group, err := c.Duplicate()
	if err != nil {
		return err
	}
	from := (c.Rank() - 1 + c.Size()) % c.Size()
	task := group.Go(nil, func(g *comm.Comm) error {
		mine := own.In(g)
		ours, theirs := make([]int64, 1), make([]int64, 1)
		requests := []comm.Request{mine.Recv(c.Rank(), request, ours), g.Recv(from, request, theirs)}
		var count [2]int64
		var sent []comm.Request
		for range 2 * rounds {
			i, err := g.WaitAny(requests...)
			if err != nil {
				return err
			}
			if got := [][]int64{ours, theirs}[i][0]; got != count[i] {
				return fmt.Errorf("message %d of sender %d is %d", count[i], i, got)
			}
			count[i]++
			switch {
			case count[i] == rounds:
				requests[i] = nil
			case i == 0:
				requests[0] = mine.Recv(c.Rank(), request, ours)
			default:
				requests[1] = g.Recv(from, request, theirs)
			}
			if i == 0 {
				sent = append(sent, mine.Send(c.Rank(), reply, []int64{count[0]}), g.Send((c.Rank()+1)%c.Size(), request, []int64{count[0] - 1}))
			}
		}
		return comm.WaitAll(sent...)
	})
	for i := range int64(rounds) {
		got := make([]int64, 1)
		if err := comm.WaitAll(own.Send(c.Rank(), request, []int64{i}), own.Recv(c.Rank(), reply, got)); err != nil {
			return err
		}
		if got[0] != i+1 {
			return fmt.Errorf("reply %d to request %d", got[0], i)
		}
	}
	if err := task.Wait(c); err != nil {
		return err
	}
	idle, err := c.Duplicate()
	if err != nil {
		return err
	}
	stopped := idle.Go(nil, func(g *comm.Comm) error {
		_, err := g.WaitAny(g.Recv(g.Rank(), request, make([]byte, 1)), g.Recv(g.Rank(), reply, make([]byte, 1)))
		return err
	})
	stopped.Cancel()
	if err := stopped.Wait(c); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("a cancelled task: %v", err)
	}
	return nil
}

// duplicates: messages of a group and of its duplicate do not match, also with equal tags.
func duplicates(c *comm.Comm) error {
	d, err := c.Duplicate()
	if err != nil {
		return err
	}
	to, from := (c.Rank()+1)%c.Size(), (c.Rank()-1+c.Size())%c.Size()
	x, y := make([]int64, 1), make([]int64, 1)
	err = comm.WaitAll(c.Recv(from, 0, x), d.Recv(from, 0, y), d.Send(to, 0, []int64{2}), c.Send(to, 0, []int64{1}))
	if err == nil && (x[0] != 1 || y[0] != 2) {
		err = fmt.Errorf("got %d in the group and %d in its duplicate", x[0], y[0])
	}
	return err
}

func allGather(c *comm.Comm) error {
	for _, n := range lengths {
		all, err := comm.AllGather(c, vector(c.Rank(), n))
		if err != nil {
			return err
		}
		var want []float32
		for r := range c.Size() {
			want = append(want, vector(r, n)...)
		}
		if err := same("all", all, want); err != nil {
			return err
		}
	}
	return nil
}

// allToAll sends r+2s+1 values from r to s, and nothing if that is a multiple of 3.
func allToAll(c *comm.Comm) error {
	count := func(r, s int) int {
		if n := r + 2*s + 1; n%3 != 0 {
			return n
		}
		return 0
	}
	out, in := make([][]float32, c.Size()), make([][]float32, c.Size())
	for s := range c.Size() {
		out[s] = vector(c.Rank(), count(c.Rank(), s))
		in[s] = make([]float32, count(s, c.Rank()))
	}
	if err := comm.AllToAll(c, out, in); err != nil {
		return err
	}
	for s := range c.Size() {
		if err := same(fmt.Sprintf("from %d", s), in[s], vector(s, count(s, c.Rank()))); err != nil {
			return err
		}
	}
	return nil
}

// allReduce compares sums of integers, and checks that rounded sums have the same
// bits on all ranks.
func allReduce(c *comm.Comm) error {
	for _, a := range []comm.Algorithm{comm.Auto, comm.Ring, comm.Doubling, comm.Halving} {
		for _, n := range lengths {
			x := vector(c.Rank(), n)
			if err := comm.AllReduce(c, x, a); err != nil {
				return err
			}
			if err := same(a.String(), x, total(c, n)); err != nil {
				return err
			}
		}
		x := vector(c.Rank(), 101)
		for i := range x {
			x[i] /= 7
		}
		if err := comm.AllReduce(c, x, a); err != nil {
			return err
		}
		all, err := comm.AllGather(c, x)
		if err != nil {
			return err
		}
		for r := range c.Size() {
			if err := same(fmt.Sprintf("%v, rank %d", a, r), all[r*len(x):(r+1)*len(x)], x); err != nil {
				return err
			}
		}
	}
	return nil
}

// HardValues returns n values of a rank whose sums depend on their order: cancellations, both zeros, infinities,
// subnormal numbers, and NaN whose bits differ by rank.
func HardValues(rank, n int) []float32 {
	random := rand.New(rand.NewPCG(uint64(rank), 17))
	x := make([]float32, n)
	for i := range x {
		sign := random.IntN(2)
		switch random.IntN(24) {
		case 0:
			x[i] = float32(math.Copysign(0, float64(2*sign-1)))
		case 1:
			x[i] = float32(math.Inf(2*sign - 1))
		case 2:
			x[i] = math.Float32frombits(0x7fc00000 | uint32(sign)<<31 | uint32(rank+1))
		case 3:
			x[i] = math.Float32frombits(uint32(1 + random.IntN(1000)))
		default:
			x[i] = float32(random.NormFloat64() * math.Pow(10, float64(random.IntN(2))))
		}
	}
	return x
}

// bitsOfSums: sums of HardValues have the bits of ranks of one process, on every rank.
func bitsOfSums(c *comm.Comm) error {
	for _, a := range []comm.Algorithm{comm.Ring, comm.Doubling, comm.Halving} {
		for _, n := range []int{1, 97, 1031} { // with empty, uneven and long pieces
			var want []uint32
			err := comm.Run(c.Size(), comm.Parallel, func(o *comm.Comm) error {
				bits, err := sumBits(o, n, a)
				if o.Rank() == 0 {
					want = bits
				}
				return err
			})
			if err != nil {
				return err
			}
			got, err := sumBits(c, n, a)
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("%d values by %v", n, a), got, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// sumBits returns the bits of the sum of HardValues by an all-reduce, and by a reduce-scatter and an all-gather of
// several slices, as gradients travel.
func sumBits(c *comm.Comm, n int, a comm.Algorithm) (bits []uint32, err error) {
	whole, x := HardValues(c.Rank(), n), HardValues(c.Rank(), n)
	if err := comm.AllReduce(c, whole, a); err != nil {
		return nil, err
	}
	parts, cuts := comm.Parts[float32]{x[:n/3], x[n/3:]}, comm.SplitEvenly(n, c.Size())
	if err := comm.ReduceScatterParts(c, parts, cuts, a); err != nil {
		return nil, err
	}
	if err := comm.AllGatherParts(c, parts, cuts, a); err != nil {
		return nil, err
	}
	for _, v := range append(whole, x...) {
		bits = append(bits, math.Float32bits(v))
	}
	return bits, nil
}

// split partitions the ranks by parity, in reverse order, and reduces in the parts
// and over all ranks.
func split(c *comm.Comm) error {
	half, err := c.Split(c.Rank()%2, -c.Rank())
	if err != nil {
		return err
	}
	alone, err := c.Split(map[bool]int{true: 0, false: -1}[c.Rank() == c.Size()-1], 0)
	if err != nil {
		return err
	}
	if (alone != nil) != (c.Rank() == c.Size()-1) {
		return fmt.Errorf("a group for color −1, or none for 0")
	}
	if half.WorldRank(half.Rank()) != c.WorldRank(c.Rank()) || half.Rank() != (c.Size()-1-c.Rank())/2 {
		return fmt.Errorf("rank %d of %d is %d in its half", c.Rank(), c.Size(), half.Rank())
	}
	x, y := []float32{float32(c.Rank())}, []float32{1}
	if err := comm.AllReduce(half, x, comm.Ring); err != nil {
		return err
	}
	if err := comm.AllReduce(c, y, comm.Ring); err != nil {
		return err
	}
	var sum float32
	for r := c.Rank() % 2; r < c.Size(); r += 2 {
		sum += float32(r)
	}
	if x[0] != sum || y[0] != float32(c.Size()) {
		return fmt.Errorf("sums %v and %v, want %v and %d", x[0], y[0], sum, c.Size())
	}
	return nil
}
