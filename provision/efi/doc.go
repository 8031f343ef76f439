// Package efi reads and writes the boot entries of UEFI firmware, and finds the
// loader on an EFI system partition.
//
// Entries are variables below the folder where efivarfs is mounted; a test gives an
// ordinary folder. Layouts are those of the UEFI specification 2.10: load options
// in 3.1.3, boot variables in 3.3, device paths in chapter 10. Firmware is outside
// text: what cannot be parsed is left alone, never removed.
package efi
