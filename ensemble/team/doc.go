// Package team is how the ranks of a job work together: what each has of fields that are
// cut, what they tell each other of pieces that do not depend on each other, and how they
// agree on an end. It knows fields of the domain and no network.
//
// A nil Team is one rank alone, and a Crew without teams a job of one: callers do not ask
// which they have.
package team
