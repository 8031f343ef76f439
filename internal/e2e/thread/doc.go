// Package thread tells the story of a site with the real programs as separate
// processes: prepared, served, asked for machines, stopped, found again; and
// what they say when they are called wrongly.
package thread
