// Package dbadmin works on the database of the settings without a node: it opens the database, tells its
// state, migrates, copies, backs up, restores and verifies it, and shows the rows of a run. A node uses it to
// open its own database.
//
// Functions that change a database refuse one that is in use, as far as they can find that out: by the lock
// of the data folder, by the locks of an SQLite file, and by the members of a cluster.
package dbadmin
