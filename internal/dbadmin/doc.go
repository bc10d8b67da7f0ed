// Package dbadmin works on the database of the settings without a node. It opens the database, reports its
// state, migrates, copies, backs up, restores and verifies it, and shows the rows of a run. A node also opens
// its own database with this package.
//
// A function that changes a database refuses a database that is in use, as far as it can detect that: by the
// lock of the data folder, by the locks of an SQLite file, and by the members of a cluster.
package dbadmin
