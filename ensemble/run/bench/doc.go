// Package bench measures training steps and predictions of networks: times, FLOP rates, bytes and memory, on
// one process or on ranks. It also checks that several ranks compute the same as one:
//
//	r, err := bench.Run(ctx, bench.Options{Cases: []bench.Case{c}, Seconds: 3})
package bench
