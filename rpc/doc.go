// Package rpc carries numbered requests and their replies over one websocket.
// It knows no facade: what a request means is up to the Root that a server
// gives to a Conn.
//
// Each websocket message holds one JSON object. Two spellings of the envelope
// exist, and a reply uses the spelling of its request:
//
//	{"request-id":1,"type":"T","version":3,"id":"","request":"M","params":{}}
//	{"request-id":1,"response":{}}
//	{"request-id":1,"error":"why","error-code":"kind","response":{}}
//
//	{"RequestId":1,"Type":"T","Version":3,"Id":"","Request":"M","Params":{}}
//	{"RequestId":1,"Response":{}}
//
// A message is read in the first spelling; if that yields no number, or number
// zero, it is read in the second. Keys match whatever their case. The keys of
// params and response do not depend on the spelling.
package rpc
