// Package packed has the byte forms of data that the SQL engines pack into rows, and decides which row
// contains which data. docs/internal/rows.md describes every packed column for a person who reads a database.
//
// # Why rows are packed
//
// Without packing, an attempt that is assigned and succeeds would be written three times: in the history of
// its run, as an inserted row, and as an updated row. The history is written anyway. So the engines pack the
// assignment and the plain end of a first attempt into the row with the history of their transaction:
//
//	assigned, nothing else     packed (runHands.hand)
//	any other first change     its row is inserted now (FormFirst): running, failed, lost, with outputs
//	a plain success            packed again, if it is the first attempt and has no row yet (FormPacked)
//	later changes              guarded update of the row (FormUpdate): state and handler must be as expected
//
// [Handed] is the writer's memory of attempts without a row. It replaces the guard of an update, because a
// missing row cannot have a guard. Readers use [WithHands], which adds the attempts without a row to the
// attempts with a row. So an engine never reads the table attempt alone.
//
// The history of a transaction is one row per run. [Past] finds the row for it: the run's own row if the
// transaction inserted, began or ended the run, and otherwise a row of the table event.
//
// # What is here
//
//	hands.go    the bytes of attempts without a row
//	handed.go   which attempts have none: Handed, HandPlan
//	history.go  which row takes the history of a transaction
//	lists.go    lists of runs on SQLite: pages of bits, rows of lines
//	hears.go    the names that a trigger listens to
//	index.go    RunIndex, which all of them use
//
// The forms of graphs, task states, claims, fires, records and instants are in package dag, because dag alone
// can say whether they are valid. Engines store these bytes as they are.
package packed
