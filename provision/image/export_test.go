package image

// Unpack is what unpacks images, for benchmarks of that alone.
var Unpack = unpack
