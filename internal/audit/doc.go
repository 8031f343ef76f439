// Package audit keeps the audit log: a file of JSON lines, one for each login
// and for each call that may change something, with who did it, to what, and
// what came of it. Nothing of a call's parameters is in it but names.
//
// Lines are written in the order in which calls end, by one goroutine. When the
// file cannot be written they wait, as many as there is room for; what does not
// find room is counted, and the count is written once the file can be. The
// process says once that there is trouble, and Failing tells of it as long as it
// lasts. A line is in the file, though perhaps not yet on the disk, some
// milliseconds after its call.
package audit
