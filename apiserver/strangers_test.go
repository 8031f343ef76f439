package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/slipway-project/slipway/internal/testlog"
)

// loginFrame is a request to log in, with padding of some bytes.
func loginFrame(t *testing.T, who credentials, padding int) []byte {
	t.Helper()
	frame, err := json.Marshal(map[string]any{
		"request-id": 1, "type": "Admin", "version": 3, "request": "Login",
		"params": map[string]string{"auth-tag": who.tag, "credentials": who.password, "padding": strings.Repeat("x", padding)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// TestStrangersSendLittle: who is not logged in cannot fill the server's memory,
// and who is may send what the protocol allows.
func TestStrangersSendLittle(t *testing.T) {
	s := newSite(t)
	dial := func() *websocket.Conn {
		ws, _, err := s.raw("/api")
		if err != nil {
			t.Fatal(err)
		}
		return ws
	}
	ws := dial()
	_ = ws.WriteMessage(websocket.TextMessage, loginFrame(t, admin, 1<<20)) // may fail when the server has had enough
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
		t.Errorf("after a login of 1 MiB: %v, want the connection closed for it", err)
	}
	ws = dial()
	exchange := func(frame []byte) string {
		if err := ws.WriteMessage(websocket.TextMessage, frame); err != nil {
			t.Fatal(err)
		}
		_, answer, err := ws.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	if got := exchange(loginFrame(t, admin, 64<<10)); strings.Contains(got, `"error"`) {
		t.Fatalf("login with much beside it: %s", got)
	}
	large := fmt.Sprintf(`{"request-id":2,"type":"Pinger","version":1,"request":"Ping","params":{"x":"%s"}}`, strings.Repeat("x", 3<<20))
	if got := exchange([]byte(large)); got != `{"request-id":2,"response":{}}` {
		t.Errorf("a request of 3 MiB once logged in: %s", got)
	}
}

// TestStrangersDoNotFillTheLog: what goes wrong with connections of strangers is
// told once, however many there are.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	log := testlog.Capture(t)
	s := newSite(t)
	for range 20 {
		ws, _, err := s.raw("/api")
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.WriteMessage(websocket.TextMessage, []byte("{")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ws.ReadMessage(); err == nil {
			t.Fatal("a malformed message was answered")
		}
	}
	s.server.Kill()
	if err := s.server.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log.String(), "malformed message"); got != 1 {
		t.Errorf("20 malformed messages are in the log %d times, want once:\n%s", got, log)
	}
}
