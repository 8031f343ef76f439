// Package bmc knows how a host's management controller (BMC) is named and how
// one logs in to it.
//
// An address is one of
//
//	HOST                                 IPMI on port 623
//	HOST:PORT                            IPMI
//	SCHEME://HOST[:PORT][/PATH]          any scheme of Drivers
//	SCHEME+http://..., SCHEME+https://   with the transport spelled out; https is the default
//	SCHEME:HOST...                       the same without the slashes
//
// HOST is a DNS name, an IPv4 address, or an IPv6 address, which needs brackets
// if anything follows it. PATH is the path of the Redfish system; without it the
// BMC's only system is meant. The ipmi schemes alone take a query:
// privilegelevel=ADMINISTRATOR, OPERATOR, USER or CALLBACK.
//
// User names and passwords do not belong into an address and are refused there.
// No error of this package quotes one.
package bmc
