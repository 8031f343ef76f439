// Package constraints says what a machine must be like, and parses, prints,
// validates and merges such demands.
//
// Constraints are written as name=value pairs separated by spaces, for example
// "arch=amd64 mem=4G tags=ssd,^slow". A pair with an empty value is a demand
// too: it takes back what the model asks for.
//
// Values come from two places, the model and the machine. A Validator, which a
// provider hands out, says which constraints the provider cannot honour,
// which exclude each other, and which values it knows; its Merge combines
// both values into the one that the machine keeps.
package constraints
