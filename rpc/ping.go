package rpc

import (
	"time"

	"github.com/gorilla/websocket"
)

// answerPings has pings answered, each within the time that any other frame has. By
// itself the websocket gives a pong one second: a process that is held up for so long
// loses the connection, since TLS takes no further write after one that was late.
func answerPings(ws *websocket.Conn, within time.Duration) {
	ws.SetPingHandler(func(data string) error {
		// A failure shows at the next write, or to the peer as silence.
		_ = ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(within))
		return nil
	})
}
