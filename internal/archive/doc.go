// Package archive writes and reads backups: files in one tar file, with a
// manifest before them that has a checksum of each, and one of the manifest
// after them.
//
//	manifest.json     what the archive is of, and its files
//	NAME              each file, compressed, and encrypted if there is a passphrase
//	manifest.sha256   the checksum of the first entry; an archive without it is cut off
//
// With a passphrase every file is encrypted with AES-256-GCM in pieces of
// 64 KiB, each with its number and whether it is the last one in its nonce, so
// that none can be left out, repeated or moved. The passphrase becomes a key
// by argon2id, that one a key for each file by HKDF. Checksums are of what is
// stored, so that damage can be told without the passphrase.
package archive
