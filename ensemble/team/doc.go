// Package team coordinates the ranks of a job: the shard of the fields that each
// rank holds, the distribution of independent tasks over groups of ranks, the
// exchange of results, and agreement on errors and on the end of a job. It depends
// on fields but not on networks.
//
// A nil Team is a single rank, and the zero Teams a job of one rank, so that
// callers need not distinguish the cases.
package team
