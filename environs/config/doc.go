// Package config holds the settings of a model.
//
// A Config is a value: it never changes, and Apply, Remove and Update make new
// ones. It keeps only what somebody set; a setting that nobody set has the
// default of the table in this package, so a default that changes in a later
// release reaches every model that did not choose otherwise.
//
// Settings that are not in the table belong to the model's provider. A Config
// keeps them as they are; Coerce checks them against the provider's own Schema.
//
// All errors satisfy errors.NotValid and are one line that says what was wrong
// and what would be right.
package config
