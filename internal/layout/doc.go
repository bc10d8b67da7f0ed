// Package layout places the tasks of a graph for a drawing: each task gets a column and a height. Every
// task is in a later column than all tasks that it needs. The result depends on nothing but the graph, so
// that every node and every page shows the same picture, and an answer can be cached for as long as the
// version exists.
//
// The method is that of Sugiyama: longest paths give the columns, barycentres the order within a column,
// and averages of the neighbours the heights (pool adjacent violators). An edge over several columns reserves
// a position in each of them, so that it seldom runs behind a task; an edge over more than jumpColumns
// reserves none.
package layout
