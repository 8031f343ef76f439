// Package logfile keeps the logs of models: a folder for each, with files of JSON
// lines. Lines are added to the newest file. When that is large or old a new one
// is begun, and the oldest are removed, so that a log keeps within a size and an
// age.
//
// A reader follows the files; it waits for news without polling, and one that is
// too slow misses what is removed meanwhile.
package logfile
