package apiserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// noDeadline takes away a deadline.
var noDeadline time.Time

// frames sends one frame again and again and reads the answers into a buffer
// that it keeps, so that next to nothing but the server is measured.
func frames(b *testing.B, ws *websocket.Conn, frame string) {
	raw := []byte(frame)
	var buf [64 << 10]byte
	b.ReportAllocs()
	for b.Loop() {
		if err := ws.WriteMessage(websocket.TextMessage, raw); err != nil {
			b.Fatal(err)
		}
		_, r, err := ws.NextReader()
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = r.Read(buf[:])
		}
	}
}

// rawAs is a websocket on which a caller is logged in.
func rawAs(b *testing.B, s *site, path string, who credentials) *websocket.Conn {
	b.Helper()
	ws, _, err := s.raw(path)
	if err != nil {
		b.Fatal(err)
	}
	login := fmt.Sprintf(`{"request-id":1,"type":"Admin","version":3,"request":"Login","params":{"auth-tag":%q,"credentials":%q,"nonce":%q}}`,
		who.tag, who.password, who.nonce)
	if err := ws.WriteMessage(websocket.TextMessage, []byte(login)); err != nil {
		b.Fatal(err)
	}
	if _, _, err := ws.ReadMessage(); err != nil {
		b.Fatal(err)
	}
	if err := ws.SetReadDeadline(noDeadline); err != nil {
		b.Fatal(err)
	}
	return ws
}

// BenchmarkLife is Provisioner.Life of one machine over TLS, with the embedded
// store.
func BenchmarkLife(b *testing.B) {
	s := newEmbeddedSite(b)
	statetest.AddMachine(b, s.Default, state.MachineSpec{})
	ws := rawAs(b, s, modelPath(s.Default.ModelUUID()), manager)
	frames(b, ws, `{"request-id":2,"type":"Provisioner","version":3,"request":"Life","params":{"entities":[{"tag":"machine-0"}]}}`)
}

// BenchmarkBulk are calls about 1,000 machines, and FullStatus of 10,000.
func BenchmarkBulk(b *testing.B) {
	s := newEmbeddedSite(b)
	specs := make([]state.MachineSpec, 1000)
	for i := range specs {
		specs[i] = state.MachineSpec{Series: "jammy", Jobs: []job.Job{job.HostUnits}}
	}
	for range 10 {
		if _, err := s.Default.Machines().Add(b.Context(), specs); err != nil {
			b.Fatal(err)
		}
	}
	path := modelPath(s.Default.ModelUUID())
	var args params.Entities
	for i := range specs {
		args.Entities = append(args.Entities, params.Entity{Tag: fmt.Sprintf("machine-%d", i)})
	}
	worker, operator := s.as(path, manager), s.as(path, admin)
	for _, method := range []string{"Life", "Status", "InstanceId", "Constraints", "ProvisioningInfo"} {
		b.Run(method+"/1000", func(b *testing.B) {
			for b.Loop() {
				if err := call(worker, "Provisioner", 3, method, args, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("FullStatus/10000", func(b *testing.B) {
		for b.Loop() {
			if err := call(operator, "Client", 1, "FullStatus", params.StatusParams{}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
