// Package migrate copies a store's documents into another store, while the first
// is in use.
//
// It subscribes to the source's changes, copies every collection page by page,
// and then writes what changes, until a fence: from then on nobody writes to the
// source. Then it compares every document of both stores, and repairs what
// differs, until nothing does. The document that makes the target a site is
// written last, together with the end of the migration, so that a target that
// is not whole is never taken for a site.
//
// The source is only read. What is interrupted is begun anew: the target is
// emptied then.
package migrate
