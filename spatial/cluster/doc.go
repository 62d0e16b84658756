// Package cluster runs programs of many ranks on a virtual clock: the collectives of
// package comm as they are, and messages that take the time that a model or a network
// says. So plans for thousands of ranks are priced without the machine.
//
//	network, err := cluster.Parse("hx:2,2,16,16", cluster.FastCable)
//	...
//	wiring := cluster.Wiring{Topology: network, Alpha: 5 * cluster.Microsecond}
//	result, err := cluster.Run(1024, cluster.Fluid{Wiring: wiring}, cluster.Options{}, func(r *cluster.Rank) error {
//		r.Compute(20 * cluster.Millisecond)
//		return comm.AllReduce(r.Comm, make([]comm.SizeOnly, 17_142_689), comm.Ring)
//	})
//	fmt.Println(result.Time())
//
// Ranks are coroutines, of which one runs at a time; running takes no virtual time, but
// Rank.Compute and messages do. Events happen in the order of time and then of being
// asked for, so a program gives the same result in every run. Time is counted in
// picoseconds, sizes in bytes, rates in bytes a second.
//
// Networks: LogGP knows only the ends of a message. Fluid leads it over the links of a
// Topology, and is right where messages are cut into many packets; tests judge both by
// simpler networks, one of which lets single packets queue. Nodes joins two networks,
// within and between nodes of several ranks.
//
// What it leaves out: buffers are endless, so messages are not refused and cannot
// block each other for ever; a route does not depend on the load; adding values takes no
// time.
package cluster
