// Package media builds what an installer boots from, and reads it back.
//
// From a kernel with its modules it makes an initramfs, one EFI program that holds
// kernel, command line and initramfs (a unified kernel image, which can be signed), and an
// ISO 9660 medium that starts it. What belongs to one host, its config.Boot, is a file on
// the medium beside that program, so the program is the same for all and its signature stays good.
package media
