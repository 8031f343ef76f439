// Package client is what people see of a model and do with its machines: the
// facade Client, version 1, and MachineManager, version 2, which adds machines
// too.
//
// Callers are people who may read the model. Methods that change something ask
// for write access.
package client
