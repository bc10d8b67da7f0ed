// Package packed is the byte forms that the SQL engines give to rows, and the decision which row takes what.
// docs/internal/rows.md describes every packed column for a person who reads a database.
//
// # Why rows are packed
//
// An attempt that is assigned and succeeds could be written three times: in the history of its run, as an
// inserted row, and as an updated row. The history is written anyway. So the engines pack the assignment and
// the plain end of a first attempt into the row of the history of their transaction:
//
//	assigned, nothing else     packed (runHands.hand)
//	any other first change     its row is inserted now (FormFirst): running, failed, lost, with outputs
//	a plain success            packed again, if it is the first attempt and has no row yet (FormPacked)
//	later changes              guarded update of the row (FormUpdate): state and handler must be as expected
//
// [Handed] is the writer's memory of attempts without a row: it replaces the guard that such an attempt
// cannot have. Readers use [WithHands], which adds the attempts without a row to those with one. So an engine
// never reads table attempt alone.
//
// The history of a transaction is one row per run. [Past] finds the row that takes it: the run's own row if
// the transaction inserted, began or ended the run, and else a row of table event.
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
