// Package cluster simulates programs of many ranks on a virtual clock. It runs the
// collectives of package comm unchanged; messages take the time that a network
// model predicts. Plans for thousands of ranks can thus be evaluated on one
// processor.
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
// It is a discrete-event simulation. Ranks are coroutines, one of which runs at a
// time. Code takes no virtual time; only Rank.Compute and messages do. Events
// happen in the order of time, and events of equal time in the order in which they
// were scheduled, so every run of a program gives the same result.
//
// Network models: LogGP models only the two ends of a message. Fluid routes
// messages over the links of a Topology as flows that share bandwidth, which is
// accurate for messages of many packets. Nodes combines two networks, one within
// and one between nodes. Tests compare both models with simpler ones, among them
// store-and-forward of single packets.
//
// Limitations: buffers are unlimited, so there is no back pressure and no deadlock
// by congestion; routes do not depend on load; the additions of a reduction take no
// time.
//
// Unit: time in picoseconds, sizes in bytes, rates in bytes per second.
package cluster
