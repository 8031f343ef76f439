// Package network holds addresses, and what can be told from their text.
package network

// AddressType says how an address is written.
type AddressType string

// The types of address.
const (
	IPv4     AddressType = "ipv4"
	IPv6     AddressType = "ipv6"
	HostName AddressType = "hostname"
)

// Scope says from where an address can be reached.
type Scope string

// The scopes of an address.
const (
	ScopeUnknown      Scope = ""
	ScopePublic       Scope = "public"
	ScopeCloudLocal   Scope = "local-cloud"
	ScopeMachineLocal Scope = "local-machine"
	ScopeLinkLocal    Scope = "link-local"
)

// Address is where something can be reached, without a port.
type Address struct {
	Value     string      `json:"value"`
	Type      AddressType `json:"type"`
	Scope     Scope       `json:"scope"`
	SpaceName string      `json:"space-name,omitempty"`
}

// HostPort is an address with a port.
type HostPort struct {
	Address
	Port int `json:"port"`
}
