// Package provision installs a machine: it is the pipeline that runs on the
// machine itself, from an initramfs, and turns an empty disk into a configured
// operating system.
//
// An [Orchestrator] runs THE list of steps (list.go), each a literal that holds its
// name, function, retries, time limit, whether it runs again on resume, when it is left
// out, and what to look at when it fails. Steps speak to one another through [Facts]
// alone, which are saved after each step, so a run that failed goes on where it stopped.
//
// A [Configurator] does what concerns the installed system's files: it works on any tree, and
// a test gives it one.
//
// The machine is touched through disk.Manager's seams and below the root folder
// only. What an image contains is outside text: its files are opened below the root, so
// that no link in it leads out.
package provision
